package e2e

import (
	"encoding/json"
	"strings"
	"testing"
)

const (
	// askable are the capabilities of a client that can be asked everything in its
	// revision.
	askable = `{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}},"roots":{}}`

	yes     = `{"action":"accept","content":{"a":"x","n":1.50,"b":true}}`
	sampled = `{"role":"assistant","model":"m","content":{"type":"text","text":"t"},"stopReason":"endTurn"}`
	rooted  = `{"roots":[{"uri":"file:///a"}]}`
)

var (
	aForm = inquiry{"elicitation/create",
		`{"message":"m","requestedSchema":{"type":"object","properties":{"a":{"type":"string"},"n":{"type":"number"},"b":{"type":"boolean","default":true}},"required":["a"]}}`}
	aSample = inquiry{"sampling/createMessage",
		`{"messages":[{"role":"user","content":{"type":"text","text":"q"}}],"maxTokens":10}`}
	theirs = inquiry{"roots/list", `{}`}
)

// usual answers a question as requested.
func usual(q inquiry) string {
	switch q.Method {
	case "elicitation/create":
		return yes
	case "sampling/createMessage":
		return sampled
	}
	return rooted
}

// TestFormsOfEachRevision asks for a titled choice and for several values.
func TestFormsOfEachRevision(t *testing.T) {
	t.Parallel()
	url, servers := allRevisions(t, nil)
	const (
		one     = `{"mode":"form","message":"m","requestedSchema":{"type":"object","properties":{"c":{"type":"string","oneOf":[{"const":"r","title":"Red"},{"const":"g","title":"Green"}],"default":"r"}}}}`
		oneOld  = `{"message":"m","requestedSchema":{"type":"object","properties":{"c":{"type":"string","enum":["r","g"],"enumNames":["Red","Green"]}}}}`
		several = `{"mode":"form","message":"m","requestedSchema":{"type":"object","properties":{"c":{"type":"array","items":{"type":"string","enum":["r","g"]}}}}}`
		none    = `{"message":"m","requestedSchema":{"type":"object","properties":{}}}`
	)
	for _, revision := range []string{"2025-06-18", "2025-11-25", "2026-07-28"} {
		c := rawWith(t, url, revision, askable)
		for _, s := range servers {
			if _, newer := canElicit(s.revision.Name); !newer {
				continue
			}
			t.Run("client "+revision+" server "+s.revision.Name, func(t *testing.T) {
				const chosen, chosenSeveral = `{"action":"accept","content":{"c":"g"}}`,
					`{"action":"accept","content":{"c":["r","g"]}}`
				s.asks([]inquiry{{"elicitation/create", one}})
				m, asked := converse(t, c, "tools/call", s.params("tools/call"), func(inquiry) string { return chosen })
				want := one
				if revision == "2025-06-18" {
					want = oneOld
				}
				if len(asked) != 1 || !sameJSON(asked[0].Params, voiced(s.name, want)) || outcome(m) != chosen {
					t.Errorf("asked %v, want %s; the server was answered %s", asked, want, outcome(m))
				}
				if want = several; revision == "2025-06-18" {
					want = none
				}
				s.asks([]inquiry{{"elicitation/create", several}})
				m, asked = converse(t, c, "tools/call", s.params("tools/call"), func(inquiry) string { return chosenSeveral })
				if len(asked) != 1 || !sameJSON(asked[0].Params, voiced(s.name, want)) || outcome(m) != chosenSeveral {
					t.Errorf("asked %v, want %s; the server was answered %s", asked, want, outcome(m))
				}
				needed := strings.TrimSuffix(several, "}}") + `,"required":["c"]}}`
				s.asks([]inquiry{{"elicitation/create", needed}})
				m, asked = converse(t, c, "tools/call", s.params("tools/call"), func(inquiry) string { return chosenSeveral })
				switch {
				case revision != "2025-06-18":
					if len(asked) != 1 || !sameJSON(asked[0].Params, voiced(s.name, needed)) || outcome(m) != chosenSeveral {
						t.Errorf("asked %v; the server was answered %s", asked, outcome(m))
					}
				case len(asked) > 0:
					t.Errorf("the client was asked %v, which it does not know", asked)
				case s.revision.Stateful && outcome(m) != `{"error":-32602}`,
					!s.revision.Stateful && outcome(m) != `{"action":"cancel"}`:
					t.Errorf("the server was answered %s", outcome(m))
				}
			})
		}
	}
}

// voiced returns the params of a question as the gateway shows a question of this server.
func voiced(name, params string) string {
	return strings.Replace(params, `"message":"`, `"message":"`+name+" asks: ", 1)
}

// unvoiced returns the message of a question as its server wrote it.
func unvoiced(message string) string {
	_, text, _ := strings.Cut(message, " asks: ")
	return text
}

// sameJSON reports whether two objects are equal, in any order of members.
func sameJSON(a, b string) bool {
	var x, y any
	if a == "" {
		a = "{}"
	}
	if json.Unmarshal([]byte(a), &x) != nil || json.Unmarshal([]byte(b), &y) != nil {
		return false
	}
	p, _ := json.Marshal(x) // it has just been decoded
	q, _ := json.Marshal(y)
	return string(p) == string(q)
}
