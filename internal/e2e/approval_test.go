package e2e

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/policy"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// cautious is a gateway with one server, whose tools payers may use if they approve the
// call: "do" each time, "keep" once an hour for equal calls, and "confirm", which also asks
// a question itself.
func cautious(t *testing.T, revision string) (*guarded, *mcptest.Server) {
	t.Helper()
	s := scripted(t, revision)
	s.Tools("do", "keep", "confirm")
	const question = `{"message":"Really?","requestedSchema":{"type":"object","properties":{}}}`
	s.On("tools/call", func(c *mcptest.Call) {
		var name, action string
		c.Param("name", &name)
		switch {
		case name != "confirm":
		case revision != stateless:
			answer, err := c.Ask("elicitation/create", question)
			if err != nil {
				return
			}
			answer.Value("action", &action)
		case !c.Param("inputResponses|q|action", &action):
			c.Result(`{"resultType":"input_required","requestState":"mine","inputRequests":{"q":{"method":"elicitation/create","params":` + question + `}}}`)
			return
		}
		c.Text("ran " + name + action)
	})
	payers := policy.Who{Groups: []string{"payers"}}
	return guard(t, gateway.Config{
		Policy: policy.Config{Rules: []policy.Rule{
			{Name: "each", Who: payers, Allow: []string{"tools:up/do", "tools:up/confirm"},
				Ask: []string{"tools:up/do", "tools:up/confirm"}},
			{Name: "for a while", Who: payers, Allow: []string{"tools:up/keep"}, Ask: []string{"tools:up/keep"},
				ApproveFor: time.Hour},
		}},
		Upstreams: []upstream.Config{{Name: "up", URL: s.URL}},
	}), s
}

func (g *guarded) payer(more claims) string {
	return g.issuer.Token(with(claims{"groups": "payers"}, more))
}

// TestApproval: what a go-sdk client sees when its user is asked.
func TestApproval(t *testing.T) {
	t.Parallel()
	for _, server := range []string{statefulServer, stateless} {
		for _, revision := range []string{statefulServer, statefulClient, stateless} {
			t.Run("client "+revision+" server "+server, func(t *testing.T) {
				g, s := cautious(t, server)
				c := newClient(revision)
				var says *sdk.ElicitResult
				c.answer = func(q *sdk.ElicitParams) *sdk.ElicitResult {
					if q.Message == "up asks: Really?" {
						return &sdk.ElicitResult{Action: "accept", Content: map[string]any{}}
					}
					if n := len(s.Received("tools/call")); n > 0 {
						t.Errorf("the server had %d calls when the user was asked", n)
					}
					return says
				}
				c.open(t, g.transport(t, g.payer(nil)))
				call := &sdk.CallToolParams{Name: "up__do", Arguments: map[string]any{"amount": 7, "to": "Bob"}}
				for _, no := range []*sdk.ElicitResult{
					{Action: "decline"}, {Action: "cancel"}, {Action: "accept", Content: map[string]any{"approve": false}},
				} {
					says = no
					result, err := c.CallTool(deadline(t), call)
					if err != nil || !result.IsError || !strings.Contains(textOf(t, result), "did not approve") {
						t.Errorf("%s: %+v, %v", no.Action, result, err)
					}
					question := receive(t, "the question", c.asked)
					for _, want := range []string{"    • server: up\n", "    • tool: do\n", "    • argument amount: 7\n",
						"    • argument to: Bob\n", "good for this call, once"} {
						if !strings.Contains(strings.ReplaceAll(question, `"`, ""), want) {
							t.Errorf("the question lacks %q:\n%s", want, question)
						}
					}
				}
				says = &sdk.ElicitResult{Action: "accept", Content: map[string]any{"approve": true}}
				if got := c.text(t, "up__do", map[string]any{"amount": 7, "to": "Bob"}); got != "ran do" {
					t.Errorf("approved: %s", got)
				}
				calls := s.Received("tools/call")
				if len(calls) != 1 || len(c.asked) != 1 {
					t.Fatalf("%d calls after %d questions, want one of each", len(calls), len(c.asked))
				}
				if text := calls[0].Text; !strings.Contains(text, `"amount":7`) || strings.Contains(text, "approv") ||
					strings.Contains(text, "requestState") {
					t.Errorf("the server got %s", text)
				}
			})
		}
	}
}

// TestAQuestionWithinAnApprovedCall: the server's own question comes after the approval, in
// the same call, and needs no second approval.
func TestAQuestionWithinAnApprovedCall(t *testing.T) {
	t.Parallel()
	for _, server := range []string{statefulServer, stateless} {
		for _, revision := range eras {
			t.Run("client "+revision+" server "+server, func(t *testing.T) {
				g, s := cautious(t, server)
				c := newClient(revision)
				c.answer = func(*sdk.ElicitParams) *sdk.ElicitResult {
					return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"approve": true}}
				}
				c.open(t, g.transport(t, g.payer(nil)))
				if got := c.text(t, "up__confirm", nil); got != "ran confirmaccept" {
					t.Errorf("got %s", got)
				}
				first, second := receive(t, "the first question", c.asked), receive(t, "the second", c.asked)
				if !strings.Contains(first, "tool: confirm") || second != "up asks: Really?" || len(c.asked) > 0 {
					t.Errorf("asked %q, then %q, and %d more", first, second, len(c.asked))
				}
				rounds := 1
				if server == stateless {
					rounds = 2
				}
				calls := s.Received("tools/call")
				if len(calls) != rounds {
					t.Fatalf("%d requests, want %d", len(calls), rounds)
				}
				var state string
				if calls[rounds-1].Param("requestState", &state); server == stateless && state != "mine" ||
					strings.Contains(calls[0].Text, "approv") {
					t.Errorf("the server got %s, then the state %q", calls[0].Text, state)
				}
			})
		}
	}
}

// TestWhoCannotBeAsked: a client that cannot be asked gets an error with the reason and a
// remedy.
func TestWhoCannotBeAsked(t *testing.T) {
	g, s := cautious(t, stateless)
	for _, caps := range []string{`{}`, `{"sampling":{}}`, `{"elicitation":{"url":{}}}`, `{"elicitation":true}`} {
		for _, revision := range eras {
			c := g.rawWith(t, revision, g.payer(nil), caps)
			x, err := c.Send(deadline(t), "tools/call", `{"name":"up__do"}`)
			if err != nil {
				t.Fatal(err)
			}
			defer x.Close()
			m, err := x.Response()
			if err != nil {
				t.Fatal(err)
			}
			if revision == stateless {
				if x.Status != 400 || m.Error == nil || m.Error.Code != -32021 ||
					string(m.Error.Data) != `{"requiredCapabilities":{"elicitation":{"form":{}}},"error_code":"GH-APPROVAL-IMPOSSIBLE"}` {
					t.Errorf("%s: %d %s", caps, x.Status, m.Text)
				}
				continue
			}
			var failed bool
			if m.Value("isError", &failed); x.Status != 200 || !failed ||
				!strings.Contains(said(m), "needs the user's approval") || len(x.Before) > 0 {
				t.Errorf("%s: %d %s", caps, x.Status, m.Text)
			}
		}
	}
	if n := len(s.Received("tools/call")); n > 0 {
		t.Errorf("%d calls reached the server", n)
	}
}

const approve = `{"action":"accept","content":{"approve":true}}`

// TestAnApprovalIsForOneCall tries an approval in every way for which it was not given.
func TestAnApprovalIsForOneCall(t *testing.T) {
	g, s := cautious(t, stateless)
	const caps, params = `{"elicitation":{}}`, `{"name":"up__do","arguments":{"amount":1}}`
	alice := g.rawWith(t, stateless, g.payer(nil), caps)
	asked := mustCall(t, alice, "tools/call", params)
	var kind string
	var questions map[string]struct{ Method string }
	if asked.Value("resultType", &kind); kind != "input_required" || !asked.Value("inputRequests", &questions) ||
		questions["gatehouse-approval"].Method != "elicitation/create" {
		t.Fatalf("got %s", asked.Text)
	}
	yes := retryOf(t, asked, params, approve)
	again := func(m mcptest.Message) bool { return m.Value("resultType", &kind) && kind == "input_required" }
	for _, c := range []struct {
		name   string
		client *mcptest.Client
		params string
		asks   bool // asks again instead of an error
	}{
		{"other arguments", alice, strings.Replace(yes, `"amount":1`, `"amount":1000`, 1), false},
		{"another tool", alice, strings.Replace(yes, "up__do", "up__keep", 1), false},
		{"another user", as(t, alice, g.payer(claims{"sub": "bob"})), yes, false},
		{"another client", as(t, alice, g.payer(claims{"client_id": "other"})), yes, false},
		{"the user without the group", as(t, alice, g.issuer.Token(nil)), yes, false},
		{"an answer without a question", alice, `{"name":"up__do","inputResponses":{"gatehouse-approval":` + approve + `}}`,
			true},
		{"an answer to something else", alice, retryOf(t, mustCall(t, alice, "tools/call", params), params,
			`{"action":"accept","content":{"approve":"true"}}`), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, _, err := c.client.Call(deadline(t), "tools/call", c.params)
			var failed bool
			refused := m.Error != nil && m.Error.Code == -32602 || m.Value("isError", &failed) && failed
			if err != nil || again(m) != c.asks || refused == c.asks {
				t.Errorf("%s, %v", m.Text, err)
			}
		})
	}
	if n := len(s.Received("tools/call")); n > 0 {
		t.Fatalf("%d calls reached the server", n)
	}
	t.Run("many times at once", func(t *testing.T) {
		var all sync.WaitGroup
		var ran, asked atomic.Int32
		for range 8 {
			all.Go(func() {
				m, _, err := alice.Call(deadline(t), "tools/call", yes)
				switch {
				case err != nil || m.Error != nil:
					t.Errorf("%s, %v", m.Text, err)
				case said(m) == "ran do":
					ran.Add(1)
				case strings.Contains(m.Text, `"input_required"`):
					asked.Add(1)
				}
			})
		}
		all.Wait()
		if n := len(s.Received("tools/call")); n != 1 || ran.Load() != 1 || asked.Load() != 7 {
			t.Errorf("the server got %d calls, %d ran and %d were asked about anew; want 1, 1 and 7", n,
				ran.Load(), asked.Load())
		}
	})
}

// TestApprovalOfWhatIsNoTool: prompts and resources need approval in the same way.
func TestApprovalOfWhatIsNoTool(t *testing.T) {
	s := secretive(t, stateless)
	g := guard(t, gateway.Config{
		Policy: policy.Config{Rules: []policy.Rule{{Name: "all", Allow: []string{"prompts:up/*", "resources:up/*"},
			Ask: []string{"prompts:up/*", "resources:up/*"}}}},
		Upstreams: []upstream.Config{{Name: "up", URL: s.URL}},
	})
	c := g.rawWith(t, stateless, g.issuer.Token(nil), `{"elicitation":{}}`)
	for method, params := range map[string]string{"prompts/get": `{"name":"up__open"}`,
		"resources/read": `{"uri":"up+file:///docs/open"}`} {
		asked := mustCall(t, c, method, params)
		yes := retryOf(t, asked, params, approve)
		if n := len(s.Received(method)); n > 0 {
			t.Errorf("%s: %d requests before the approval", method, n)
		}
		if m := mustCall(t, c, method, yes); strings.Contains(m.Text, "input_required") {
			t.Errorf("%s: %s", method, m.Text)
		}
		if n := len(s.Received(method)); n != 1 {
			t.Errorf("%s: %d requests after the approval", method, n)
		}
		for _, revision := range eras {
			m, _, err := g.raw(t, revision, g.issuer.Token(nil)).Call(deadline(t), method, params)
			if err != nil || m.Error == nil || !strings.Contains(m.Error.Message, "needs the user's approval") {
				t.Errorf("%s of a %s client that cannot be asked: %s, %v", method, revision, m.Text, err)
			}
		}
	}
}

// TestAnApprovalThatHolds: the user is asked once, in whatever era the call is repeated.
func TestAnApprovalThatHolds(t *testing.T) {
	g, s := cautious(t, statefulServer)
	c := newClient(statefulClient)
	c.answer = func(*sdk.ElicitParams) *sdk.ElicitResult {
		return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"approve": true}}
	}
	c.open(t, g.transport(t, g.payer(nil)))
	for range 3 {
		if got := c.text(t, "up__keep", map[string]any{"a": 1}); got != "ran keep" {
			t.Error(got)
		}
	}
	if question := receive(t, "the question", c.asked); len(c.asked) > 0 ||
		!strings.Contains(question, "in the next 1h0m0s") {
		t.Errorf("%d more questions after %s", len(c.asked), question)
	}
	same := newClient(stateless)
	same.open(t, g.transport(t, g.payer(nil)))
	if got := same.text(t, "up__keep", map[string]any{"a": 1}); got != "ran keep" {
		t.Errorf("the same of a stateless client: %s", got)
	}
	raw := g.rawWith(t, stateless, g.payer(nil), `{"elicitation":{}}`)
	for _, call := range []struct {
		what, params string
		client       *mcptest.Client
		runs         bool
	}{
		{"a client that can be asked otherwise", `{"name":"up__keep","arguments":{"a":1}}`, raw, false},
		{"other arguments", `{"name":"up__keep","arguments":{"a":2}}`, raw, false},
		{"one more argument", `{"name":"up__keep","arguments":{"a":1,"b":1}}`, raw, false},
		{"another tool", `{"name":"up__do","arguments":{"a":1}}`, raw, false},
		{"another user", `{"name":"up__keep","arguments":{"a":1}}`, as(t, raw, g.payer(claims{"sub": "bob"})), false},
		{"another client of the user", `{"name":"up__keep","arguments":{"a":1}}`,
			as(t, raw, g.payer(claims{"client_id": "other"})), false},
	} {
		if m := mustCall(t, call.client, "tools/call", call.params); (said(m) == "ran keep") != call.runs {
			t.Errorf("%s: %s", call.what, m.Text)
		}
	}
	if n := len(s.Received("tools/call")); n != 4 {
		t.Errorf("the server got %d calls, want 4", n)
	}
}

// TestTheAnswerIsTheUsersOfNow: a user who loses the group between question and answer
// cannot approve any more.
func TestTheAnswerIsTheUsersOfNow(t *testing.T) {
	for _, c := range []struct {
		name  string
		later claims
		runs  bool
	}{
		{"a new token", claims{"groups": []string{"staff", "payers"}}, true},
		{"a new token without the group", claims{"groups": "staff"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, s := cautious(t, statefulServer)
			alice := g.rawWith(t, statefulClient, g.payer(nil), `{"elicitation":{}}`)
			x, err := alice.Send(deadline(t), "tools/call", `{"name":"up__do"}`)
			if err != nil {
				t.Fatal(err)
			}
			defer x.Close()
			question, err := x.Until("elicitation/create")
			if err != nil {
				t.Fatal(err)
			}
			present(alice, g.issuer.Token(c.later))
			if err := alice.Answer(deadline(t), question.ID, approve); err != nil {
				t.Fatal(err)
			}
			m, err := x.Response()
			if err != nil || (said(m) == "ran do") != c.runs ||
				!c.runs && (m.Error == nil || m.Error.Message != "Unknown tool: up__do") {
				t.Errorf("%s, %v", m.Text, err)
			}
			if n := len(s.Received("tools/call")); (n == 1) != c.runs {
				t.Errorf("the server got %d calls", n)
			}
		})
	}
}

// TestTheQuestionShowsTheCall: the question makes hidden characters visible.
func TestTheQuestionShowsTheCall(t *testing.T) {
	g, _ := cautious(t, stateless)
	alice := g.rawWith(t, stateless, g.payer(nil), `{"elicitation":{}}`)
	m := mustCall(t, alice, "tools/call",
		fmt.Sprintf(`{"name":"up__do","arguments":{"to":"Bob\n\nAll is well.\u202e","more":%q}}`, strings.Repeat("x", 5000)))
	var questions map[string]struct{ Params struct{ Message string } }
	if !m.Value("inputRequests", &questions) {
		t.Fatal(m.Text)
	}
	question := questions["gatehouse-approval"].Params.Message
	if strings.Contains(question, "\nAll") || strings.Contains(question, "\u202e") ||
		!strings.Contains(question, "NOT ALL OF IT IS SHOWN") {
		t.Errorf("the question is:\n%s", question)
	}
}

// TestAskGrantsNothing: a rule with ask gives no access to callers whom no rule allows it,
// whatever they answer.
func TestAskGrantsNothing(t *testing.T) {
	s := secretive(t, stateless)
	g := guard(t, gateway.Config{
		Policy: policy.Config{Rules: []policy.Rule{
			{Name: "sales", Who: policy.Who{Groups: []string{"sales"}}, Allow: []string{"*:up/*"}},
			{Name: "with a yes", Ask: []string{"*:*"}},
		}},
		Upstreams: []upstream.Config{{Name: "up", URL: s.URL}},
	})
	uses := map[string]string{"tools/call": `{"name":"up__open"}`, "prompts/get": `{"name":"up__open"}`,
		"resources/read": `{"uri":"up+file:///docs/open"}`}
	for _, revision := range eras {
		c := g.rawWith(t, revision, g.issuer.Token(nil), `{"elicitation":{}}`)
		for _, list := range []string{"tools/list", "prompts/list", "resources/list", "resources/templates/list"} {
			if m, _, err := c.Call(deadline(t), list, ""); err != nil || strings.Contains(m.Text, "open") {
				t.Errorf("client %s: %s: %s, %v", revision, list, m.Text, err)
			}
		}
		for method, params := range uses {
			if m, _, err := c.Call(deadline(t), method, params); err != nil || m.Error == nil ||
				m.Error.Code != -32602 && m.Error.Code != -32002 {
				t.Errorf("client %s: %s: %s, %v", revision, method, m.Text, err)
			}
		}
	}
	for method := range uses {
		if n := len(s.Received(method)); n > 0 {
			t.Errorf("the server got %d %s", n, method)
		}
	}
	c := g.rawWith(t, stateless, g.issuer.Token(claims{"groups": "sales"}), `{"elicitation":{}}`)
	params := uses["tools/call"]
	if got := said(mustCall(t, c, "tools/call", retryOf(t, mustCall(t, c, "tools/call", params), params,
		approve))); got != "ran open" {
		t.Errorf("whoever is allowed and approves gets %s", got)
	}
}
