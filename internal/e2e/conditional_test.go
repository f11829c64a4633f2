package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// conditional are tools that a server lists only for clients with certain capabilities.
var conditional = map[string]struct {
	needs []string // members of the client's capabilities, each within the one before
	inquiry
}{
	"form": {[]string{"elicitation", "form"}, inquiry{"elicitation/create",
		`{"mode":"form","message":"m","requestedSchema":{"type":"object","properties":{}}}`}},
	"page": {[]string{"elicitation", "url"}, inquiry{"elicitation/create",
		`{"mode":"url","elicitationId":"e","message":"m","url":"https://a.example/x"}`}},
	"sample": {[]string{"sampling"}, inquiry{"sampling/createMessage", `{"messages":[],"maxTokens":1}`}},
	"use": {[]string{"sampling", "tools"}, inquiry{"sampling/createMessage",
		`{"messages":[],"maxTokens":1,"tools":[]}`}},
	"roots": {[]string{"roots"}, inquiry{"roots/list", `{}`}},
}

// picky is a server that lists tools by the capabilities that its client declares. Before
// it answers a request for the list, it asks the client about each of them.
type picky struct {
	*mcptest.Server
	revision string

	mu      sync.Mutex // guards answers
	answers map[string]string
}

func newPicky(t *testing.T, revision string) *picky {
	t.Helper()
	p := &picky{Server: scripted(t, revision), revision: revision, answers: make(map[string]string)}
	p.Tools("plain")
	p.On("tools/list", func(c *mcptest.Call) {
		list := []string{`{"name":"plain","inputSchema":{"type":"object"}}`}
		for name, tool := range conditional {
			if !p.declares(c, tool.needs) {
				continue
			}
			list = append(list, fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object"}}`, name))
			if revision == stateless {
				continue
			}
			m, err := c.Ask(tool.Method, tool.Params)
			if err != nil {
				return
			}
			p.mu.Lock()
			p.answers[name] = m.Text
			p.mu.Unlock()
		}
		c.Result(fmt.Sprintf(`{"ttlMs":60000,"cacheScope":"public","tools":[%s]}`, strings.Join(list, ",")))
	})
	p.On("tools/call", func(c *mcptest.Call) {
		var name string
		c.Param("name", &name)
		tool, ok := conditional[name]
		switch {
		case !ok:
			c.Text("plain")
		case !p.declares(c, tool.needs):
			c.Error(-32602, "this client has no such tool")
		default:
			askIn(wire.Lookup(revision), c, [][]inquiry{{tool.inquiry}})
		}
	})
	return p
}

func (p *picky) declares(c *mcptest.Call, needs []string) bool {
	var caps json.RawMessage
	if p.revision == stateless {
		c.Param("_meta|io.modelcontextprotocol/clientCapabilities", &caps)
	} else {
		hello := p.Hello(c.Session)
		hello.Param("capabilities", &caps)
	}
	for _, member := range needs {
		var members map[string]json.RawMessage
		if json.Unmarshal(caps, &members) != nil || members[member] == nil {
			return false
		}
		caps = members[member]
	}
	return true
}

// TestToolsForClientsThatCanBeAsked: each client is shown, and can call, what it would be
// shown by the server, and no client is asked what it did not declare.
func TestToolsForClientsThatCanBeAsked(t *testing.T) {
	t.Parallel()
	for _, revision := range []string{statefulClient, stateless} {
		p := newPicky(t, revision)
		url := inFrontOf(t, p.Server)
		for _, client := range []string{statefulClient, stateless} {
			t.Run("client "+client+" server "+revision, func(t *testing.T) {
				for caps, shown := range map[string]string{
					askable: "form page plain roots sample use", `{}`: "plain", `{"roots":{}}`: "plain roots",
					`{"elicitation":{}}`: "form plain", `{"elicitation":{"url":{}},"sampling":{}}`: "page plain sample",
				} {
					c := rawWith(t, url, client, caps)
					awaitTools(t, c, "up__"+strings.Join(strings.Fields(shown), " up__"))
					for name, tool := range conditional {
						m, asked := converse(t, c, "tools/call", fmt.Sprintf(`{"name":"up__%s"}`, name), usualOrPage)
						can := slices.Contains(strings.Fields(shown), name)
						if can && (len(asked) != 1 || asked[0].Method != tool.Method || outcome(m) != usualOrPage(asked[0])) {
							t.Errorf("%s for %s: asked %v, then %s", name, caps, asked, m.Text)
						}
						if !can && (len(asked) > 0 || outcome(m) != "error -32602") {
							t.Errorf("%s for %s: asked %v, then %s", name, caps, asked, m.Text)
						}
					}
				}
			})
		}
		p.mu.Lock()
		for name, want := range map[string]string{"form": `"result":{"action":"cancel"}`,
			"page": `"result":{"action":"cancel"}`, "sample": `"code":-1,`, "use": `"code":-1,`,
			"roots": `"result":{"roots":[]}`} {
			if got := p.answers[name]; revision != stateless && !strings.Contains(got, want) {
				t.Errorf("asked for %s where there is no user, the gateway answers %s, want %s", name, got, want)
			}
		}
		p.mu.Unlock()
	}
}

// usualOrPage is usual, also for pages, which have no content.
func usualOrPage(q inquiry) string {
	if strings.Contains(q.Params, `"mode":"url"`) {
		return `{"action":"accept"}`
	}
	return usual(q)
}

// awaitTools waits until a client is shown these tools and no others. The gateway may have
// to look at the servers first as a client of this kind.
func awaitTools(t *testing.T, c *mcptest.Client, want string) {
	t.Helper()
	for limit := deadline(t); ; {
		var listed []struct{ Name string }
		mustCall(t, c, "tools/list", `{}`).Value("tools", &listed)
		var names []string
		for _, tool := range listed {
			names = append(names, tool.Name)
		}
		slices.Sort(names)
		got := strings.Join(names, " ")
		if got == want {
			return
		}
		select {
		case <-limit.Done():
			t.Fatalf("the client is shown %s, want %s", got, want)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
