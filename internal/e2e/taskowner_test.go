package e2e

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/policy"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// TestTasksAreTheirOwners: others try what only an owner may do, with the exact
// id. They get the answer for an id that does not exist.
func TestTasksAreTheirOwners(t *testing.T) {
	t.Parallel()
	for _, revision := range eras {
		t.Run(revision, func(t *testing.T) {
			d := newTaskDesk(t, revision)
			g := guard(t, gateway.Config{
				Upstreams: []upstream.Config{{Name: "up", URL: d.URL}},
				Policy: policy.Config{Rules: []policy.Rule{
					{Name: "staff", Who: policy.Who{Groups: []string{"staff"}}, Allow: []string{"tools:up/*"}},
					{Name: "guests", Who: policy.Who{Groups: []string{"guests"}}, Allow: []string{"tools:up/quick"}},
				}},
			})
			caps := askedAndTasks
			staff := func(user, client string) claims {
				return claims{"sub": user, "client_id": client, "groups": []string{"staff"}}
			}
			owner := g.rawWith(t, revision, g.issuer.Token(staff("ann", "cli")), caps)
			id, j := d.create(t, owner)

			wantSame := func(who string, c *mcptest.Client) {
				t.Helper()
				before := len(d.Received(""))
				for _, method := range []string{"tasks/get", "tasks/result", "tasks/update", "tasks/cancel"} {
					params := func(id string) string { return fmt.Sprintf(`{"taskId":%q,"inputResponses":{}}`, id) }
					known, unknown := request(t, c, method, params(id)), request(t, c, method, params(strings.Repeat("A", len(id))))
					if known.Error == nil || unknown.Error == nil || known.Error.Error() != unknown.Error.Error() {
						t.Errorf("%s %s: %s, an unknown one: %s", who, method, known.Text, unknown.Text)
					}
				}
				if n := len(d.Received("")) - before; n > 0 {
					t.Errorf("%s: %d requests came to the server", who, n)
				}
			}
			wantSame("another user", g.rawWith(t, revision, g.issuer.Token(staff("bob", "cli")), caps))
			wantSame("the same user with another client", g.rawWith(t, revision, g.issuer.Token(staff("ann", "cli2")), caps))
			wantSame("the owner, who has lost the right",
				g.rawWith(t, revision, g.issuer.Token(claims{"sub": "ann", "client_id": "cli", "groups": []string{"guests"}}),
					caps))
			if j.now() != "working" {
				t.Errorf("the job is %s", j.now())
			}
			again := g.rawWith(t, revision, g.issuer.Token(staff("ann", "cli")), caps) // with another token and session
			if got := value(t, request(t, again, "tasks/get", about(id)), "status"); got != "working" {
				t.Errorf("the owner comes back: %s", got)
			}
		})
	}
}

// TestTasksCostNothingWhileTheyRun: the gateway keeps nothing for a task, so any number of
// them is possible.
func TestTasksCostNothingWhileTheyRun(t *testing.T) {
	for _, revision := range eras {
		t.Run(revision, func(t *testing.T) {
			d := newTaskDesk(t, revision)
			d.began = make(chan *job, 2000)
			c := rawWith(t, d.gateway(t), revision, askedAndTasks)
			d.create(t, c)
			before := runtime.NumGoroutine()
			var id string
			for range 500 {
				id, _ = d.create(t, c)
			}
			if n := runtime.NumGoroutine(); n > before+20 {
				t.Errorf("%d goroutines, before it were %d", n, before)
			}
			if got := value(t, request(t, c, "tasks/get", about(id)), "taskId"); got != id {
				t.Errorf("the last one is %s", got)
			}
		})
	}
}
