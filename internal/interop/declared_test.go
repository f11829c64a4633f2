//go:build interop

package interop

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// tryDeclared compares what clients that declare all, some and nothing are shown of
// server-everything by the gateway with what it shows them itself.
func (l *lab) tryDeclared(t *testing.T, url string, upstreams []upstream) {
	direct := upstreams[slices.IndexFunc(upstreams, func(u upstream) bool { return u.kind == everything && u.url != "" && !u.sse })].url
	for _, caps := range []string{
		`{"roots":{"listChanged":true},"sampling":{},"elicitation":{"form":{},"url":{}}}`, `{"elicitation":{}}`, `{"sampling":{},"roots":{}}`, `{}`,
	} {
		for _, method := range []string{"tools/list", "prompts/list", "resources/list", "resources/templates/list"} {
			want := shown(t, declaring(t, direct, stateful, caps), method)
			for _, revision := range []string{stateful, stateless} {
				c := declaring(t, url, revision, caps)
				for _, u := range upstreams {
					if u.kind != everything {
						continue
					}
					var got []string
					limit, cancel := context.WithTimeout(t.Context(), readyLimit)
					for {
						got = nil
						for _, name := range shown(t, c, method) {
							if short, ours := strings.CutPrefix(name, u.tool("")); ours {
								got = append(got, short)
							} else if short, ours := strings.CutPrefix(name, u.uri("")); ours {
								got = append(got, short)
							}
						}
						if slices.Equal(got, want) || limit.Err() != nil {
							break
						}
						select { // the look may take longer than a list waits for it
						case <-limit.Done():
						case <-time.After(100 * time.Millisecond):
						}
					}
					cancel()
					if !slices.Equal(got, want) {
						t.Errorf("%s of %s for a client of %s that declares %s:\ngot  %q\nwant %q", method, u.name, revision, caps, got, want)
					}
				}
			}
		}
	}
	for _, u := range upstreams {
		if u.kind != everything {
			continue
		}
		m, _, err := declaring(t, url, stateful, `{}`).Call(t.Context(), "tools/call", `{"name":"`+u.tool("trigger-elicitation-request")+`","arguments":{}}`)
		if err != nil || m.Error == nil || m.Error.Code != -32602 {
			t.Errorf("a tool for clients that can be asked, called by one that cannot: %s %v", m.Text, err)
		}
	}
}

// declaring returns a client that declares these capabilities.
func declaring(t *testing.T, url, revision, caps string) *mcptest.Client {
	t.Helper()
	c := mcptest.NewClient(url, wire.Lookup(revision))
	c.Caps = caps
	ctx, cancel := context.WithTimeout(t.Context(), readyLimit)
	defer cancel()
	if err := c.Open(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if c.Session != "" {
			_, _ = c.Delete(context.Background())
		}
	})
	return c
}

// shown returns the names or URIs of a list, sorted.
func shown(t *testing.T, c *mcptest.Client, method string) (names []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), readyLimit)
	defer cancel()
	m, _, err := c.Call(ctx, method, `{}`)
	if err != nil || m.Error != nil {
		t.Fatalf("%s: %s %v", method, m.Text, err)
	}
	var items []struct{ Name, URI, URITemplate string }
	member := map[string]string{"tools/list": "tools", "prompts/list": "prompts", "resources/list": "resources", "resources/templates/list": "resourceTemplates"}[method]
	if !m.Value(member, &items) {
		t.Fatalf("%s: %s", method, m.Text)
	}
	for _, item := range items {
		switch member {
		case "resources":
			names = append(names, item.URI)
		case "resourceTemplates":
			names = append(names, item.URITemplate)
		default:
			names = append(names, item.Name)
		}
	}
	slices.Sort(names)
	return names
}
