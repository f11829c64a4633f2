package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/gateway/front"
	"github.com/gatehouse-mcp/gatehouse/gateway/view"
	"github.com/gatehouse-mcp/gatehouse/internal/largeresults"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/policy"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

const inline = 4096

// largeText has about 300 kB, and escapes in its JSON.
var largeText = strings.Repeat("a line with \"quotes\", é and 😀\n", 8000)

// largeTool makes the tool "do" of a server return a large text. By its argument how, it makes
// progress first, or asks the user.
func largeTool(s *mcptest.Server, revision string) {
	s.Tools("do")
	s.Tool("do", func(c *mcptest.Call) {
		const question = `{"mode":"form","message":"Go on?","requestedSchema":{"type":"object","properties":{}}}`
		var how string
		c.Param("arguments|how", &how)
		var answered json.RawMessage
		switch {
		case how == "progress":
			c.Progress(1)
		case how == "asks" && revision != stateless:
			if _, err := c.Ask("elicitation/create", question); err != nil {
				return
			}
		case how == "asks" && !c.Param("inputResponses", &answered):
			c.Result(`{"resultType":"input_required","requestState":"s","inputRequests":{"q":{"method":"elicitation/create","params":` + question + `}}}`)
			return
		}
		text, _ := json.Marshal(largeText)
		c.Result(fmt.Sprintf(`{"content":[{"type":"text","text":"first"},{"type":"text","text":%s},{"type":"image","mimeType":"image/png","data":"AAEC"}],"_meta":{"kept":true}}`, text))
	})
}

// shortened checks that a result has a part of largeText, and returns the URI of the whole.
func shortened(t *testing.T, c *mcptest.Client, m mcptest.Message) (uri string) {
	t.Helper()
	var blocks []struct{ Type, Text, URI string }
	if !m.Value("content", &blocks) || len(blocks) != 4 || len(m.Result) > 2*inline {
		t.Fatalf("%d bytes: %.2000s", len(m.Result), m.Text)
	}
	if blocks[0].Text != "first" || len(blocks[1].Text) < inline/2 || !strings.HasPrefix(largeText, blocks[1].Text) ||
		!strings.HasSuffix(blocks[1].Text, "\n") {
		t.Errorf("the content is %.2000s", m.Text)
	}
	_, rest, _ := strings.Cut(blocks[2].Text, "can be read as the resource ")
	uri, _, _ = strings.Cut(rest, "]")
	if uri == "" {
		t.Fatalf("the note is %s", blocks[2].Text)
	}
	switch last := blocks[3]; {
	case c.Revision.Name >= statefulServer:
		if last.Type != "resource_link" || last.URI != uri {
			t.Errorf("the link is %v", last)
		}
	case last.Type != "text" || !strings.Contains(last.Text, uri):
		t.Errorf("in place of a link: %v", last)
	}
	return uri
}

// wantWhole checks that a client can read the whole.
func wantWhole(t *testing.T, c *mcptest.Client, uri string) {
	t.Helper()
	var contents []struct{ URI, MimeType, Text, Blob string }
	m := request(t, c, "resources/read", fmt.Sprintf(`{"uri":%q}`, uri))
	if !m.Value("contents", &contents) || len(contents) != 3 || contents[0].Text != "first" ||
		contents[1].Text != largeText || contents[1].URI != uri ||
		contents[1].MimeType != "text/plain" || contents[2].Blob != "AAEC" || contents[2].MimeType != "image/png" {
		t.Errorf("the whole: %.500s", m.Text)
	}
}

// wantNothing checks that a URI is unknown to a client, as one that nobody has.
func wantNothing(t *testing.T, why string, c *mcptest.Client, uri string) {
	t.Helper()
	const other = "gatehouse-result:ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	got := request(t, c, "resources/read", fmt.Sprintf(`{"uri":%q}`, uri))
	unknown := request(t, c, "resources/read", fmt.Sprintf(`{"uri":%q}`, other))
	if got.Error == nil || unknown.Error == nil || got.Error.Code != unknown.Error.Code ||
		strings.ReplaceAll(got.Error.Message, uri, other) != unknown.Error.Message {
		t.Errorf("%s: %.500s, and one that nobody has: %s", why, got.Text, unknown.Text)
	}
}

func TestLargeResults(t *testing.T) {
	t.Parallel()
	for _, server := range []string{statefulServer, stateless} {
		s := scripted(t, server)
		if server == stateless { // that has no resources
			s.On("server/discover", func(c *mcptest.Call) {
				c.Result(`{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":60000,"cacheScope":"public"}`)
			})
		}
		largeTool(s, server)
		url := start(t, gateway.Config{
			HTTP:      front.Config{StreamAfter: 10 * time.Millisecond},
			Upstreams: []upstream.Config{{Name: "up", URL: s.URL, Results: largeresults.Settings{Inline: inline}}},
		})
		for _, revision := range []string{"2024-11-05", statefulClient, stateless} {
			c := unopened(t, url, revision)
			if revision != "2024-11-05" {
				c.Caps = `{"elicitation":{}}`
			}
			if err := c.Open(deadline(t)); err != nil {
				t.Fatal(err)
			}
			for _, how := range []string{"plain", "progress", "asks"} {
				if how == "asks" && revision == "2024-11-05" {
					continue
				}
				t.Run("client "+revision+" server "+server+" "+how, func(t *testing.T) {
					m, _ := converse(t, c, "tools/call",
						fmt.Sprintf(`{"name":"up__do","arguments":{"how":%q},"_meta":{"progressToken":1}}`, how),
						func(inquiry) string { return `{"action":"accept","content":{}}` })
					wantWhole(t, c, shortened(t, c, m))
					var kept bool
					if !m.Value("_meta|kept", &kept) || !kept {
						t.Errorf("its _meta is gone: %.2000s", m.Text)
					}
				})
			}
			if list := request(t, c, "resources/list", "{}"); string(valueOf(t, list, "resources")) != "[]" {
				t.Errorf("the list: %s", list.Text)
			}
		}
		found := request(t, unopened(t, url, stateless), "server/discover", "{}")
		if want := server == stateless; (string(valueOf(t, found, "capabilities|resources")) == "{}") != want {
			t.Errorf("discovered: %s", found.Text)
		}
	}
}

func valueOf(t *testing.T, m mcptest.Message, path string) (value json.RawMessage) {
	t.Helper()
	if !m.Value(path, &value) {
		t.Errorf("no %s in %s", path, m.Text)
	}
	return value
}

// TestLargeResultsOfTasks: both forms of tasks.
func TestLargeResultsOfTasks(t *testing.T) {
	t.Parallel()
	for _, revision := range []string{statefulClient, stateless} {
		d := newTaskDesk(t, revision)
		url := start(t, gateway.Config{Upstreams: []upstream.Config{{Name: "up", URL: d.URL,
			Results: largeresults.Settings{Inline: inline}}}})
		caps := `{}`
		if revision == stateless {
			caps = taskExtension
		}
		c := rawWith(t, url, revision, caps)
		id, j := d.create(t, c)
		j.finish(largeText)
		result := func() string {
			m, path := request(t, c, "tasks/get", about(id)), "result|content"
			if revision != stateless {
				m, path = request(t, c, "tasks/result", about(id)), "content"
			}
			var blocks []struct{ Type, Text, URI string }
			if !m.Value(path, &blocks) || len(blocks) != 3 || blocks[2].Type != "resource_link" ||
				!strings.HasPrefix(largeText, blocks[0].Text) {
				t.Fatalf("%s: %.2000s", revision, m.Text)
			}
			return blocks[2].URI
		}
		uri := result()
		if again := result(); again != uri {
			t.Errorf("%s: asked again, it is %s, before %s", revision, again, uri)
		}
		var contents []struct{ Text string }
		if m := request(t, c, "resources/read", fmt.Sprintf(`{"uri":%q}`, uri)); !m.Value("contents", &contents) ||
			len(contents) != 1 || contents[0].Text != largeText {
			t.Errorf("%s: the whole: %.500s", revision, m.Text)
		}
	}
}

// TestLargeResultsBelongToTheirUser: nobody else reads them, and neither does a user who may
// not see the tool any more.
func TestLargeResultsBelongToTheirUser(t *testing.T) {
	t.Parallel()
	s := scripted(t, stateless)
	largeTool(s, stateless)
	g := guard(t, gateway.Config{
		Upstreams: []upstream.Config{{Name: "up", URL: s.URL,
			Results: largeresults.Settings{Tools: []largeresults.ToolSettings{{Names: []string{"d*"}, Inline: inline}}}}},
		Policy: policy.Config{Default: policy.DefaultDeny, Rules: []policy.Rule{
			{Name: "all", Who: policy.Who{Groups: []string{"staff"}}, Allow: []string{"tools:up/*"}},
		}},
		Views: []view.Config{
			{Name: "same", Show: []string{"tools:up/*"}, DropPrefixes: true},
			{Name: "less", Show: []string{"prompts:up/*"}},
		},
	})
	at := func(revision, path string) *mcptest.Client {
		t.Helper()
		c := unopened(t, g.url+path, revision)
		present(c, g.issuer.Token(claims{"sub": "alice", "groups": []string{"staff"}}))
		if err := c.Open(deadline(t)); err != nil {
			t.Fatal(err)
		}
		return c
	}
	for _, revision := range eras {
		alice := g.raw(t, revision, g.issuer.Token(claims{"sub": "alice", "groups": []string{"staff"}}))
		uri := shortened(t, alice, request(t, alice, "tools/call", `{"name":"up__do"}`))
		wantWhole(t, alice, uri)
		wantWhole(t, g.raw(t, revision, g.issuer.Token(claims{"sub": "alice", "groups": []string{"staff"}})), uri)
		wantNothing(t, revision+": bob", g.raw(t, revision,
			g.issuer.Token(claims{"sub": "bob", "groups": []string{"staff"}})), uri)
		same, less := at(revision, "/same"), at(revision, "/less")
		wantWhole(t, same, uri)
		wantWhole(t, alice, shortened(t, same, request(t, same, "tools/call", `{"name":"do"}`)))
		wantNothing(t, revision+": at a view without the tool", less, uri)
		wantNothing(t, revision+": alice without the group", g.raw(t, revision, g.issuer.Token(claims{"sub": "alice"})), uri)
	}
}

// TestReplicasLargeResults: what one replica keeps, each of them reads.
func TestReplicasLargeResults(t *testing.T) {
	t.Parallel()
	s := scripted(t, stateless)
	largeTool(s, stateless)
	r := replicated(t, func(cfg *gateway.Config) {
		cfg.Upstreams = append(cfg.Upstreams, upstream.Config{Name: "up", URL: s.URL,
			Results: largeresults.Settings{Inline: inline}})
	})
	for _, revision := range eras {
		c := raw(t, r.url, revision)
		uri := shortened(t, c, request(t, c, "tools/call", `{"name":"up__do"}`))
		for i := range r.urls {
			wantWhole(t, r.at(c, i), uri)
		}
		wantWhole(t, raw(t, r.urls[0], revision), uri)
	}
}
