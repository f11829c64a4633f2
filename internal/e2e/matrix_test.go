package e2e

import (
	"fmt"
	"sync"
	"testing"
)

// This file has the promise of the gateway as two tables: a client of any revision works
// with a server of any revision, over the transports that they have. matrix_peers_test.go
// has the clients and servers.

// matrixClients and matrixServers are the two sides of the matrix.
var (
	matrixClients = []party{
		{"2024-11-05", overSSE}, {"2024-11-05", overHTTP}, {"2025-03-26", overHTTP},
		{"2025-06-18", overHTTP}, {"2025-11-25", overHTTP}, {"2026-07-28", overHTTP},
	}
	matrixServers = []party{
		{"2024-11-05", overSSE}, {"2024-11-05", overHTTP}, {"2024-11-05", overStdio},
		{"2025-03-26", overHTTP}, {"2025-03-26", overStdio},
		{"2025-06-18", overHTTP}, {"2025-06-18", overStdio},
		{"2025-11-25", overHTTP}, {"2025-11-25", overStdio},
		{"2026-07-28", overHTTP}, {"2026-07-28", overStdio},
	}
)

// scenarios are what every pair goes through, in this order: those named go-sdk with a
// go-sdk client and a go-sdk server, the others with scripted ones. A pair that cannot run
// a scenario says why.
var scenarios = []struct {
	name string
	run  func(t *testing.T, p *pair)
}{
	// matrix_sdk_test.go
	{"go-sdk lists and calls", tryCalls},          // P9/129 P9/131
	{"go-sdk resources", tryResources},            // P9/177 P9/179
	{"go-sdk prompts and completion", tryPrompts}, // P9/178
	{"go-sdk links in results", tryLinks},         // P9/178
	{"go-sdk progress", tryProgress},              // P9/141 P9/142
	{"go-sdk log messages at a level", tryLogs},   // P9/137
	{"go-sdk cancellation", tryCancel},            // P9/143
	{"go-sdk elicitation", tryElicitation},        // P9/96 P9/98
	{"go-sdk sampling", trySampling},              // P9/98
	{"go-sdk roots", tryRoots},                    // P9/98
	{"go-sdk updates of a resource", tryUpdates},  // P9/90 P9/91

	// matrix_ask_test.go
	{"elicitation", asked(aForm)},                           // P9/96 P9/98 P9/99
	{"sampling", asked(aSample)},                            // P9/98 P9/99
	{"roots", asked(theirs)},                                // P9/98 P9/99
	{"several questions at once, and again", askedInRounds}, // P9/100 P9/106
	{"elicitation by URL", askedForURL},                     // P9/96 P9/115
	{"sampling with tools", askedWithTools},                 // P9/96
	{"the user declines", askedInVain},
	{"the client refuses", refusedByClient},        // P9/108
	{"the client lacks the capability", unaskable}, // P9/96 P9/160

	// matrix_list_test.go
	{"items of lists", listed}, // P9/134 P9/135

	// matrix_wire_test.go
	{"bytes that pass unchanged", unchanged},        // P9/133 P9/147
	{"errors", failing},                             // P9/129
	{"calls at once, one cancelled", together},      // P9/143
	{"progress and log messages of a call", during}, // P9/137 P9/141
	{"the session at the server is lost", lost},     // P9/162

	// matrix_hear_test.go
	{"a resource is updated", updated}, // P9/90 P9/91
	{"lists change", changed},          // P9/92
}

// TestMatrix: each client goes through the scenarios with one server after another, because
// with several calls over stdio nothing says to which call a log message belongs. The
// servers run in parallel, since all wait more than they compute. With -short each server meets one
// client, and each client at least one server.
func TestMatrix(t *testing.T) {
	t.Parallel()
	m := newMatrix(t)
	var all sync.WaitGroup
	for i, s := range matrixServers {
		all.Go(func() {
			for j, c := range matrixClients {
				if testing.Short() && j != i%len(matrixClients) {
					continue
				}
				t.Run(fmt.Sprintf("client %s/server %s", c, s), func(t *testing.T) {
					p := m.pair(t, c, s)
					for _, scenario := range scenarios {
						t.Run(scenario.name, func(t *testing.T) { scenario.run(t, p) })
					}
				})
			}
		})
	}
	all.Wait()
}

// cannot ends a scenario with the reason why its pair cannot run it.
func cannot(t *testing.T, why string) {
	t.Helper()
	t.Skip(why) // one of the two revisions or transports does not have it
}
