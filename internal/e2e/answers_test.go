package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/gateway/front"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// eachAskedPair runs a test for each pair of eras and each method that allows questions,
// with authentication. The server, "up", asks for sampling.
func eachAskedPair(t *testing.T, test func(t *testing.T, g *guarded, s *inquirer, client, method string)) {
	for _, server := range []string{statefulServer, stateless} {
		s := newInquirer(t, server)
		s.name = "up"
		s.asks([]inquiry{aSample})
		g := guard(t, gateway.Config{Upstreams: []upstream.Config{{Name: "up", URL: s.URL}}})
		for _, client := range eras {
			for _, method := range askMethods {
				t.Run(fmt.Sprintf("client %s server %s %s", client, server, method),
					func(t *testing.T) { test(t, g, s, client, method) })
			}
		}
	}
}

// shown is a question that a stateless client got, and the retry that answers it.
type shown struct{ key, state, retry string }

func show(t *testing.T, c *mcptest.Client, method, params, answer string) shown {
	t.Helper()
	m, _, err := c.Call(deadline(t), method, params)
	if err != nil {
		t.Fatal(err)
	}
	var requests map[string]json.RawMessage
	var q shown
	if !m.Value("inputRequests", &requests) || len(requests) != 1 || !m.Value("requestState", &q.state) {
		t.Fatalf("no question: %s", m.Text)
	}
	for q.key = range requests {
	}
	q.retry = strings.TrimSuffix(params, "}") + fmt.Sprintf(`,"requestState":%q,"inputResponses":{%q:%s}}`, q.state,
		q.key, answer)
	return q
}

// TestAnswersOfAnotherUser: another user cannot answer a user's question.
func TestAnswersOfAnotherUser(t *testing.T) {
	t.Parallel()
	eachAskedPair(t, func(t *testing.T, g *guarded, s *inquirer, client, method string) {
		alice := g.rawWith(t, client, g.issuer.Token(claims{"sub": "alice"}), askable)
		eve := g.rawWith(t, client, g.issuer.Token(claims{"sub": "eve"}), askable)
		if client == stateless {
			q := show(t, alice, method, s.params(method), sampled)
			if m, _, err := eve.Call(deadline(t), method, q.retry); err != nil || m.Error == nil || m.Error.Code != -32602 {
				t.Errorf("another user: %s %v", m.Text, err)
			}
			if m, _, err := alice.Call(deadline(t), method, q.retry); err != nil || outcome(m) != sampled {
				t.Errorf("the user: %s %v", m.Text, err)
			}
			return
		}
		x, err := alice.Send(deadline(t), method, s.params(method))
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		q, err := x.Until(aSample.Method)
		if err != nil {
			t.Fatal(err)
		}
		const wrong = `{"role":"assistant","model":"eve","content":{"type":"text","text":"eve's"}}`
		if err := eve.Answer(deadline(t), q.ID, wrong); err != nil {
			t.Errorf("an answer in another session: %v", err)
		}
		mine := alice.Session
		eve.Session = mine
		if err := eve.Answer(deadline(t), q.ID, wrong); err == nil || !strings.Contains(err.Error(), "404") {
			t.Errorf("an answer in somebody else's session: %v", err)
		}
		if err := alice.Answer(deadline(t), q.ID, sampled); err != nil {
			t.Fatal(err)
		}
		if m, err := x.Response(); err != nil || outcome(m) != sampled {
			t.Errorf("the user: %s %v", m.Text, err)
		}
	})
}

// TestAnswersTwice: a second answer, a late one, and one with a changed request are
// refused.
func TestAnswersTwice(t *testing.T) {
	t.Parallel()
	eachAskedPair(t, func(t *testing.T, g *guarded, s *inquirer, client, method string) {
		c := g.rawWith(t, client, g.issuer.Token(nil), askable)
		if client != stateless {
			var late []byte
			m, asked := converse(t, c, method, s.params(method), func(inquiry) string { return sampled })
			if len(asked) != 1 || outcome(m) != sampled {
				t.Fatalf("asked %v: %s", asked, m.Text)
			}
			x, err := c.Send(deadline(t), method, s.params(method))
			if err != nil {
				t.Fatal(err)
			}
			defer x.Close()
			q, err := x.Until(aSample.Method)
			if err != nil {
				t.Fatal(err)
			}
			late = q.ID
			for _, answer := range []string{sampled,
				`{"role":"assistant","model":"late","content":{"type":"text","text":"late"}}`} {
				if err := c.Answer(deadline(t), late, answer); err != nil {
					t.Errorf("an answer that comes twice: %v", err)
				}
			}
			if m, err := x.Response(); err != nil || outcome(m) != sampled {
				t.Errorf("%s %v", m.Text, err)
			}
			return
		}
		q := show(t, c, method, s.params(method), sampled)
		changed := map[string]string{
			"an argument more": strings.Replace(q.retry, "{", `{"arguments":{"more":"1"},`, 1),
			"a changed state":  strings.Replace(q.retry, q.state, "A"+q.state, 1),
		}
		for name, retry := range changed {
			if m, _, err := c.Call(deadline(t), method, retry); err != nil || m.Error == nil || m.Error.Code != -32602 {
				t.Errorf("%s: %s %v", name, m.Text, err)
			}
		}
		for _, other := range askMethods { // the state belongs to another method
			if other == method {
				continue
			}
			retry := strings.Replace(q.retry, strings.Trim(s.params(method), "{}"), strings.Trim(s.params(other), "{}"), 1)
			if m, _, err := c.Call(deadline(t), other, retry); err != nil || m.Error == nil || m.Error.Code != -32602 {
				t.Errorf("%s: %s %v", other, m.Text, err)
			}
		}
		if m, _, err := c.Call(deadline(t), method, q.retry); err != nil || outcome(m) != sampled {
			t.Fatalf("the right one: %s %v", m.Text, err)
		}
		m, _, err := c.Call(deadline(t), method, q.retry)
		if err != nil {
			t.Fatal(err)
		}
		// A server without sessions must itself prevent that something happens twice
		// (2026-07-28 basic/patterns/mrtr).
		if s.revision.Stateful && (m.Error == nil || m.Error.Code != -32602 || !strings.Contains(m.Text, "expired")) {
			t.Errorf("the right one again: %s", m.Text)
		}
	})
}

// TestNobodyAnswers: the server is told, and the gateway keeps nothing.
func TestNobodyAnswers(t *testing.T) {
	t.Parallel()
	for _, server := range []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"} {
		s := newInquirer(t, server)
		s.name = "up"
		s.asks([]inquiry{aSample, theirs})
		url := start(t, gateway.Config{
			HTTP:      front.Config{AskTimeout: 100 * time.Millisecond},
			Upstreams: []upstream.Config{{Name: "up", URL: s.URL, Timeout: upstream.Timeout{Ask: 100 * time.Millisecond}}},
		})
		for _, client := range eras {
			t.Run("client "+client+" server "+server, func(t *testing.T) {
				c := rawWith(t, url, client, askable)
				if client == stateless {
					q := show2(t, c, s.params("tools/call"))
					if !s.revision.Stateful {
						return // nothing is kept
					}
					if _, err := s.Await(deadline(t), "the cancellation", isMethod("notifications/cancelled")); err != nil {
						t.Fatal(err)
					}
					if m, _, err := c.Call(deadline(t), "tools/call", q.retry); err != nil || m.Error == nil ||
						m.Error.Code != -32602 || !strings.Contains(m.Text, "expired") {
						t.Errorf("a late answer: %s %v", m.Text, err)
					}
					answered := 0
					for _, r := range s.Received("") {
						if r.IsResponse() && r.Error != nil {
							answered++
						}
					}
					if answered < 2 {
						t.Errorf("the server got %d refusals of its two questions", answered)
					}
					return
				}
				x, err := c.Send(deadline(t), "tools/call", s.params("tools/call"))
				if err != nil {
					t.Fatal(err)
				}
				defer x.Close()
				m, err := x.Response()
				want := `{"error":-32603} {"error":-32603}`
				if !s.revision.Stateful {
					want = "isError"
				}
				if err != nil || outcome(m) != want {
					t.Errorf("%s %v, want %s", m.Text, err, want)
				}
				asked, ended := 0, 0
				for _, m := range x.Before {
					if m.ID != nil {
						asked++
					} else if m.Method == "notifications/cancelled" {
						ended++
					}
				}
				if asked != 2 || ended != 2 {
					t.Errorf("the client was asked %d questions and told that %d are over", asked, ended)
				}
			})
		}
	}
}

// show2 is show for two questions; the retry has no answers to them.
func show2(t *testing.T, c *mcptest.Client, params string) shown {
	t.Helper()
	m, _, err := c.Call(deadline(t), "tools/call", params)
	var q shown
	if err != nil || !m.Value("requestState", &q.state) {
		t.Fatalf("no question: %s %v", m.Text, err)
	}
	q.retry = strings.TrimSuffix(params, "}") + fmt.Sprintf(`,"requestState":%q,"inputResponses":{}}`, q.state)
	return q
}

// TestStatesOfServers: a stateless client gets the questions of a stateless
// server unchanged, and the server gets back exactly its own state.
func TestStatesOfServers(t *testing.T) {
	s := scripted(t, stateless)
	s.Tools("do")
	const state = `{"a": 1.0, "é":"\u2028"}` + " ~"
	var got []string
	s.Tool("do", func(c *mcptest.Call) {
		var back string
		var answers json.RawMessage
		hasState := c.Param("requestState", &back)
		c.Param("inputResponses", &answers)
		got = append(got, fmt.Sprintf("%t %s %s", hasState, back, answers))
		if len(got) == 1 {
			quoted, _ := json.Marshal(state)
			c.Result(`{"resultType":"input_required","inputRequests":{"k-é.1":{"method":"roots/list","params":{}}},"requestState":` + string(quoted) + `}`)
			return
		}
		c.Text("ok")
	})
	c := rawWith(t, inFrontOf(t, s), stateless, askable)
	q := show(t, c, "tools/call", `{"name":"up__do"}`, rooted)
	if q.key != "k-é.1" || strings.Contains(q.state, "1.0") {
		t.Errorf("asked under %q with the state %q", q.key, q.state)
	}
	if m, _, err := c.Call(deadline(t), "tools/call", q.retry); err != nil || outcome(m) != "ok" {
		t.Errorf("%s %v", m.Text, err)
	}
	if m, _, err := c.Call(deadline(t), "tools/call",
		`{"name":"up__do","inputResponses":{"k":{"roots":[]},"other":{"x":1}}}`); err != nil || outcome(m) != "ok" {
		t.Errorf("%s %v", m.Text, err)
	}
	want := []string{"false  ", `true ` + state + ` {"k-é.1":` + rooted + `}`, `false  {"k":{"roots":[]},"other":{"x":1}}`}
	for i := range want {
		if i >= len(got) || got[i] != want[i] {
			t.Errorf("the server got %q, want %q", got, want)
			break
		}
	}
}
