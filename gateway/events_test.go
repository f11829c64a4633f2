package gateway

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/google/go-cmp/cmp"
)

// TestEventsAreRecorded: what happens beside calls has records, too: the configuration and
// what servers offer.
func TestEventsAreRecorded(t *testing.T) {
	site := newSite(t, false, one("work", saying("x")))
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	text := fmt.Sprintf("upstreams: [{name: up, url: %q}]\naudit: {sinks: [{type: file, path: %q}]}\n", site.url, path)
	c := startUnwatched(t, text)
	first := c.ReloadStatus().Revision
	site.server.AddTool(&sdk.Tool{Name: "more", InputSchema: map[string]any{"type": "object"}}, saying("y"))
	eventually(t, "the new tool is there", func() bool { return len(c.graph().catalog.Targets()) == 2 })
	site.server.AddTool(&sdk.Tool{Name: "work", Description: "other", InputSchema: map[string]any{"type": "object"}},
		saying("y"))
	site.server.RemoveTools("more")
	eventually(t, "it is gone", func() bool { return len(c.graph().catalog.Targets()) == 1 })
	c.write(t, text+"limit: 3\n")
	if err := c.Reload(); err == nil {
		t.Error("a bad file is taken")
	}
	c.reload(t, text+"shutdown_timeout: 20s\n")
	if err := c.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []map[string]any{
		{"event": "start", "config": first},
		{"event": "refused", "reason": "nothing was changed: the log has the problems"},
		{"event": "applied", "config": c.ReloadStatus().Revision, "changed": []any{"shutdown_timeout"}},
	}
	if diff := cmp.Diff(want, recorded(t, path, "reload")); diff != "" {
		t.Errorf("reloads (-want +got):\n%s", diff)
	}
	var added, removed, changed []any
	for _, r := range recorded(t, path, "lists") {
		if r["upstream"] != "up" || r["list"] != "tools" {
			t.Errorf("got %v", r)
		}
		for name, to := range map[string]*[]any{"added": &added, "removed": &removed, "changed": &changed} {
			if names, ok := r[name].([]any); ok {
				*to = append(*to, names...)
			}
		}
	}
	if !slices.Equal(added, []any{"more"}) || !slices.Equal(removed, []any{"more"}) ||
		!slices.Equal(changed, []any{"work"}) {
		t.Errorf("added %v, removed %v, changed %v", added, removed, changed)
	}
}
