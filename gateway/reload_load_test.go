package gateway

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestReloadUnderLoad: each request is judged by exactly one policy while policies
// change. Once a reload has returned, the new policy judges.
func TestReloadUnderLoad(t *testing.T) {
	p := newSite(t, true, map[string]sdk.ToolHandler{"left": saying("left"), "right": saying("right")})
	policies := map[string]string{}
	for allowed, denied := range map[string]string{"left": "right", "right": "left"} {
		policies[allowed] = fmt.Sprintf("upstreams: [{name: a, url: %q}]\npolicy: {default: allow, rules: [{name: r, deny: [\"tools:a/%s\"]}]}\n", p.url, denied)
	}
	c := startUnwatched(t, policies["left"])
	ctx, cancel := context.WithCancel(t.Context())
	var lists, calls atomic.Int64
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	for _, revision := range []string{stateful, stateless} {
		for _, tool := range []string{"left", "right"} {
			session := connect(t, c.Gateway, revision)
			all.Go(func() {
				for ctx.Err() == nil {
					list, err := session.ListTools(t.Context(), nil)
					if err != nil || len(list.Tools) != 1 {
						t.Errorf("%s: of two policies %+v, %v", revision, list, err)
						return
					}
					lists.Add(1)
				}
			})
			all.Go(func() {
				for ctx.Err() == nil {
					got, err := callTool(t.Context(), session, "a__"+tool)
					if denied := err != nil && strings.Contains(err.Error(), "a__"+tool); !denied && (err != nil || got != tool) {
						t.Errorf("%s: %q, %v", revision, got, err)
						return
					}
					calls.Add(1)
				}
			})
		}
	}
	session := connect(t, c.Gateway, stateless)
	for i := range 40 {
		allowed, denied := "left", "right"
		if i%2 == 0 {
			allowed, denied = denied, allowed
		}
		before := lists.Load() + calls.Load()
		c.reload(t, policies[allowed])
		if got, err := callTool(t.Context(), session, "a__"+allowed); err != nil || got != allowed {
			t.Errorf("what the new policy allows: %q, %v", got, err)
		}
		if got, err := callTool(t.Context(), session, "a__"+denied); err == nil {
			t.Errorf("what the new policy denies: %q", got)
		}
		eventually(t, "requests between two reloads", func() bool { return lists.Load()+calls.Load() > before || t.Failed() })
	}
}
