package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/policy"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// company is a gateway with a server of each era: engineering may use one, sales the other.
type company struct {
	*guarded
	git, crm *mcptest.Server
}

func newCompany(t *testing.T) *company {
	t.Helper()
	c := &company{git: scripted(t, stateless), crm: scripted(t, statefulServer)}
	for s, tools := range map[*mcptest.Server][]string{c.git: {"push", "pull"}, c.crm: {"sell", "send"}} {
		s.Tools(tools...)
		s.On("tools/call", func(call *mcptest.Call) {
			var name string
			call.Param("name", &name)
			call.Text(name)
		})
	}
	c.guarded = guard(t, gateway.Config{
		Policy: policy.Config{Rules: []policy.Rule{
			{Name: "engineers", Who: policy.Who{Groups: []string{"engineering"}}, Allow: []string{"*:git/*"}},
			{Name: "sellers", Who: policy.Who{Groups: []string{"sales"}}, Allow: []string{"*:crm/*"}},
		}},
		Upstreams: []upstream.Config{{Name: "git", URL: c.git.URL}, {Name: "crm", URL: c.crm.URL}},
	})
	return c
}

func (c *company) alice() string {
	return c.issuer.Token(claims{"sub": "alice", "groups": []string{"engineering", "staff"}})
}

func (c *company) bob() string { return c.issuer.Token(claims{"sub": "bob", "groups": "sales"}) }

// TestTwoUsers: two users see and use what they may, in both eras.
func TestTwoUsers(t *testing.T) {
	t.Parallel()
	c := newCompany(t)
	for _, revision := range []string{statefulServer, statefulClient, stateless} {
		t.Run(revision, func(t *testing.T) {
			for _, u := range []struct {
				token       string
				own, others []string
			}{
				{c.alice(), []string{"git__pull", "git__push"}, []string{"crm__sell", "crm__send"}},
				{c.bob(), []string{"crm__sell", "crm__send"}, []string{"git__pull", "git__push"}},
				{c.issuer.Token(claims{"sub": "eve"}), nil, []string{"git__pull", "crm__send"}},
			} {
				client := c.connect(t, revision, u.token)
				if got := listTools(t, client); !slices.Equal(got, u.own) {
					t.Errorf("the list is %q, want %q", got, u.own)
				}
				for _, name := range u.own {
					if got := client.text(t, name, nil); got != name[5:] {
						t.Errorf("%s: %s", name, got)
					}
				}
				raw := c.raw(t, revision, u.token)
				for _, name := range u.others {
					_, err := client.CallTool(deadline(t), &sdk.CallToolParams{Name: name})
					wantCode(t, name, err, -32602)
					missing := name[:5] + "none"
					want := strings.ReplaceAll(wholeCall(t, raw, "tools/call", fmt.Sprintf(`{"name":%q}`, missing)), missing, name)
					if got := wholeCall(t, raw, "tools/call", fmt.Sprintf(`{"name":%q}`, name)); got != want {
						t.Errorf("denied: %s\nmissing: %s", got, want)
					}
				}
			}
		})
	}
	for s, calls := range map[*mcptest.Server]int{c.git: 2 * 3, c.crm: 2 * 3} {
		if got := len(s.Received("tools/call")); got != calls {
			t.Errorf("a server got %d calls, want %d", got, calls)
		}
	}
}

// TestASessionIsItsUsers: for anybody else the session does not exist, and its owner does
// not notice their attempts.
func TestASessionIsItsUsers(t *testing.T) {
	t.Parallel()
	s, elsewhere := scripted(t, statefulServer), newIssuer(t)
	s.Tools("do")
	s.Tool("do", func(c *mcptest.Call) {
		c.Progress(1)
		answer, err := c.Ask("elicitation/create", `{"message":"?","requestedSchema":{"type":"object","properties":{}}}`)
		if err != nil {
			return
		}
		var action string
		answer.Value("action", &action)
		c.Text(action)
	})
	issuer := newIssuer(t)
	g := guardWith(t, issuer, gateway.Config{
		Auth:      auth.Config{Issuers: []auth.Issuer{{URL: issuer.URL}, {URL: elsewhere.URL}}},
		Upstreams: []upstream.Config{{Name: "up", URL: s.URL}},
	})
	elsewhere.Audience = g.url
	alice := g.rawWith(t, statefulClient, issuer.Token(nil), `{"elicitation":{}}`)
	x, err := alice.SendID(deadline(t), "77", "tools/call", do("a", `{"progressToken":1}`))
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	progress, err := x.Until("notifications/progress")
	if err != nil || progress.EventID == "" {
		t.Fatalf("%s with the event id %q, %v", progress.Text, progress.EventID, err)
	}
	question, err := x.Until("elicitation/create")
	if err != nil {
		t.Fatal(err)
	}
	answer := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"decline"}}`, question.ID)
	resume := http.Header{"Accept": {"text/event-stream"}, "Last-Event-Id": {progress.EventID}}
	requests := []struct {
		row, verb, body string
		header          http.Header
	}{
		{"a request", "POST", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, nil},
		{"a call", "POST", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"up__do"}}`, nil},
		{"a cancellation", "POST", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":77}}`, nil},
		{"an answer", "POST", answer, nil},
		{"the stream, resumed", "GET", "", resume},
		{"a stream", "GET", "", http.Header{"Accept": {"text/event-stream"}}},
		{"DELETE", "DELETE", "", nil},
	}
	for who, token := range map[string]string{
		"another user":                  issuer.Token(claims{"sub": "bob"}),
		"another client of the user":    issuer.Token(claims{"client_id": "other"}),
		"the same subject of an issuer": elsewhere.Token(nil),
	} {
		t.Run(who, func(t *testing.T) {
			thief := as(t, alice, token)
			never := as(t, alice, token)
			never.Session = strings.Repeat("A", len(alice.Session))
			for _, r := range requests {
				got, want := wholeAnswer(t, thief, r.verb, r.body, r.header), wholeAnswer(t, never, r.verb, r.body, r.header)
				if got != want || !strings.HasPrefix(got, "404\n") {
					t.Errorf("%s: %s\none that never was: %s", r.row, got, want)
				}
			}
			// With a session of their own they get nothing either.
			own := g.raw(t, statefulClient, token)
			if got := wholeAnswer(t, own, "POST", answer, nil); !strings.HasPrefix(got, "202\n") {
				t.Errorf("an answer in a session of their own: %s", got)
			}
			if _, err := own.Notify(deadline(t), "notifications/cancelled", `{"requestId":77}`); err != nil {
				t.Error(err)
			}
			stream, err := own.Get(deadline(t), progress.EventID)
			if err != nil {
				t.Fatal(err)
			}
			defer stream.Close()
			if stream.Status != 200 { // a new stream, which must not contain what the other one has
				t.Fatalf("resumed in a session of their own: status %d", stream.Status)
			}
			mustCall(t, own, "ping", "{}")
			if status, err := own.Delete(deadline(t)); err != nil || status != 204 {
				t.Fatal(status, err)
			}
			if text := stream.Text(); strings.Contains(text, "elicitation") || strings.Contains(text, "progress") {
				t.Errorf("resumed in a session of their own: %s", text)
			}
		})
	}
	t.Run("a new token of the user keeps it", func(t *testing.T) {
		present(alice, issuer.Token(claims{"scope": "other", "groups": "others"}))
		again, err := alice.Get(deadline(t), progress.EventID)
		if err != nil {
			t.Fatal(err)
		}
		defer again.Close()
		if m, err := again.Until("elicitation/create"); err != nil || string(m.ID) != string(question.ID) {
			t.Errorf("resumed by its user: %s, %v", m.Text, err)
		}
		if err := alice.Answer(deadline(t), question.ID, `{"action":"accept"}`); err != nil {
			t.Error(err)
		}
		if m, err := x.Response(); err != nil || said(m) != "accept" {
			t.Errorf("the call: %s, %v", m.Text, err)
		}
		for _, want := range []int{204, 404} {
			if status, err := alice.Delete(deadline(t)); err != nil || status != want {
				t.Errorf("DELETE: %d, %v; want %d", status, err, want)
			}
		}
	})
}

// TestRequestStateIsItsUsers: other users present the state of a question.
func TestRequestStateIsItsUsers(t *testing.T) {
	t.Parallel()
	for _, server := range []string{statefulServer, stateless} {
		t.Run("server "+server, func(t *testing.T) {
			url, stop := serve(newPeer(server, func(string) {}), server == stateless)
			t.Cleanup(stop)
			issuer, elsewhere := newIssuer(t), newIssuer(t)
			g := guardWith(t, issuer, gateway.Config{
				Auth:      auth.Config{Issuers: []auth.Issuer{{URL: issuer.URL}, {URL: elsewhere.URL}}},
				Upstreams: []upstream.Config{{Name: "up", URL: url}},
			})
			elsewhere.Audience = g.url
			alice := g.rawWith(t, stateless, issuer.Token(nil), `{"elicitation":{}}`)
			asked := mustCall(t, alice, "tools/call", `{"name":"up__confirm","arguments":{}}`)
			retry := retryOf(t, asked, `{"name":"up__confirm","arguments":{}}`, `{"action":"accept","content":{"reason":"r"}}`)
			for who, token := range map[string]string{
				"another user":                issuer.Token(claims{"sub": "bob"}),
				"another client":              issuer.Token(claims{"client_id": "other"}),
				"the same subject, elsewhere": elsewhere.Token(nil),
			} {
				m, _, err := as(t, alice, token).Call(deadline(t), "tools/call", retry)
				if err != nil || m.Error == nil || m.Error.Code != -32602 {
					t.Errorf("%s: %s, %v; want -32602", who, m.Text, err)
				}
			}
			present(alice, issuer.Token(nil)) // a new token of the user
			if got := said(mustCall(t, alice, "tools/call", retry)); got != "accept because r" {
				t.Errorf("its user: %s", got)
			}
		})
	}
}

// retryOf returns the params of a retry with an answer to each question of an
// input_required result.
func retryOf(t *testing.T, asked mcptest.Message, params, answer string) string {
	t.Helper()
	var state string
	var questions map[string]json.RawMessage
	if !asked.Value("requestState", &state) || !asked.Value("inputRequests", &questions) {
		t.Fatalf("not asked: %s", asked.Text)
	}
	answers := claims{}
	for key := range questions {
		answers[key] = json.RawMessage(answer)
	}
	all := claims{}
	if err := json.Unmarshal([]byte(params), &all); err != nil {
		t.Fatal(err)
	}
	all["requestState"], all["inputResponses"] = state, answers
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestGroupsOfAnotherIssuer: another issuer can have a group of the same name.
func TestGroupsOfAnotherIssuer(t *testing.T) {
	t.Parallel()
	s, issuer, elsewhere := doing(t), newIssuer(t), newIssuer(t)
	g := guardWith(t, issuer, gateway.Config{
		Auth: auth.Config{Issuers: []auth.Issuer{{URL: issuer.URL}, {URL: elsewhere.URL}}},
		Policy: policy.Config{Rules: []policy.Rule{
			{Name: "ours", Who: policy.Who{Groups: []string{issuer.URL + " engineering"}}, Allow: []string{"tools:*"}},
			{Name: "mail", Who: policy.Who{Issuers: []string{elsewhere.URL}, Emails: []string{"ann@example.com"}},
				Allow: []string{"tools:*"}},
			{Name: "not them", Who: policy.Who{Groups: []string{"contractors"}}, Deny: []string{"tools:*"}},
		}},
		Upstreams: []upstream.Config{{Name: "up", URL: s.URL}},
	})
	elsewhere.Audience = g.url
	for _, c := range []struct {
		name, token string
		allowed     bool
	}{
		{"the group", issuer.Token(claims{"groups": "engineering"}), true},
		{"the same of another issuer", elsewhere.Token(claims{"groups": "engineering"}), false},
		{"the issuer's name in the group", elsewhere.Token(claims{"groups": issuer.URL + " engineering"}), false},
		{"a Cyrillic letter", issuer.Token(claims{"groups": "еngineering"}), false},
		{"two groups, one of them denied", issuer.Token(claims{"groups": []string{"engineering", "contractors"}}), false},
		{"a verified address", elsewhere.Token(claims{"email": "ann@example.com", "email_verified": true}), true},
		{"an address that is not verified", elsewhere.Token(claims{"email": "ann@example.com", "email_verified": false}),
			false},
		{"as a text", elsewhere.Token(claims{"email": "ann@example.com", "email_verified": "true"}), false},
		{"two @", elsewhere.Token(claims{"email": "ann@example.com@evil.example", "email_verified": true}), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, revision := range eras {
				client := g.raw(t, revision, c.token)
				listed := len(names(t, mustCall(t, client, "tools/list", ""), "tools")) == 1
				m, _, err := client.Call(deadline(t), "tools/call", `{"name":"up__do"}`)
				if err != nil || listed != c.allowed || (m.Error == nil) != c.allowed {
					t.Errorf("%s: listed %t, %s, %v", revision, listed, m.Text, err)
				}
			}
		})
	}
}
