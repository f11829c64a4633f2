package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// TestWhatIsDeniedIsNotListed searches for denied names in everything that a client is sent
// unasked.
func TestWhatIsDeniedIsNotListed(t *testing.T) {
	t.Parallel()
	for _, server := range []string{statefulServer, stateless} {
		up, hidden := secretive(t, server), secretive(t, server)
		g := guard(t, gateway.Config{
			Policy:    secrecy(),
			Upstreams: []upstream.Config{{Name: "hidden", URL: hidden.URL}, {Name: "up", URL: up.URL}},
		})
		for _, revision := range eras {
			t.Run("client "+revision+" server "+server, func(t *testing.T) {
				c := g.connect(t, revision, g.issuer.Token(nil))
				if got := listTools(t, c); !slices.Equal(got, []string{"up__open"}) {
					t.Errorf("tools: %q", got)
				}
				prompts, err := c.ListPrompts(deadline(t), nil)
				if err != nil || len(prompts.Prompts) != 1 || prompts.Prompts[0].Name != "up__open" {
					t.Errorf("prompts: %+v, %v", prompts, err)
				}
				resources, err := c.ListResources(deadline(t), nil)
				if err != nil || len(resources.Resources) != 1 || resources.Resources[0].URI != "up+file:///docs/open" {
					t.Errorf("resources: %+v, %v", resources, err)
				}
				templates, err := c.ListResourceTemplates(deadline(t), nil)
				if err != nil || len(templates.ResourceTemplates) != 1 ||
					templates.ResourceTemplates[0].URITemplate != "up+doc:///open/{id}" {
					t.Errorf("templates: %+v, %v", templates, err)
				}
				about := c.InitializeResult().Instructions
				if !strings.Contains(about, "## up\n") || strings.Contains(about, "hidden") {
					t.Errorf("instructions: %s", about)
				}
				_, err = c.CallTool(deadline(t), &sdk.CallToolParams{Name: "up__secret"})
				wantCode(t, "the call", err, -32602)
			})
		}
	}
}

// listening makes a client listen for changed lists and for a resource, in the way of its
// era, and returns the stream.
func listening(t *testing.T, c *mcptest.Client, uris ...string) *mcptest.Exchange {
	t.Helper()
	if !c.Revision.Stateful {
		quoted := `"` + strings.Join(uris, `","`) + `"`
		x, err := c.Send(deadline(t), "subscriptions/listen",
			`{"notifications":{"toolsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":[`+quoted+`]}}`)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(x.Close)
		m, err := x.Until("notifications/subscriptions/acknowledged")
		var got []string
		if err != nil || !m.Param("notifications|resourceSubscriptions", &got) || !slices.Equal(got, uris[:1]) {
			t.Fatalf("acknowledged %s, %v; want %q", m.Text, err, uris[:1])
		}
		return x
	}
	x, err := c.Get(deadline(t), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.Close)
	for i, uri := range uris {
		m, _, err := c.Call(deadline(t), "resources/subscribe", fmt.Sprintf(`{"uri":%q}`, uri))
		if err != nil || (m.Error == nil) != (i == 0) {
			t.Fatalf("subscribing to %s: %s, %v", uri, m.Text, err)
		}
	}
	return x
}

// TestNobodyHearsOfWhatIsDenied: no client is told that a list of an upstream changed of
// which it may see nothing, or that a resource changed that it may not read.
func TestNobodyHearsOfWhatIsDenied(t *testing.T) {
	t.Parallel()
	for _, server := range []string{statefulServer, stateless} {
		for _, revision := range eras {
			t.Run("client "+revision+" server "+server, func(t *testing.T) {
				t.Parallel() // each waits until changes of lists settle
				// Only hidden announces changed tools.
				up, hidden := secretiveWith(t, server, "{}"), secretive(t, server)
				g := guard(t, gateway.Config{
					Policy:    secrecy(),
					Upstreams: []upstream.Config{{Name: "up", URL: up.URL}, {Name: "hidden", URL: hidden.URL}},
				})
				x := listening(t, g.raw(t, revision, g.issuer.Token(nil)),
					"up+file:///docs/open", "up+file:///docs/secret", "up+FILE:///docs/secret", "hidden+file:///docs/open")
				admin := listening(t, g.raw(t, revision, g.issuer.Token(claims{"groups": "admin"})), "up+file:///docs/open")
				for _, s := range []*mcptest.Server{up, hidden} {
					if err := s.AwaitGETStreams(deadline(t), 1); err != nil {
						t.Fatal(err)
					}
				}
				hidden.Tools("more")
				hidden.Push("notifications/tools/list_changed", "{}")
				if _, err := admin.Until("notifications/tools/list_changed"); err != nil {
					t.Fatal(err)
				}
				up.Push("notifications/resources/updated", `{"uri":"file:///docs/secret"}`)
				up.Push("notifications/resources/updated", `{"uri":"file:///docs/open"}`)
				up.On("resources/list", func(c *mcptest.Call) { c.Result(`{"resources":[{"uri":"file:///docs/new","name":"n"}]}`) })
				up.Push("notifications/resources/list_changed", "{}")
				if _, err := x.Until("notifications/resources/list_changed"); err != nil {
					t.Fatal(err)
				}
				heard := x.Before
				if len(heard) == 0 { // it comes on another path, and so may come later
					m, err := x.Next()
					if err != nil {
						t.Fatal(err)
					}
					heard = []mcptest.Message{m}
				}
				for _, m := range heard {
					var uri string
					if m.Param("uri", &uri); uri != "up+file:///docs/open" {
						t.Errorf("it hears of %s", m.Text)
					}
				}
			})
		}
	}
}
