package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/policy"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// secretive is a scripted server with one open and one secret object of every kind. It
// answers every request, so only the gateway can keep the secret.
func secretive(t *testing.T, revision string) *mcptest.Server {
	t.Helper()
	return secretiveWith(t, revision, `{"listChanged":true}`)
}

// secretiveWith is secretive with these tools capabilities.
func secretiveWith(t *testing.T, revision, tools string) *mcptest.Server {
	t.Helper()
	s := scripted(t, revision)
	s.Tools("open", "secret", "ѕecret") // the first letter of the last one is Cyrillic
	s.On("tools/call", func(c *mcptest.Call) {
		var name string
		c.Param("name", &name)
		c.Text("ran " + name)
	})
	s.On("prompts/list", func(c *mcptest.Call) { c.Result(`{"prompts":[{"name":"open"},{"name":"secret"}]}`) })
	s.On("prompts/get", func(c *mcptest.Call) {
		c.Result(`{"messages":[
			{"role":"user","content":{"type":"text","text":"call secret"}},
			{"role":"user","content":{"type":"resource_link","uri":"file:///docs/secret","name":"s"}},
			{"role":"user","content":{"type":"resource_link","uri":"hidden+file:///docs/open","name":"h"}}]}`)
	})
	s.On("resources/list", func(c *mcptest.Call) {
		c.Result(`{"resources":[{"uri":"file:///docs/open","name":"o"},{"uri":"file:///docs/secret","name":"s"},{"uri":"https://docs.example/secret","name":"h"}]}`)
	})
	s.On("resources/templates/list", func(c *mcptest.Call) {
		c.Result(`{"resourceTemplates":[{"uriTemplate":"doc:///open/{id}","name":"o"},{"uriTemplate":"doc:///secret/{id}","name":"s"}]}`)
	})
	s.On("resources/read", func(c *mcptest.Call) {
		var uri string
		c.Param("uri", &uri)
		c.Result(fmt.Sprintf(`{"contents":[{"uri":%q,"text":"read"}]}`, uri))
	})
	s.On("completion/complete", func(c *mcptest.Call) { c.Result(`{"completion":{"values":["completed"]}}`) })
	caps := `"capabilities":{"tools":` + tools +
		`,"prompts":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"completions":{}}`
	s.On("initialize", func(c *mcptest.Call) {
		c.Result(`{"protocolVersion":"` + revision + `",` + caps +
			`,"serverInfo":{"name":"s","version":"1"},"instructions":"How to use it."}`)
	})
	if revision == stateless {
		s.On("initialize", func(c *mcptest.Call) { c.Error(-32601, "Method not found") })
		s.On("server/discover", func(c *mcptest.Call) {
			c.Result(`{"supportedVersions":["` + revision + `"],` + caps + `,"instructions":"How to use it."}`)
		})
	}
	return s
}

// secrecy is the policy of these tests: everything of up except the secrets, and nothing of
// hidden, except for the group admin. Other spellings of a denied name are allowed, unless
// policy recognizes the name in them.
func secrecy() policy.Config {
	return policy.Config{Rules: []policy.Rule{
		{Name: "all", Allow: []string{"*:up/*"}},
		{Name: "admins", Who: policy.Who{Groups: []string{"admin"}}, Allow: []string{"*:hidden/*"}},
		{Name: "not these", Deny: []string{"tools:up/secret", "prompts:up/secret", "resources:up/file:///docs/secret",
			"resources:up/https://docs.example/secret", "resources:up/doc:///secret/*"}},
	}}
}

// eachSecretPair runs a test for each pair of eras, in front of two secretive servers.
func eachSecretPair(t *testing.T, test func(t *testing.T, c *mcptest.Client, up, hidden *mcptest.Server)) {
	for _, server := range []string{statefulServer, stateless} {
		up, hidden := secretive(t, server), secretive(t, server)
		g := guard(t, gateway.Config{
			Policy:    secrecy(),
			Upstreams: []upstream.Config{{Name: "up", URL: up.URL}, {Name: "hidden", URL: hidden.URL}},
		})
		for _, revision := range eras {
			t.Run("client "+revision+" server "+server, func(t *testing.T) {
				test(t, g.raw(t, revision, g.issuer.Token(nil)), up, hidden)
				for _, r := range up.Received("") {
					if strings.Contains(strings.ToLower(r.Text), "secret") {
						t.Errorf("the server was asked for its secret: %s", r.Text)
					}
				}
				for _, method := range []string{"tools/call", "prompts/get", "resources/read", "completion/complete",
					"resources/subscribe"} {
					if n := len(hidden.Received(method)); n > 0 {
						t.Errorf("the hidden server got %d %s", n, method)
					}
				}
			})
		}
	}
}

// absent replaces a denied name by one of the same length that does not exist.
var absent = strings.NewReplacer("secret", "absent", "SECRET", "ABSENT", "Secret", "Absent", "ѕecret", "аbsent",
	"%73ecret", "%61bsent",
	"hidden", "nobody", "file:///", "none:///", "https://docs", "absent://docs")

// TestDeniedIsMissing requests denied names on every path and in every spelling. The answer
// must equal that for a name that does not exist, and no server may get a request.
func TestDeniedIsMissing(t *testing.T) {
	t.Parallel()
	const tool, prompt, resource = `{"name":%q,"arguments":{}}`, `{"name":%q}`, `{"uri":%q}`
	const completePrompt = `{"ref":{"type":"ref/prompt","name":%q},"argument":{"name":"a","value":"b"}}`
	const completeResource = `{"ref":{"type":"ref/resource","uri":%q},"argument":{"name":"id","value":"b"}}`
	attempts := []struct{ row, method, params, name string }{
		{"by its name", "tools/call", tool, "up__secret"},
		{"by its bare name", "tools/call", tool, "secret"},
		{"as policy writes it", "tools/call", tool, "up/secret"},
		{"another case", "tools/call", tool, "up__SECRET"},
		{"another case of the first letter", "tools/call", tool, "up__Secret"},
		{"another case of the upstream", "tools/call", tool, "UP__secret"},
		{"a Cyrillic letter", "tools/call", tool, "up__ѕecret"},
		{"%-encoded", "tools/call", tool, "up__%73ecret"},
		{"the separator %-encoded", "tools/call", tool, "up%5F%5Fsecret"},
		{"a space behind", "tools/call", tool, "up__secret "},
		{"a space in front", "tools/call", tool, " up__secret"},
		{"NUL behind", "tools/call", tool, "up__secret\x00"},
		{"NUL behind an open one", "tools/call", tool, "up__open\x00secret"},
		{"a line feed behind", "tools/call", tool, "up__secret\n"},
		{"a dot behind", "tools/call", tool, "up__secret."},
		{"dots on the way", "tools/call", tool, "up__open/../secret"},
		{"a short alias", "tools/call", tool, "up_secret"},
		{"two prefixes", "tools/call", tool, "up__up__secret"},
		{"another upstream's", "tools/call", tool, "hidden__secret"},
		{"another upstream's open one", "tools/call", tool, "hidden__open"},
		{"through a tool that calls tools", "tools/call", `{"name":"call_tool","arguments":{"name":%q}}`, "up__secret"},

		{"a prompt", "prompts/get", prompt, "up__secret"},
		{"a prompt by its bare name", "prompts/get", prompt, "secret"},
		{"a prompt, %-encoded", "prompts/get", prompt, "up__%73ecret"},
		{"a prompt of another upstream", "prompts/get", prompt, "hidden__open"},
		{"a tool as a prompt", "prompts/get", prompt, "up__SECRET"},

		{"a resource", "resources/read", resource, "up+file:///docs/secret"},
		{"a resource on a host", "resources/read", resource, "up+https://docs.example/secret"},
		{"a resource by its own URI", "resources/read", resource, "file:///docs/secret"},
		{"a resource of a template", "resources/read", resource, "up+doc:///secret/7"},
		{"a template as a resource", "resources/read", resource, "up+doc:///secret/{id}"},
		{"a resource of another upstream", "resources/read", resource, "hidden+file:///docs/open"},
		{"through another upstream's prefix", "resources/read", resource, "hidden+up+file:///docs/secret"},
		{"dot segments", "resources/read", resource, "up+file:///docs/a/../secret"},
		{"a single dot", "resources/read", resource, "up+file:///docs/./secret"},
		{"encoded dots", "resources/read", resource, "up+file:///docs/a/%2e%2e/secret"},
		{"encoded slashes", "resources/read", resource, "up+file:///docs%2fsecret"},
		{"an encoded letter", "resources/read", resource, "up+file:///docs/%73ecret"},
		{"encoded twice", "resources/read", resource, "up+file:///docs/%2573ecret"},
		{"two slashes", "resources/read", resource, "up+file:///docs//secret"},
		{"a backslash", "resources/read", resource, `up+file:///docs\secret`},
		{"upper case in the scheme", "resources/read", resource, "up+FILE:///docs/secret"},
		{"one slash in front", "resources/read", resource, "up+file:/docs/secret"},
		{"localhost", "resources/read", resource, "up+file://localhost/docs/secret"},
		{"another name of this host", "resources/read", resource, "up+file://127.0.0.1/docs/secret"},
		{"any host", "resources/read", resource, "up+file://any.example/docs/secret"},
		{"a directory for a host", "resources/read", resource, "up+file://docs/secret"},
		{"upper case in the path", "resources/read", resource, "up+file:///DOCS/Secret"},
		{"full-width letters", "resources/read", resource, "up+file:///docs/ｓecret"},
		{"full-width dots", "resources/read", resource, "up+file:///docs/a/．．/secret"},
		{"a soft hyphen", "resources/read", resource, "up+file:///docs/sec\u00adret"},
		{"a slash behind", "resources/read", resource, "up+file:///docs/secret/"},
		{"a fragment", "resources/read", resource, "up+file:///docs/secret#a"},
		{"upper case in the host", "resources/read", resource, "up+https://DOCS.example/secret"},
		{"a dot behind the host", "resources/read", resource, "up+https://docs.example./secret"},
		{"the usual port", "resources/read", resource, "up+https://docs.example:443/secret"},
		{"user info", "resources/read", resource, "up+https://me@docs.example/secret"},
		{"NUL", "resources/read", resource, "up+file:///docs/secret\x00"},
		{"encoded NUL", "resources/read", resource, "up+file:///docs/secret%00"},
		{"a line feed", "resources/read", resource, "up+file:///docs/\nsecret"},

		{"completion for a prompt", "completion/complete", completePrompt, "up__secret"},
		{"completion for a prompt of another upstream", "completion/complete", completePrompt, "hidden__open"},
		{"completion for a tool", "completion/complete", completePrompt, "up__ѕecret"},
		{"completion for a template", "completion/complete", completeResource, "up+doc:///secret/{id}"},
		{"completion for a resource", "completion/complete", completeResource, "up+file:///docs/secret"},
		{"completion for another spelling", "completion/complete", completeResource, "up+file:///docs/%73ecret"},
		{"completion for another upstream's template", "completion/complete", completeResource, "hidden+doc:///open/{id}"},
	}
	eachSecretPair(t, func(t *testing.T, c *mcptest.Client, _, _ *mcptest.Server) {
		for _, a := range attempts {
			t.Run(a.row, func(t *testing.T) {
				missing := absent.Replace(a.name)
				if strings.HasPrefix(a.name, "up+") { // up has everything
					missing = "zz" + strings.TrimPrefix(a.name, "up")
				}
				denied := askRaw(t, c, a.method, a.params, a.name)
				want := strings.ReplaceAll(askRaw(t, c, a.method, a.params, missing), jsonText(missing), jsonText(a.name))
				if denied != want || !strings.Contains(denied, `"error":{"code":-32`) {
					t.Errorf("denied:  %s\nmissing: %s", denied, want)
				}
			})
		}
	})
}

// TestAllowedIsThere makes sure that these refusals do not come from a broken set-up.
func TestAllowedIsThere(t *testing.T) {
	t.Parallel()
	eachSecretPair(t, func(t *testing.T, c *mcptest.Client, _, _ *mcptest.Server) {
		for _, a := range []struct{ method, params, want string }{
			{"tools/call", `{"name":"up__open"}`, `ran open`},
			{"prompts/get", `{"name":"up__open"}`, `call secret`},
			{"resources/read", `{"uri":"up+file:///docs/open"}`, `up+file:///docs/open`},
			{"resources/read", `{"uri":"up+FILE:///docs//%6fpen"}`, `up+FILE:///docs//%6fpen`},
			{"resources/read", `{"uri":"up+doc:///open/7"}`, `up+doc:///open/7`},
			{"completion/complete", `{"ref":{"type":"ref/prompt","name":"up__open"},"argument":{"name":"a","value":"b"}}`,
				`completed`},
			{"completion/complete",
				`{"ref":{"type":"ref/resource","uri":"up+doc:///open/{id}"},"argument":{"name":"id","value":"b"}}`, `completed`},
		} {
			if m := mustCall(t, c, a.method, a.params); !strings.Contains(string(m.Result), a.want) {
				t.Errorf("%s %s: %s, want %s in it", a.method, a.params, m.Result, a.want)
			}
		}
	})
}

// TestRenamingMovesNoPermission: the server has another prefix, or none.
func TestRenamingMovesNoPermission(t *testing.T) {
	for _, prefix := range []string{"x_", ""} {
		s := secretive(t, stateless)
		g := guard(t, gateway.Config{Policy: secrecy(),
			Upstreams: []upstream.Config{{Name: "up", URL: s.URL, Prefix: &prefix}}})
		for _, revision := range eras {
			c := g.raw(t, revision, g.issuer.Token(nil))
			if got := said(mustCall(t, c, "tools/call", `{"name":"`+prefix+`open"}`)); got != "ran open" {
				t.Errorf("prefix %q: %s", prefix, got)
			}
			for method, names := range map[string][]string{
				"tools/call":  {prefix + "secret", "up__open", "up__secret", "up/open"},
				"prompts/get": {prefix + "secret", "up__open"},
			} {
				for _, name := range names {
					if m, _, err := c.Call(deadline(t), method, fmt.Sprintf(`{"name":%q}`, name)); err != nil || m.Error == nil ||
						m.Error.Code != -32602 {
						t.Errorf("prefix %q: %s: %s, %v", prefix, name, m.Text, err)
					}
				}
			}
			uri := "up+file:///docs/secret"
			if prefix == "" {
				uri = "file:///docs/secret"
			}
			if m, _, err := c.Call(deadline(t), "resources/read", fmt.Sprintf(`{"uri":%q}`, uri)); err != nil || m.Error == nil {
				t.Errorf("prefix %q: %s: %s, %v", prefix, uri, m.Text, err)
			}
		}
		for _, r := range s.Received("") {
			if strings.Contains(r.Text, "secret") {
				t.Errorf("prefix %q: the server was asked for its secret: %s", prefix, r.Text)
			}
		}
	}
}

// TestWhatAPromptNames: a user who may only get the prompt cannot get what it refers
// to. A reference to another server's resource is resolved at the server that returned the
// prompt.
func TestWhatAPromptNames(t *testing.T) {
	eachSecretPair(t, func(t *testing.T, c *mcptest.Client, up, hidden *mcptest.Server) {
		got := mustCall(t, c, "prompts/get", `{"name":"up__open"}`)
		var messages []struct{ Content struct{ URI string } }
		if !got.Value("messages", &messages) || len(messages) != 3 {
			t.Fatal(got.Text)
		}
		for i, want := range []string{"up+file:///docs/secret", "up+hidden+file:///docs/open"} {
			uri := messages[i+1].Content.URI
			if uri != want {
				t.Errorf("message %d links to %s, want %s", i+1, uri, want)
			}
			before := len(up.Received("resources/read"))
			m, _, err := c.Call(deadline(t), "resources/read", fmt.Sprintf(`{"uri":%q}`, uri))
			read := up.Received("resources/read")[before:]
			switch {
			case err != nil, i == 0 && (m.Error == nil || len(read) > 0):
				t.Errorf("%s: %s, %v, %d reads", uri, m.Text, err, len(read))
			case i == 1 && (m.Error != nil || len(read) != 1 ||
				!strings.Contains(read[0].Text, `"uri":"hidden+file:///docs/open"`)):
				t.Errorf("%s: %s, and the server that has the prompt got %d reads", uri, m.Text, len(read))
			}
			if n := len(hidden.Received("resources/read")); n > 0 {
				t.Errorf("%s: the other server got %d reads", uri, n)
			}
		}
	})
}

// askRaw makes a request for a name with any characters, and returns the whole answer.
func askRaw(t *testing.T, c *mcptest.Client, method, params, name string) string {
	t.Helper()
	params = fmt.Sprintf(strings.Replace(params, "%q", `"%s"`, 1), jsonText(name))
	header := http.Header{}
	if !c.Revision.Stateful {
		meta := fmt.Sprintf(`{"_meta":{%q:%q,%q:{}},`, wire.MetaVersion, c.Revision.Name, wire.MetaClientCaps)
		params = strings.Replace(params, "{", meta, 1)
		header.Set("Mcp-Method", method)
		if method != "completion/complete" {
			if strings.HasPrefix(params[len(meta):], `"name":"call_tool"`) {
				name = "call_tool"
			}
			header.Set("Mcp-Name", wire.EncodeHeader(name))
		}
	}
	return wholeAnswer(t, c, "POST", fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":%q,"params":%s}`, method, params),
		header)
}

// jsonText returns a text as it appears between quotes.
func jsonText(s string) string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string always marshals
	}
	return string(text[1 : len(text)-1])
}
