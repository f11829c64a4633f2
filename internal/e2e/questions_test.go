package e2e

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

const (
	// askable is what a client declares that can be asked everything its revision has.
	askable = `{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}},"roots":{}}`

	yes     = `{"action":"accept","content":{"a":"x","n":1.50,"b":true}}`
	sampled = `{"role":"assistant","model":"m","content":{"type":"text","text":"t"},"stopReason":"endTurn"}`
	rooted  = `{"roots":[{"uri":"file:///a"}]}`
)

var (
	aForm   = inquiry{"elicitation/create", `{"message":"m","requestedSchema":{"type":"object","properties":{"a":{"type":"string"},"n":{"type":"number"},"b":{"type":"boolean","default":true}},"required":["a"]}}`}
	aSample = inquiry{"sampling/createMessage", `{"messages":[{"role":"user","content":{"type":"text","text":"q"}}],"maxTokens":10}`}
	theirs  = inquiry{"roots/list", `{}`}
)

// usual is how a client answers that does what it is asked.
func usual(q inquiry) string {
	switch q.Method {
	case "elicitation/create":
		return yes
	case "sampling/createMessage":
		return sampled
	}
	return rooted
}

// TestP9_098_099_EachQuestionInEachPair asks each kind of question during each method
// that may be asked in, with clients and servers of all revisions.
func TestP9_098_099_EachQuestionInEachPair(t *testing.T) {
	url, servers := allRevisions(t, nil)
	for _, revision := range wire.Revisions() {
		c := rawWith(t, url, revision.Name, askable)
		for _, s := range servers {
			t.Run("client "+revision.Name+" server "+s.revision.Name, func(t *testing.T) {
				for _, method := range askMethods {
					for _, q := range []inquiry{aForm, aSample, theirs} {
						if forms, _ := canElicit(s.revision.Name); !forms && q == aForm {
							continue // a server of this revision does not ask it
						}
						s.asks([]inquiry{q})
						before := len(s.Received(method))
						m, asked := converse(t, c, method, s.params(method), usual)
						want := usual(q)
						forms, _ := canElicit(revision.Name)
						switch {
						case q == aForm && !forms:
							if len(asked) > 0 || outcome(m) == want {
								t.Errorf("P9/96 %s: the client was asked %v; %s", method, asked, m.Text)
							}
							continue
						case len(asked) != 1 || asked[0].Method != q.Method || !sameJSON(asked[0].Params, q.Params):
							t.Errorf("%s: asked %v, want %v", method, asked, q)
						case outcome(m) != want:
							t.Errorf("%s: the server was answered %s, want %s", method, outcome(m), want)
						}
						if calls := len(s.Received(method)) - before; s.revision.Stateful && calls != 1 {
							t.Errorf("P9/98 %s: %d calls were made", method, calls)
						}
					}
				}
			})
		}
	}
}

// TestP9_100_RoundsInEachPair asks several questions at once, and then another one.
func TestP9_100_RoundsInEachPair(t *testing.T) {
	url, servers := allRevisions(t, nil)
	for _, revision := range wire.Revisions() {
		c := rawWith(t, url, revision.Name, askable)
		for _, s := range servers {
			t.Run("client "+revision.Name+" server "+s.revision.Name, func(t *testing.T) {
				s.asks([]inquiry{aSample, theirs}, []inquiry{aSample})
				before := len(s.Received("tools/call"))
				m, asked := converse(t, c, "tools/call", s.params("tools/call"), usual)
				if want := strings.Join([]string{sampled, rooted, sampled}, " "); outcome(m) != want || len(asked) != 3 {
					t.Errorf("after %d questions: %s\nwant %s", len(asked), outcome(m), want)
				}
				var ids []string
				for _, r := range s.Received("tools/call")[before:] {
					if slices.Contains(ids, string(r.ID)) {
						t.Errorf("P9/106 the id %s was used twice", r.ID)
					}
					ids = append(ids, string(r.ID))
				}
			})
		}
	}
}

// TestAnswersInEachPair has users say no, cancel, and clients refuse to ask them.
func TestAnswersInEachPair(t *testing.T) {
	url, servers := allRevisions(t, nil)
	for _, revision := range wire.Revisions() {
		c := rawWith(t, url, revision.Name, askable)
		for _, s := range servers {
			t.Run("client "+revision.Name+" server "+s.revision.Name, func(t *testing.T) {
				clients, _ := canElicit(revision.Name)
				servers, _ := canElicit(s.revision.Name)
				if clients && servers {
					for _, answer := range []string{`{"action":"decline"}`, `{"action":"cancel"}`} {
						s.asks([]inquiry{aForm})
						m, _ := converse(t, c, "tools/call", s.params("tools/call"), func(inquiry) string { return answer })
						if outcome(m) != answer {
							t.Errorf("the server was answered %s, want %s", outcome(m), answer)
						}
					}
				}
				if !revision.Stateful {
					return // who does not want to answer does not come back
				}
				refuse := func(inquiry) string { return "" }
				for _, method := range askMethods {
					s.asks([]inquiry{aSample})
					before := len(s.Received(method))
					m, _ := converse(t, c, method, s.params(method), refuse)
					want := `{"error":-1}`
					switch {
					case !s.revision.Stateful && method == "tools/call":
						want = "isError"
					case !s.revision.Stateful:
						want = "error -32603"
					}
					if outcome(m) != want || len(s.Received(method)) != before+1 {
						t.Errorf("P9/108 %s: %s after %d requests, want %s after one", method, outcome(m), len(s.Received(method))-before, want)
					}
				}
			})
		}
	}
}

// TestP9_114_FormsOfEachRevision asks for a titled choice and for several values.
func TestP9_114_FormsOfEachRevision(t *testing.T) {
	url, servers := allRevisions(t, nil)
	const (
		one     = `{"mode":"form","message":"m","requestedSchema":{"type":"object","properties":{"c":{"type":"string","oneOf":[{"const":"r","title":"Red"},{"const":"g","title":"Green"}],"default":"r"}}}}`
		oneOld  = `{"message":"m","requestedSchema":{"type":"object","properties":{"c":{"type":"string","enum":["r","g"],"enumNames":["Red","Green"]}}}}`
		several = `{"mode":"form","message":"m","requestedSchema":{"type":"object","properties":{"c":{"type":"array","items":{"type":"string","enum":["r","g"]}}}}}`
	)
	for _, revision := range []string{"2025-06-18", "2025-11-25", "2026-07-28"} {
		c := rawWith(t, url, revision, askable)
		for _, s := range servers {
			if _, newer := canElicit(s.revision.Name); !newer {
				continue
			}
			t.Run("client "+revision+" server "+s.revision.Name, func(t *testing.T) {
				const chosen, chosenSeveral = `{"action":"accept","content":{"c":"g"}}`, `{"action":"accept","content":{"c":["r","g"]}}`
				s.asks([]inquiry{{"elicitation/create", one}})
				m, asked := converse(t, c, "tools/call", s.params("tools/call"), func(inquiry) string { return chosen })
				want := one
				if revision == "2025-06-18" {
					want = oneOld
				}
				if len(asked) != 1 || !sameJSON(asked[0].Params, want) || outcome(m) != chosen {
					t.Errorf("asked %v, want %s; the server was answered %s", asked, want, outcome(m))
				}
				s.asks([]inquiry{{"elicitation/create", several}})
				m, asked = converse(t, c, "tools/call", s.params("tools/call"), func(inquiry) string { return chosenSeveral })
				switch {
				case revision != "2025-06-18":
					if len(asked) != 1 || !sameJSON(asked[0].Params, several) || outcome(m) != chosenSeveral {
						t.Errorf("asked %v; the server was answered %s", asked, outcome(m))
					}
				case len(asked) > 0:
					t.Errorf("the client was asked %v, which it does not know", asked)
				case s.revision.Stateful && outcome(m) != `{"error":-32602}`, !s.revision.Stateful && outcome(m) != `{"action":"cancel"}`:
					t.Errorf("the server was answered %s", outcome(m))
				}
			})
		}
	}
}

// sameJSON reports whether two objects say the same, in whatever order.
func sameJSON(a, b string) bool {
	var x, y any
	if a == "" {
		a = "{}"
	}
	if json.Unmarshal([]byte(a), &x) != nil || json.Unmarshal([]byte(b), &y) != nil {
		return false
	}
	p, _ := json.Marshal(x) // what was JSON a moment ago
	q, _ := json.Marshal(y)
	return string(p) == string(q)
}
