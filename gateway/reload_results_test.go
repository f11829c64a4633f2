package gateway

import (
	"fmt"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestReloadResults: settings for large results apply from the next call on, replace no
// upstream, and leave what is kept readable.
func TestReloadResults(t *testing.T) {
	large := strings.Repeat("a line\n", 1000)
	p := newSite(t, true, one("work", saying(large)))
	for _, revision := range []string{stateful, stateless} {
		t.Run(revision, func(t *testing.T) {
			site := fmt.Sprintf("upstreams: [{name: a, url: %q, results: {inline: %%s}}]\n", p.url)
			c := startConfigured(t, fmt.Sprintf(site, "off"))
			session, _ := hearing(t, c.Gateway, revision)
			call := func() []sdk.Content {
				t.Helper()
				result, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "a__work"})
				if err != nil {
					t.Fatal(err)
				}
				return result.Content
			}
			if whole := call(); len(whole) != 1 || whole[0].(*sdk.TextContent).Text != large {
				t.Fatalf("without the setting there are %d blocks", len(whole))
			}
			before := c.graph().members[0].server
			c.reload(t, fmt.Sprintf(site, "1KiB"))
			part := call()
			if len(part) != 3 || len(part[0].(*sdk.TextContent).Text) > 1<<10 {
				t.Fatalf("with it there are %d blocks", len(part))
			}
			c.reload(t, fmt.Sprintf(site, "2KiB"))
			if again := call(); len(again) != 3 || len(again[0].(*sdk.TextContent).Text) < 1<<10 {
				t.Errorf("with another one there are %d blocks", len(again))
			}
			read, err := session.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: part[2].(*sdk.ResourceLink).URI})
			if err != nil || len(read.Contents) != 1 || read.Contents[0].Text != large {
				t.Errorf("the whole: %v, %v", read, err)
			}
			if c.graph().members[0].server != before {
				t.Error("the upstream was replaced")
			}
		})
	}
}

// TestReloadHooks: hooks apply from the next call on, replace no upstream, and take their series
// along when they go.
func TestReloadHooks(t *testing.T) {
	p := newSite(t, true, one("work", saying("the key is AKIAIOSFODNN7EXAMPLE")))
	for _, revision := range []string{stateful, stateless} {
		t.Run(revision, func(t *testing.T) {
			plain := fmt.Sprintf("upstreams: [{name: a, url: %q}]\n", p.url)
			c := startConfigured(t, plain)
			session, _ := hearing(t, c.Gateway, revision)
			before := c.graph().members[0].server
			want := func(want string) {
				t.Helper()
				if got, err := callTool(t.Context(), session, "a__work"); err != nil || got != want {
					t.Errorf("it answers %q, %v; want %q", got, err, want)
				}
			}
			want("the key is AKIAIOSFODNN7EXAMPLE")
			c.reload(t, plain+"hooks: [{name: keys, redact: {secrets: [aws_key], with: gone}}]\n")
			want("the key is gone")
			c.reload(t, plain+"hooks: [{name: words, redact: {patterns: [key], with: word}}]\n")
			want("the word is AKIAIOSFODNN7EXAMPLE")
			families, err := c.metrics.Registry.Gather()
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range families {
				if text := f.String(); strings.HasPrefix(f.GetName(), "gatehouse_hook_") &&
					(strings.Contains(text, `"keys"`) || !strings.Contains(text, `"words"`)) {
					t.Errorf("the series are %s", text)
				}
			}
			c.reload(t, plain)
			want("the key is AKIAIOSFODNN7EXAMPLE")
			if c.graph().members[0].server != before {
				t.Error("the upstream was replaced")
			}
		})
	}
}
