package e2e

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// These are the scenarios of the matrix in which a server asks its client.

// rounds sets the questions, in rounds.
func (p *pair) rounds(t *testing.T, rounds ...[]inquiry) (key string) {
	return p.actor.put(t, func(c *mcptest.Call) { askIn(p.server, c, rounds) })
}

// served skips the test if the server's revision does not have a question.
func (p *pair) served(t *testing.T, q inquiry) {
	t.Helper()
	if forms, _ := canElicit(p.server.Name); q == aForm && !forms {
		cannot(t, "the server's revision has no elicitation")
	}
}

// asked asks one question during a call of each method that allows it.
func asked(q inquiry) func(t *testing.T, p *pair) {
	return func(t *testing.T, p *pair) {
		p.served(t, q)
		for _, method := range askMethods {
			key := p.rounds(t, []inquiry{q})
			m, asked := p.wire.converse(t, method, p.actor.params(method, key), usual)
			want, calls := usual(q), p.actor.calls(key)
			if len(calls) == 0 {
				t.Fatalf("%s: the server got nothing: %s", method, m.Text)
			}
			forms, _ := canElicit(p.client.Name)
			name, _, _ := strings.Cut(q.Method, "/")
			_, declared := p.actor.declared(t, calls[0])[name]
			if q == aForm && !forms {
				if len(asked) > 0 || outcome(m) == want || declared {
					t.Errorf("%s: the client was asked %v (declared: %t); %s", method, asked, declared, m.Text)
				}
				continue
			}
			switch {
			case len(asked) != 1 || asked[0].Method != q.Method || !sameJSON(asked[0].Params, voiced(p.actor.name, q.Params)):
				t.Errorf("%s: asked %v, want %v", method, asked, q)
			case outcome(m) != want:
				t.Errorf("%s: the server was answered %s, want %s", method, outcome(m), want)
			}
			if p.server.Stateful && len(calls) != 1 || !declared {
				t.Errorf("%s: %d calls were made, declared: %t", method, len(calls), declared)
			}
		}
	}
}

func askedInRounds(t *testing.T, p *pair) {
	key := p.rounds(t, []inquiry{aSample, theirs}, []inquiry{aSample})
	m, asked := p.wire.converse(t, "tools/call", p.actor.params("tools/call", key), usual)
	if want := strings.Join([]string{sampled, rooted, sampled}, " "); outcome(m) != want || len(asked) != 3 {
		t.Errorf("after %d questions: %s\nwant %s", len(asked), outcome(m), want)
	}
	var ids []string
	for _, r := range p.actor.calls(key) {
		if slices.Contains(ids, string(r.ID)) {
			t.Errorf("the id %s was used twice", r.ID)
		}
		ids = append(ids, string(r.ID))
	}
}

func askedForURL(t *testing.T, p *pair) {
	if _, urls := canElicit(p.server.Name); !urls {
		cannot(t, "the server's revision cannot send the user to a URL")
	}
	const id, yes = `"elicitationId":"theirs",`, `{"action":"accept"}`
	question := `{"mode":"url",` + id + `"message":"m","url":"https://a.example/x"}`
	if !p.server.ElicitationIDs {
		question = strings.Replace(question, id, "", 1)
	}
	key := p.rounds(t, []inquiry{{"elicitation/create", question}})
	m, asked := p.wire.converse(t, "tools/call", p.actor.params("tools/call", key), func(inquiry) string { return yes })
	if _, urls := canElicit(p.client.Name); !urls {
		if len(asked) > 0 || outcome(m) == yes {
			t.Errorf("the client was asked %v: %s", asked, m.Text)
		}
		return
	}
	if len(asked) != 1 || outcome(m) != yes {
		t.Fatalf("asked %v: %s", asked, m.Text)
	}
	var got struct{ Mode, URL, ElicitationID string }
	err := json.Unmarshal([]byte(asked[0].Params), &got)
	if err != nil || got.Mode != "url" || got.URL != "https://a.example/x" ||
		(got.ElicitationID != "") != p.client.ElicitationIDs || got.ElicitationID == "theirs" {
		t.Errorf("asked %s, %v", asked[0].Params, err)
	}
}

// askedWithTools: the client's model uses the tools that the server offers it.
func askedWithTools(t *testing.T, p *pair) {
	if !since(p.server, "2025-11-25") {
		cannot(t, "the server's revision has no tools in sampling")
	}
	question := inquiry{aSample.Method, strings.TrimSuffix(aSample.Params, "}") +
		`,"tools":[{"name":"t","inputSchema":{"type":"object"}}],"toolChoice":{"mode":"auto"}}`}
	const use = `{"role":"assistant","model":"m","content":[{"type":"tool_use","id":"c","name":"t","input":{"n":1.0}}],"stopReason":"toolUse"}`
	key := p.rounds(t, []inquiry{question})
	m, asked := p.wire.converse(t, "tools/call", p.actor.params("tools/call", key), func(inquiry) string { return use })
	if !since(p.client, "2025-11-25") {
		if len(asked) > 0 || outcome(m) == use {
			t.Errorf("the client was asked %v: %s", asked, m.Text)
		}
		return
	}
	if len(asked) != 1 || !sameJSON(asked[0].Params, question.Params) || outcome(m) != use {
		t.Errorf("asked %v: %s", asked, m.Text)
	}
}

func askedInVain(t *testing.T, p *pair) {
	p.served(t, aForm)
	if forms, _ := canElicit(p.client.Name); !forms {
		cannot(t, "the client's revision has no elicitation: there is nobody to decline")
	}
	for _, answer := range []string{`{"action":"decline"}`, `{"action":"cancel"}`} {
		key := p.rounds(t, []inquiry{aForm})
		m, _ := p.wire.converse(t, "tools/call", p.actor.params("tools/call", key), func(inquiry) string { return answer })
		if outcome(m) != answer {
			t.Errorf("the server was answered %s, want %s", outcome(m), answer)
		}
	}
}

func refusedByClient(t *testing.T, p *pair) {
	if !p.client.Stateful {
		cannot(t, "the client's revision has no way to say so: who does not want to answer does not come back")
	}
	for _, method := range askMethods {
		key := p.rounds(t, []inquiry{aSample})
		m, _ := p.wire.converse(t, method, p.actor.params(method, key), func(inquiry) string { return "" })
		want := `{"error":-1}`
		switch {
		case !p.server.Stateful && method == "tools/call":
			want = "isError"
		case !p.server.Stateful:
			want = "error -32603"
		}
		if n := len(p.actor.calls(key)); outcome(m) != want || n != 1 {
			t.Errorf("%s: %s after %d requests, want %s after one", method, outcome(m), n, want)
		}
	}
}

// unaskable has a client that declares nothing.
func unaskable(t *testing.T, p *pair) {
	c := p.open(t, "{}")
	for _, q := range []inquiry{aForm, aSample, theirs} {
		for _, method := range askMethods {
			key := p.rounds(t, []inquiry{q})
			m, asked := c.converse(t, method, p.actor.params(method, key), usual)
			if len(asked) > 0 || outcome(m) == usual(q) {
				t.Errorf("%s: the client was asked %v: %s", method, asked, m.Text)
			}
			for name := range p.actor.declared(t, p.actor.calls(key)[0]) {
				if name == "elicitation" || name == "sampling" || name == "roots" {
					t.Errorf("%s: the server was told of %s", method, name)
				}
			}
		}
	}
}
