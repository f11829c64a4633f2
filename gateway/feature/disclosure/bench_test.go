package disclosure

import (
	"context"
	"log/slog"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

var discard = slog.New(slog.DiscardHandler)

// full returns a stage whose caller is in mode full, above a handler that costs nothing.
func full(t testing.TB) (h mcp.Handler, c *mcp.Call) {
	t.Helper()
	d, err := New(Config{}, Deps{
		Grants: broken{}, Log: discard, Upstreams: map[string]Upstream{"crm": {}},
		Clients: []string{ModeProgressive}, Whose: func(*mcp.Caller) int { return -1 },
	})
	if err != nil {
		t.Fatal(err)
	}
	reply := &mcp.Reply{Result: mcp.Raw(`{}`)}
	h = d.Middleware(mcp.HandlerFunc(func(context.Context, *mcp.Call) (*mcp.Reply, error) { return reply, nil }))
	return h, alice.call(mcp.MethodToolsCall, "crm__export", `{}`)
}

func TestFullAllocatesNothing(t *testing.T) {
	h, c := full(t)
	if n := testing.AllocsPerRun(100, func() { _, _ = h.Handle(t.Context(), c) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkFull(b *testing.B) {
	h, c := full(b)
	b.ReportAllocs()
	for b.Loop() {
		_, _ = h.Handle(b.Context(), c)
	}
}

// BenchmarkProgressive measures a call with a grant.
func BenchmarkProgressive(b *testing.B) {
	r := progressive(b)
	r.fetch(b, alice, "?tools=weather__now")
	c := alice.call(mcp.MethodToolsCall, "weather__now", `{}`)
	b.ReportAllocs()
	for b.Loop() {
		_, _ = r.h.Handle(b.Context(), c)
		r.below.reached = r.below.reached[:0]
	}
}
