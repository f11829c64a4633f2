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
	{"go-sdk lists and calls", tryCalls},
	{"go-sdk resources", tryResources},
	{"go-sdk prompts and completion", tryPrompts},
	{"go-sdk links in results", tryLinks},
	{"go-sdk progress", tryProgress},
	{"go-sdk log messages at a level", tryLogs},
	{"go-sdk cancellation", tryCancel},
	{"go-sdk elicitation", tryElicitation},
	{"go-sdk sampling", trySampling},
	{"go-sdk roots", tryRoots},
	{"go-sdk updates of a resource", tryUpdates},

	// matrix_ask_test.go
	{"elicitation", asked(aForm)},
	{"sampling", asked(aSample)},
	{"roots", asked(theirs)},
	{"several questions at once, and again", askedInRounds},
	{"elicitation by URL", askedForURL},
	{"sampling with tools", askedWithTools},
	{"the user declines", askedInVain},
	{"the client refuses", refusedByClient},
	{"the client lacks the capability", unaskable},

	// matrix_list_test.go
	{"items of lists", listed},

	// matrix_wire_test.go
	{"bytes that pass unchanged", unchanged},
	{"errors", failing},
	{"calls at once, one cancelled", together},
	{"progress and log messages of a call", during},
	{"the session at the server is lost", lost},

	// matrix_hear_test.go
	{"a resource is updated", updated},
	{"lists change", changed},
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
