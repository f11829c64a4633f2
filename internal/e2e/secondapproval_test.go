package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/internal/audit"
	"github.com/gatehouse-mcp/gatehouse/internal/cluster"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
	"github.com/gatehouse-mcp/gatehouse/policy"
	"github.com/gatehouse-mcp/gatehouse/session"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// fourEyed is a gateway with one server, whose tool "do" somebody of the group changers has to
// approve of.
type fourEyed struct {
	*guarded
	*testing.T
	records string // a file
	server  *mcptest.Server
}

func newFourEyed(t *testing.T, s *mcptest.Server, sessions session.Config, replicas cluster.Config) *fourEyed {
	t.Helper()
	f := &fourEyed{T: t, records: filepath.Join(t.TempDir(), "audit.jsonl"), server: s}
	f.guarded = guard(t, gateway.Config{
		Sessions: sessions, Replicas: replicas,
		Admin: config.Admin{Listen: "127.0.0.1:0", API: admin.Config{Loopback: admin.RoleAuditor}},
		Audit: audit.Config{Sinks: []audit.Sink{{Type: audit.TypeFile, Path: f.records}}},
		Policy: policy.Config{Rules: []policy.Rule{{
			Name: "second", Allow: []string{"tools:up/do"}, Ask: []string{"tools:up/do"},
			Approvers: &policy.Approvers{Who: policy.Who{Groups: []string{"changers"}}},
		}}},
		Upstreams: []upstream.Config{{Name: "up", URL: s.URL}},
	})
	return f
}

// doer is a server with the tool "do".
func doer(t *testing.T) *mcptest.Server {
	t.Helper()
	s := scripted(t, statefulServer)
	s.Tools("do")
	s.On("tools/call", func(c *mcptest.Call) { c.Text("done") })
	return s
}

func (f *fourEyed) token(user string, groups ...string) string {
	return f.issuer.Token(claims{"sub": user, "groups": groups})
}

// api asks the admin API with a token, "" for none.
func (f *fourEyed) api(token, method, path, body string) (status int, answer string) {
	f.Helper()
	resp := f.operator(f.T, method, path, func(r *http.Request) {
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
	})
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		f.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// waiting returns the calls that wait, as the owner of a token sees them.
func (f *fourEyed) waiting(token string) []admin.Approval {
	f.Helper()
	var all struct{ Approvals []admin.Approval }
	status, answer := f.api(token, http.MethodGet, "/api/v1/approvals", "")
	if status != http.StatusOK || json.Unmarshal([]byte(answer), &all) != nil {
		f.Fatalf("%d %s", status, answer)
	}
	return all.Approvals
}

// decide decides on a call and returns the status.
func (f *fourEyed) decide(token string, a admin.Approval, choice admin.Choice) int {
	f.Helper()
	body, err := json.Marshal(choice)
	if err != nil {
		f.Fatal(err)
	}
	status, _ := f.api(token, http.MethodPost, "/api/v1/approvals/"+a.ID, string(body))
	return status
}

// begin makes the call of a go-sdk client, and returns when it waits.
func (f *fourEyed) begin(ctx context.Context, c *client, amount int) <-chan string {
	f.Helper()
	said := make(chan string, 1)
	call := &sdk.CallToolParams{Name: "up__do", Arguments: map[string]any{"amount": amount}}
	call.SetProgressToken("p")
	go func() {
		result, err := c.CallTool(ctx, call)
		if err != nil {
			said <- "error"
			return
		}
		text, _ := json.Marshal(result.Content)
		said <- fmt.Sprintf("%t %s", result.IsError, text)
	}()
	receive(f.T, "the progress", c.progress)
	return said
}

// TestSecondApprover: what go-sdk clients of both eras see when somebody else decides on their
// calls, and who may.
func TestSecondApprover(t *testing.T) {
	f := newFourEyed(t, doer(t), session.Config{}, cluster.Config{})
	alice, bob, eve := f.token("alice", "changers"), f.token("bob", "changers"), f.token("eve", "others")
	for i, revision := range eras {
		t.Run(revision, func(t *testing.T) {
			c := f.connect(t, revision, alice)
			ran := func() int { return len(f.server.Received("tools/call")) }
			before := ran()

			said := f.begin(deadline(t), c, 7+i)
			for name, token := range map[string]string{"alice": alice, "eve": eve} {
				if all := f.waiting(token); len(all) != 0 {
					t.Errorf("%s sees %+v", name, all)
				}
			}
			if all := f.waiting(""); len(all) != 1 || all[0].Mine || all[0].Digest != "" || all[0].Arguments != nil {
				t.Errorf("an auditor sees %+v", all)
			}
			all := f.waiting(bob)
			if len(all) != 1 || !all[0].Mine || all[0].User != "alice" ||
				string(all[0].Arguments) != fmt.Sprintf(`{"amount":%d}`, 7+i) || all[0].Upstream != "up" ||
				all[0].Original != "do" {
				t.Fatalf("bob sees %+v", all)
			}
			yes := admin.Choice{Decision: admin.Approve, Digest: all[0].Digest}
			for _, try := range []struct {
				name, token string
				choice      admin.Choice
				want        int
			}{
				{"her own call", alice, yes, http.StatusForbidden},
				{"not in the group", eve, yes, http.StatusNotFound},
				{"no token", "", yes, http.StatusForbidden},
				{"another digest", bob, admin.Choice{Decision: admin.Approve, Digest: strings.Repeat("0", 64)},
					http.StatusConflict},
				{"no decision", bob, admin.Choice{Decision: "maybe", Digest: yes.Digest}, http.StatusBadRequest},
				{"a long reason", bob, admin.Choice{Decision: admin.Refuse, Digest: yes.Digest, Reason: strings.Repeat("x", 501)},
					http.StatusBadRequest},
			} {
				if got := f.decide(try.token, all[0], try.choice); got != try.want {
					t.Errorf("%s: %d, want %d", try.name, got, try.want)
				}
			}
			if n := ran() - before; n != 0 {
				t.Fatalf("it ran %d times before it was approved", n)
			}
			if got := f.decide(bob, all[0], yes); got != http.StatusOK {
				t.Fatalf("bob approves: %d", got)
			}
			if got := receive(t, "the result", said); !strings.HasPrefix(got, "false ") || !strings.Contains(got, "done") ||
				ran()-before != 1 {
				t.Errorf("approved: %s, ran %d times", got, ran()-before)
			}
			if got := f.decide(bob, all[0], yes); got != http.StatusNotFound {
				t.Errorf("again: %d", got)
			}

			said = f.begin(deadline(t), c, 8)
			no := f.waiting(bob)[0]
			if got := f.decide(bob, no, admin.Choice{Decision: admin.Refuse, Digest: no.Digest,
				Reason: "not today"}); got != http.StatusOK {
				t.Fatalf("bob refuses: %d", got)
			}
			if got := receive(t, "the refusal", said); !strings.HasPrefix(got, "true ") ||
				!strings.Contains(got, "The reason given: not today (GH-APPROVAL-REFUSED)") {
				t.Errorf("refused: %s", got)
			}

			ctx, cancel := context.WithCancel(deadline(t))
			said = f.begin(ctx, c, 9)
			cancelled := f.log.Count("outcome=cancelled")
			cancel()
			receive(t, "the end of the cancelled call", said)
			if err := f.log.Await(deadline(t), "outcome=cancelled", cancelled+1); err != nil {
				t.Fatal(err)
			}
			if all := f.waiting(bob); len(all) != 0 || ran()-before != 1 {
				t.Errorf("after the cancellation bob sees %+v, and %d calls ran", all, ran()-before)
			}
		})
	}
	// A client that can neither be asked nor listens to events.
	c := f.raw(t, statefulClient, f.token("carol"))
	x, err := c.Send(deadline(t), "tools/call", `{"name":"up__do","arguments":{},"_meta":{"progressToken":1}}`)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	if _, err := x.Until("notifications/progress"); err != nil {
		t.Fatal(err)
	}
	one := f.waiting(alice)[0]
	if got := f.decide(alice, one, admin.Choice{Decision: admin.Approve, Digest: one.Digest}); got != http.StatusOK {
		t.Errorf("alice approves of carol's call: %d", got)
	}
	if m, err := x.Response(); err != nil || said(m) != "done" {
		t.Errorf("carol got %s, %v", m.Text, err)
	}

	if err := f.served.Stop(deadline(t)); err != nil {
		t.Fatal(err)
	}
	var decisions []string
	calls := make(map[string]int)
	text, err := os.ReadFile(f.records)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var r map[string]any
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		switch {
		case r["kind"] == "approval":
			decisions = append(decisions, fmt.Sprint(r["user"], " ", r["event"], " ", r["original"], " ", r["rule"], " ",
				r["id"] != nil))
		case r["kind"] == "call" && r["name"] == "up__do":
			calls[fmt.Sprint(r["approval"], " by ", r["approver"], " ", r["executed"])]++
		}
	}
	if got := strings.Join(decisions,
		", "); got != "bob approved do second true, bob refused do second true, bob approved do second true, bob refused do second true, alice approved do second true" {
		t.Errorf("decisions: %s", got)
	}
	if fmt.Sprint(calls) != "map[approved by alice yes:1 approved by bob yes:2 refused by bob no:2 waiting by <nil> no:2]" {
		t.Errorf("calls: %v", calls)
	}
}

// TestSecondApproverAtAnotherReplica: the approver need not know where a call waits.
func TestSecondApproverAtAnotherReplica(t *testing.T) {
	t.Parallel()
	server := doer(t)
	shared := session.Config{Store: session.StoreRedis, Key: "0123456789abcdef0123456789abcdef",
		Redis: redisdb.Config{URL: mcp.Secret(redistest.Start(t).URL())}}
	here := newFourEyed(t, server, shared, cluster.Config{Listen: "127.0.0.1:0"})
	there := newFourEyed(t, server, shared, cluster.Config{Listen: "127.0.0.1:0"})
	c := here.connect(t, stateless, here.token("alice"))
	said := here.begin(deadline(t), c, 7)
	bob := there.token("bob", "changers")
	all := there.waiting(bob)
	if len(all) != 1 || string(all[0].Arguments) != `{"amount":7}` {
		t.Fatalf("bob sees %+v", all)
	}
	if got := there.decide(bob, all[0], admin.Choice{Decision: admin.Approve,
		Digest: all[0].Digest}); got != http.StatusOK {
		t.Fatalf("bob approves: %d", got)
	}
	if got := receive(t, "the result", said); !strings.Contains(got, "done") {
		t.Errorf("approved: %s", got)
	}
}
