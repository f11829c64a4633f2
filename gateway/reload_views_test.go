package gateway

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"
)

// TestReloadViews: views come, change and go with the configuration. Clients that listen hear of
// a changed list at their own endpoint only.
func TestReloadViews(t *testing.T) {
	p, q := newSite(t, true, one("work", saying("x"))), newSite(t, true, one("work", saying("y")))
	plain := fmt.Sprintf("upstreams: [{name: a, url: %q}, {name: b, url: %q}]\n", p.url, q.url)
	views := func(sales, desk string) string {
		return plain + fmt.Sprintf("views:\n- {name: sales, show: [%s], drop_prefixes: true}\n- {name: desk, show: [%s]}\n", sales, desk)
	}
	const a, both = `"tools:a/*"`, `"tools:*"`
	for _, revision := range []string{stateful, stateless} {
		t.Run(revision, func(t *testing.T) {
			c := startConfigured(t, plain)
			status := func(path string) int {
				t.Helper()
				resp, err := http.Get(c.URL() + path)
				if err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
				return resp.StatusCode
			}
			if got := status("/sales"); got != http.StatusNotFound {
				t.Errorf("a view before there is one: %d", got)
			}
			c.reload(t, views(a, a))
			sales, heard := hearingAt(t, c.URL()+"/sales", revision)
			desk, deaf := hearingAt(t, c.URL()+"/desk", revision)
			if got := listTools(t, sales); !slices.Equal(got, []string{"work"}) {
				t.Errorf("the new view has %q", got)
			}
			if got := listTools(t, desk); !slices.Equal(got, []string{"a__work"}) {
				t.Errorf("the other one has %q", got)
			}
			c.reload(t, views(both, a))
			select {
			case <-heard:
			case <-time.After(patience):
				t.Fatal("the client was not told that its view shows more")
			}
			if len(deaf) > 0 {
				t.Error("a client was told of a list that it does not see")
			}
			if got := listTools(t, sales); !slices.Equal(got, []string{"a__work", "b__work"}) {
				t.Errorf("the wider view has %q", got)
			}
			if got, err := callTool(t.Context(), sales, "b__work"); err != nil || got != "y" {
				t.Errorf("called: %q, %v", got, err)
			}
			c.reload(t, views(both, both))
			select {
			case <-deaf:
			case <-time.After(patience):
				t.Fatal("the other client was not told")
			}
			c.reload(t, plain)
			if got := status("/sales"); got != http.StatusNotFound {
				t.Errorf("a view that has gone: %d", got)
			}
			if _, err := callTool(t.Context(), sales, "a__work"); err == nil {
				t.Error("a view that has gone is served")
			}
		})
	}
}
