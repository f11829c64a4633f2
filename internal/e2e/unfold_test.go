package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// discloser is a scripted server with its own progressive disclosure of tools.
type discloser struct {
	*mcptest.Server
	mu   sync.Mutex // guards read
	read map[string]bool
}

// newDiscloser starts a discloser. refuse is its answer to a call before the description
// was read.
func newDiscloser(t *testing.T, revision string, refuse func(c *mcptest.Call, body string)) *discloser {
	t.Helper()
	d := &discloser{Server: scripted(t, revision), read: map[string]bool{}}
	d.Offers(`{"tools":{},"resources":{}}`)
	d.On("tools/list", func(c *mcptest.Call) {
		short := `"inputSchema":{"type":"object","additionalProperties":true}`
		c.Result(`{"tools":[{"name":"find","description":"Finds things.",` + short + `},{"name":"gone","description":"Is not told of.",` + short + `},
			{"name":"plain","description":"As ever.","inputSchema":{"type":"object","properties":{"a":{"type":"string"}}}}]}`)
	})
	d.On("resources/list", func(c *mcptest.Call) {
		c.Result(`{"resources":[{"uri":"resource:///tool_descriptions","name":"Tool descriptions"},{"uri":"file:///a","name":"a"}]}`)
	})
	d.On("resources/read", func(c *mcptest.Call) {
		var uri string
		c.Param("uri", &uri)
		_, names, _ := strings.Cut(uri, "?tools=")
		all := map[string]any{}
		d.mu.Lock()
		for name := range strings.SplitSeq(names, ",") {
			if name != "find" {
				all[name] = map[string]any{"error": "not found"}
				continue
			}
			d.read[c.Session+name] = true
			all[name] = json.RawMessage(`{"name":"find","description":"Finds things of all kinds. Slowly.","inputSchema":{"type":"object","properties":{"what":{"type":"string","x-mcp-header":"What"}}},
				"examples":[{"input":{"what":"keys"}}],"error_guidance":{"nothing there":"Look elsewhere."}}`)
		}
		d.mu.Unlock()
		text, err := json.Marshal(all)
		if err != nil {
			panic(err)
		}
		c.Result(fmt.Sprintf(`{"contents":[{"uri":%q,"mimeType":"application/json","text":%q}]}`, uri, text))
	})
	d.On("tools/call", func(c *mcptest.Call) {
		var name string
		c.Param("name", &name)
		d.mu.Lock()
		known := d.read[c.Session+name] || name == "plain"
		d.mu.Unlock()
		if !known {
			refuse(c, `{"error":{"code":"TOOL_DESCRIPTION_REQUIRED","message":"Tool '`+name+
				`' requires fetching its description before use.","resource_uri":"resource:///tool_descriptions?tools=`+name+`"}}`)
			return
		}
		c.Text("ran " + name)
	})
	return d
}

// forget makes the server forget what was read.
func (d *discloser) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.read)
}

// TestServerThatDiscloses: its tools are listed in full in mode full and in short form in
// mode progressive, and no client meets the server's own rules.
func TestServerThatDiscloses(t *testing.T) {
	t.Parallel()
	refusals := map[string]func(c *mcptest.Call, body string){
		"a result": func(c *mcptest.Call, body string) {
			c.Result(fmt.Sprintf(`{"isError":true,"content":[{"type":"text","text":%q}]}`, body))
		},
		"a result with words in front": func(c *mcptest.Call, body string) {
			c.Result(fmt.Sprintf(`{"isError":true,"content":[{"type":"text","text":%q}]}`, "Error executing tool find: "+body))
		},
		"an error": func(c *mcptest.Call, body string) { c.Error(-32602, body) },
	}
	for _, server := range []string{statefulServer, stateless} {
		for how, refuse := range refusals {
			t.Run(server+", refuses by "+how, func(t *testing.T) {
				d := newDiscloser(t, server, refuse)
				cfg := gateway.Config{Upstreams: []upstream.Config{{Name: "up", URL: d.URL}}}
				full := start(t, cfg)
				for _, revision := range eras {
					c := raw(t, full, revision)
					tools := mustCall(t, c, "tools/list", "")
					if !strings.Contains(tools.Text, "Slowly") || !strings.Contains(tools.Text, `"what"`) ||
						!strings.Contains(tools.Text, "Look elsewhere") {
						t.Errorf("in full: %s", tools.Text)
					}
					if list := mustCall(t, c, "resources/list", ""); strings.Contains(list.Text, "tool_descriptions") ||
						!strings.Contains(list.Text, "file:///a") {
						t.Errorf("the server's own descriptions are listed: %s", list.Text)
					}
					d.forget()
					before := len(d.Received("tools/call"))
					if m := mustCall(t, c, "tools/call", `{"name":"up__find","arguments":{}}`); !strings.Contains(m.Text, "ran find") {
						t.Errorf("called: %s", m.Text)
					}
					if n := len(d.Received("tools/call")) - before; n != 2 {
						t.Errorf("the server was called %d times", n)
					}
					// It refuses a tool without a description for good: the gateway tries
					// once more and stops.
					before = len(d.Received("tools/call"))
					if m, _, err := c.Call(deadline(t), "tools/call", `{"name":"up__gone","arguments":{}}`); err != nil ||
						!strings.Contains(m.Text, "TOOL_DESCRIPTION_REQUIRED") {
						t.Errorf("called: %s, %v", m.Text, err)
					}
					if n := len(d.Received("tools/call")) - before; n != 2 {
						t.Errorf("the server was called %d times", n)
					}
				}
			})
		}
	}
}

// TestServerThatDisclosesInShort: a short tool of the server is listed in short form; the
// full description comes from the server, and the headers follow it.
func TestServerThatDisclosesInShort(t *testing.T) {
	d := newDiscloser(t, stateless, func(c *mcptest.Call, body string) {
		c.Result(fmt.Sprintf(`{"isError":true,"content":[{"type":"text","text":%q}]}`, body))
	})
	c := raw(t, start(t, inShort(upstream.Config{Name: "up", URL: d.URL})), statefulClient)
	tools := mustCall(t, c, "tools/list", "")
	if strings.Contains(tools.Text, "Slowly") || !strings.Contains(tools.Text, `"description":"Finds things."`) {
		t.Errorf("listed: %s", tools.Text)
	}
	if got := names(t, tools, "tools"); !slices.Equal(got,
		[]string{"describe_tools", "up__find", "up__gone", "up__plain"}) {
		t.Errorf("listed: %q", got)
	}
	if m := mustCall(t, c, "resources/read", `{"uri":"`+describedAt+`?tools=up__find"}`); !strings.Contains(m.Text,
		"Slowly") ||
		!strings.Contains(m.Text, `{\"input\":{\"what\":\"keys\"}}`) || !strings.Contains(m.Text, "Look elsewhere") {
		t.Errorf("described: %s", m.Text)
	}
	if m := mustCall(t, c, "tools/call", `{"name":"up__find","arguments":{"what":"keys"}}`); !strings.Contains(m.Text,
		"ran find") {
		t.Errorf("called: %s", m.Text)
	}
	calls := d.Received("tools/call")
	if got := calls[len(calls)-1].Header.Get("Mcp-Param-What"); got != "keys" {
		t.Errorf("the server got the header %q", got)
	}
}

// TestOrdinaryServersAreCalledOnce: a tool that fails with such a text, at a server without
// descriptions, may have run.
func TestOrdinaryServersAreCalledOnce(t *testing.T) {
	for _, server := range []string{statefulServer, stateless} {
		s := scripted(t, server)
		s.Tools("do")
		s.Tool("do", func(c *mcptest.Call) {
			c.Result(`{"isError":true,"content":[{"type":"text","text":"{\"error\":{\"code\":\"TOOL_DESCRIPTION_REQUIRED\"}}"}]}`)
		})
		c := raw(t, start(t, gateway.Config{Upstreams: []upstream.Config{{Name: "up", URL: s.URL}}}), statefulClient)
		mustCall(t, c, "tools/call", `{"name":"up__do"}`)
		if n := len(s.Received("tools/call")); n != 1 {
			t.Errorf("called %d times", n)
		}
	}
}
