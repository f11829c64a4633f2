package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/gateway/feature/disclosure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/policy"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

const describedAt = "resource:///tool_descriptions"

// inShort is a configuration in mode progressive.
func inShort(upstreams ...upstream.Config) gateway.Config {
	return gateway.Config{
		Upstreams:  upstreams,
		Disclosure: config.Disclosure{Config: disclosure.Config{Mode: disclosure.ModeProgressive}},
	}
}

// eachPeerInShort runs a test for a client of each era with a go-sdk server of each era.
func eachPeerInShort(t *testing.T, test func(t *testing.T, url, revision string)) {
	for _, server := range []string{statefulServer, stateless} {
		url, stop := serve(newPeer(server, func(string) {}), server == stateless)
		t.Cleanup(stop)
		endpoint := start(t, inShort(upstream.Config{Name: "up", URL: url}))
		for _, revision := range eras {
			t.Run("client "+revision+" server "+server, func(t *testing.T) { test(t, endpoint, revision) })
		}
	}
}

// described reads the descriptions of tools and returns them by name.
func described(t *testing.T, c *client, tools string) map[string]map[string]any {
	t.Helper()
	uri := describedAt + "?tools=" + tools
	result, err := c.ReadResource(deadline(t), &sdk.ReadResourceParams{URI: uri})
	if err != nil {
		t.Fatal(err)
	}
	if len(result.Contents) != 1 || result.Contents[0].URI != uri || result.Contents[0].MIMEType != "application/json" {
		t.Fatalf("%s is %+v", uri, result.Contents)
	}
	return descriptions(t, result.Contents[0].Text)
}

func descriptions(t *testing.T, text string) (all map[string]map[string]any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return all
}

// TestDisclosureWorkflow runs the whole workflow with go-sdk's client.
func TestDisclosureWorkflow(t *testing.T) {
	t.Parallel()
	eachPeerInShort(t, func(t *testing.T, url, revision string) {
		c := connect(t, url, revision)
		offered := c.InitializeResult()
		if offered.Capabilities.Resources == nil || offered.Capabilities.Completions == nil ||
			!strings.Contains(offered.Instructions, "TOOL_DESCRIPTION_REQUIRED") {
			t.Errorf("offered are %+v with %q", offered.Capabilities, offered.Instructions)
		}
		listed := map[string]*sdk.Tool{}
		for tool, err := range c.Tools(deadline(t), nil) {
			if err != nil {
				t.Fatal(err)
			}
			listed[tool.Name] = tool
		}
		schema, err := json.Marshal(listed["up__echo"].InputSchema)
		if string(schema) != `{"additionalProperties":true,"type":"object"}` || err != nil ||
			listed["up__echo"].OutputSchema != nil || listed["up__echo"].Title != "Echo" {
			t.Errorf("listed is %+v", listed["up__echo"])
		}
		if listed["describe_tools"] == nil {
			t.Error("describe_tools is not listed")
		}
		found := false
		for r, err := range c.Resources(deadline(t), nil) {
			if err != nil {
				t.Fatal(err)
			}
			found = found || r.URI == describedAt && strings.Contains(r.Description, "Step 1")
		}
		if !found {
			t.Error("the resource is not listed")
		}
		refused, err := c.CallTool(deadline(t), &sdk.CallToolParams{Name: "up__echo",
			Arguments: map[string]any{"text": "hi"}})
		if err != nil || !refused.IsError || refused.StructuredContent != nil {
			t.Fatalf("before fetching: %+v, %v", refused, err)
		}
		if got := descriptions(t, textOf(t, refused))["error"]; got["code"] != "TOOL_DESCRIPTION_REQUIRED" ||
			got["resource_uri"] != describedAt+"?tools=up__echo" {
			t.Errorf("%v", got)
		}
		completed, err := c.Complete(deadline(t), &sdk.CompleteParams{
			Ref:      &sdk.CompleteReference{Type: "ref/resource", URI: describedAt + "{?tools}"},
			Argument: sdk.CompleteParamsArgument{Name: "tools", Value: "up__fail,up__ec"},
		})
		if err != nil || !slices.Equal(completed.Completion.Values, []string{"up__fail,up__echo"}) {
			t.Errorf("completed: %+v, %v", completed, err)
		}
		all := described(t, c, "up__echo,up__nothing")
		properties, _ := all["up__echo"]["inputSchema"].(map[string]any)["properties"].(map[string]any)
		if len(all) != 2 || properties["text"] == nil || all["up__nothing"]["error"] != "Tool 'up__nothing' not found" {
			t.Errorf("%v", all)
		}
		if got := c.text(t, "up__echo", map[string]any{"text": "hi"}); got != "hi" {
			t.Errorf("after fetching: %q", got)
		}
	})
}

// TestDisclosureByTool runs the workflow of a host that shows no resources to its model.
func TestDisclosureByTool(t *testing.T) {
	t.Parallel()
	eachPeerInShort(t, func(t *testing.T, url, revision string) {
		c := connect(t, url, revision)
		all := descriptions(t, c.text(t, "describe_tools", map[string]any{"names": []string{"up__echo", "up__confirm"}}))
		if len(all) != 2 || all["up__echo"]["inputSchema"] == nil {
			t.Fatalf("%v", all)
		}
		if got := c.text(t, "up__echo", map[string]any{"text": "hi"}); got != "hi" {
			t.Errorf("after fetching: %s", got)
		}
		// A question during the call: the rounds that follow are not checked.
		if got := c.text(t, "up__confirm", nil); strings.Contains(got, "REQUIRED") {
			t.Errorf("a call that asks: %s", got)
		}
		receive(t, "the question", c.asked)
		missing, err := c.CallTool(deadline(t), &sdk.CallToolParams{Name: "describe_tools",
			Arguments: map[string]any{"names": []string{}}})
		if err != nil || !missing.IsError || !strings.Contains(textOf(t, missing), "MISSING_TOOL_SELECTION") {
			t.Errorf("%+v, %v", missing, err)
		}
	})
}

// TestAnotherSessionOfTheUser: another or a new session of the user is still
// refused. The refusal contains the description, and the next call of that session passes.
func TestAnotherSessionOfTheUser(t *testing.T) {
	s := scripted(t, statefulServer)
	s.Tools("do")
	s.Tool("do", func(c *mcptest.Call) { c.Text("done") })
	url := start(t, inShort(upstream.Config{Name: "up", URL: s.URL}))
	call := func(c *mcptest.Client) string { return mustCall(t, c, "tools/call", `{"name":"up__do"}`).Text }
	first, second := raw(t, url, statefulClient), raw(t, url, statefulClient)
	mustCall(t, first, "resources/read", `{"uri":"`+describedAt+`?tools=up__do"}`)
	if got := call(first); !strings.Contains(got, "done") {
		t.Errorf("the session that fetched: %s", got)
	}
	if got := call(second); !strings.Contains(got, "TOOL_DESCRIPTION_REQUIRED") || !strings.Contains(got, "inputSchema") {
		t.Errorf("the other session: %s", got)
	}
	if got := call(second); !strings.Contains(got, "done") {
		t.Errorf("the other session, once more: %s", got)
	}
	if _, err := first.Delete(deadline(t)); err != nil {
		t.Fatal(err)
	}
	if err := first.Open(deadline(t)); err != nil {
		t.Fatal(err)
	}
	if got := call(first); !strings.Contains(got, "TOOL_DESCRIPTION_REQUIRED") {
		t.Errorf("the session that came after: %s", got)
	}
	if n := len(s.Received("tools/call")); n != 2 {
		t.Errorf("the server was called %d times", n)
	}
}

// TestWithoutSessions: the refusal of the first call contains the description, and
// the second call passes. For another user or client it is a first call again. No list
// changes, and the gateway does not record who read what.
func TestWithoutSessions(t *testing.T) {
	s := scripted(t, stateless)
	s.Tools("do")
	s.Tool("do", func(c *mcptest.Call) { c.Text("done") })
	g := guard(t, inShort(upstream.Config{Name: "up", URL: s.URL}))
	alice := g.raw(t, stateless, g.issuer.Token(claims{"sub": "alice", "client_id": "a"}))
	others := map[string]*mcptest.Client{
		"another user":   g.raw(t, stateless, g.issuer.Token(claims{"sub": "bob", "client_id": "a"})),
		"another client": g.raw(t, stateless, g.issuer.Token(claims{"sub": "alice", "client_id": "b"})),
	}
	before := mustCall(t, alice, "tools/list", "")
	read := mustCall(t, alice, "resources/read", `{"uri":"`+describedAt+`"}`)
	if ttl, scope := -1, ""; !read.Value("ttlMs", &ttl) || ttl != 0 || !read.Value("cacheScope", &scope) ||
		scope != "private" {
		t.Errorf("read is %s", read.Text)
	}
	call := func(c *mcptest.Client) string { return mustCall(t, c, "tools/call", `{"name":"up__do"}`).Text }
	if got := call(alice); !strings.Contains(got, "TOOL_DESCRIPTION_REQUIRED") || !strings.Contains(got, "inputSchema") {
		t.Errorf("the first call: %s", got)
	}
	for who, c := range others {
		if got := call(c); !strings.Contains(got, "TOOL_DESCRIPTION_REQUIRED") {
			t.Errorf("%s: %s", who, got)
		}
	}
	if got := call(alice); !strings.Contains(got, "done") {
		t.Errorf("the second call: %s", got)
	}
	var was, is json.RawMessage
	after := mustCall(t, alice, "tools/list", "")
	if !before.Value("tools", &was) || !after.Value("tools", &is) || string(was) != string(is) {
		t.Errorf("the list was %s and is %s", was, is)
	}
}

// TestDisclosureGivesNoAccess: on every path of disclosure, a denied tool looks like
// one that does not exist.
func TestDisclosureGivesNoAccess(t *testing.T) {
	t.Parallel()
	for _, server := range []string{statefulServer, stateless} {
		up, hidden := secretive(t, server), secretive(t, server)
		cfg := inShort(upstream.Config{Name: "up", URL: up.URL}, upstream.Config{Name: "hidden", URL: hidden.URL})
		cfg.Policy = secrecy()
		g := guard(t, cfg)
		for _, revision := range eras {
			t.Run("client "+revision+" server "+server, func(t *testing.T) {
				c := g.raw(t, revision, g.issuer.Token(nil))
				for _, name := range []string{"up__secret", "hidden__open"} {
					none := absent.Replace(name)
					for _, q := range []struct{ method, params string }{
						{"resources/read", `{"uri":"` + describedAt + `?tools=%s"}`},
						{"tools/call", `{"name":"describe_tools","arguments":{"names":["%s"]}}`},
						{"tools/call", `{"name":"%s","arguments":{}}`},
						{"completion/complete", `{"ref":{"type":"ref/resource","uri":"` + describedAt +
							`{?tools}"},"argument":{"name":"tools","value":"%s"}}`},
					} {
						got := wholeCall(t, c, q.method, fmt.Sprintf(q.params, name))
						want := wholeCall(t, c, q.method, fmt.Sprintf(q.params, none))
						if strings.ReplaceAll(got, name, none) != want {
							t.Errorf("%s of %s\n got %s\nwant %s", q.method, name, got, want)
						}
						if strings.Contains(want, "secret") || strings.Contains(want, "hidden") {
							t.Errorf("%s tells of what is denied: %s", q.method, want)
						}
					}
				}
				list := mustCall(t, c, "tools/list", "")
				if got := names(t, list, "tools"); !slices.Equal(got, []string{"describe_tools", "up__open"}) {
					t.Errorf("listed are %q", got)
				}
			})
		}
		if n := len(up.Received("tools/call")) + len(hidden.Received("tools/call")); n > 0 {
			t.Errorf("%d calls got through", n)
		}
	}
}

// TestChangedTool: a client with an older definition has to fetch the new one.
func TestChangedTool(t *testing.T) {
	t.Parallel()
	s := scripted(t, statefulServer)
	describe := func(text string) {
		s.On("tools/list", func(c *mcptest.Call) {
			c.Result(`{"tools":[{"name":"do","description":"Does it.","inputSchema":{"type":"object","properties":{"how":{"description":"` + text + `"}}}}]}`)
		})
	}
	describe("old")
	s.Tool("do", func(c *mcptest.Call) { c.Text("done") })
	url := start(t, inShort(upstream.Config{Name: "up", URL: s.URL}))
	c := connect(t, url, statefulClient)
	described(t, c, "up__do")
	if got := c.text(t, "up__do", nil); got != "done" {
		t.Fatal(got)
	}
	describe("new")
	if err := s.AwaitGETStreams(deadline(t), 1); err != nil {
		t.Fatal(err)
	}
	s.Push("notifications/tools/list_changed", `{}`)
	receive(t, "that the list changed, though what it shows has not", c.changed)
	if got := c.text(t, "up__do", nil); !strings.Contains(got, "TOOL_DESCRIPTION_REQUIRED") {
		t.Errorf("after the change: %s", got)
	}
	if text := fmt.Sprint(described(t, c, "up__do")); !strings.Contains(text, "new") {
		t.Errorf("described is %s", text)
	}
	if got := c.text(t, "up__do", nil); got != "done" {
		t.Errorf("after fetching anew: %s", got)
	}
}

// TestHiddenHeaders: a client that never saw the schema sends no Mcp-Param headers.
// The gateway does not require them, and the server gets them all the same.
func TestHiddenHeaders(t *testing.T) {
	s := scripted(t, stateless)
	s.On("tools/list", func(c *mcptest.Call) {
		c.Result(`{"tools":[{"name":"do","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}}]}`)
	})
	s.Tool("do", func(c *mcptest.Call) { c.Text("done") })
	url := start(t, inShort(upstream.Config{Name: "up", URL: s.URL}))
	for _, revision := range eras {
		t.Run("client "+revision, func(t *testing.T) {
			c := raw(t, url, revision)
			mustCall(t, c, "resources/read", `{"uri":"`+describedAt+`?tools=up__do"}`)
			before := len(s.Received("tools/call"))
			if m := mustCall(t, c, "tools/call", `{"name":"up__do","arguments":{"region":"eu"}}`); !strings.Contains(m.Text,
				"done") {
				t.Fatal(m.Text)
			}
			if got := s.Received("tools/call")[before].Header.Get("Mcp-Param-Region"); got != "eu" {
				t.Errorf("the server got %q", got)
			}
		})
	}
}

// TestDisclosureByClient: the mode depends on the client.
func TestDisclosureByClient(t *testing.T) {
	s := scripted(t, statefulServer)
	s.Tools("do")
	s.Tool("do", func(c *mcptest.Call) { c.Text("done") })
	small := policy.Who{Clients: []string{"small"}}
	g := guard(t, gateway.Config{
		Upstreams:  []upstream.Config{{Name: "up", URL: s.URL}},
		Disclosure: config.Disclosure{Clients: []config.DisclosureClient{{Who: small, Mode: disclosure.ModeProgressive}}},
	})
	for _, revision := range eras {
		short := g.raw(t, revision, g.issuer.Token(claims{"client_id": "small"}))
		full := g.raw(t, revision, g.issuer.Token(claims{"client_id": "large"}))
		if got := names(t, mustCall(t, short, "tools/list", ""), "tools"); !slices.Equal(got,
			[]string{"describe_tools", "up__do"}) {
			t.Errorf("%s: listed in short are %q", revision, got)
		}
		if got := names(t, mustCall(t, full, "tools/list", ""), "tools"); !slices.Equal(got, []string{"up__do"}) {
			t.Errorf("%s: listed in full are %q", revision, got)
		}
		if m := mustCall(t, full, "tools/call", `{"name":"up__do"}`); !strings.Contains(m.Text, "done") {
			t.Errorf("%s: in full: %s", revision, m.Text)
		}
		if m := mustCall(t, short, "tools/call", `{"name":"up__do"}`); !strings.Contains(m.Text,
			"TOOL_DESCRIPTION_REQUIRED") {
			t.Errorf("%s: in short: %s", revision, m.Text)
		}
	}
}
