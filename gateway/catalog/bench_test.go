package catalog

import (
	"context"
	"fmt"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// fixed is an upstream that answers every call with the same reply.
type fixed struct {
	*server
	reply *mcp.Reply
}

func (f fixed) Handle(ctx context.Context, call *mcp.Call) (*mcp.Reply, error) {
	if call.Method == mcp.MethodToolsCall {
		return f.reply, nil
	}
	return f.server.Handle(ctx, call)
}

func tenByFifty(tb testing.TB) *Catalog {
	var sources []Source
	for i := range 10 {
		s := newServer(fmt.Sprint("upstream", i)).tools(toolNames(50)...)
		sources = append(sources, Source{Upstream: fixed{s,
			&mcp.Reply{Result: mcp.Raw(`{"content":[{"type":"text","text":"hello"}]}`)}}})
	}
	return start(tb, sources...)
}

func TestRoutingAllocatesLittle(t *testing.T) {
	c := tenByFifty(t)
	in := call(mcp.MethodToolsCall, "upstream7__tool0042", `{"name":"upstream7__tool0042","arguments":{}}`)
	in.ParamHeaders = map[string]string{}
	ctx := t.Context()
	in = decided(ctx, c, in)
	// One for the copy of the call, one for the function that marks the upstream's events.
	if n := testing.AllocsPerRun(100, func() { do(t, c, in) }); n > 2 {
		t.Errorf("a call costs %v allocations", n)
	}
	list := call(mcp.MethodToolsList, "")
	if n := testing.AllocsPerRun(100, func() {
		if _, err := c.Handle(ctx, list); err != nil {
			t.Error(err)
		}
	}); n > 1 {
		t.Errorf("a list costs %v allocations", n)
	}
}

func BenchmarkToolsCall(b *testing.B) {
	c := tenByFifty(b)
	in := call(mcp.MethodToolsCall, "upstream7__tool0042", `{"name":"upstream7__tool0042","arguments":{}}`)
	ctx := b.Context()
	in = decided(ctx, c, in)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Handle(ctx, in); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkToolsList10x50(b *testing.B) {
	c := tenByFifty(b)
	in := call(mcp.MethodToolsList, "")
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Handle(ctx, in); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPerUser(b *testing.B) {
	var sources []Source
	for i := range 10 {
		s := newServer(fmt.Sprint("upstream", i)).tools(toolNames(50)...)
		sources = append(sources, Source{Upstream: fixed{s, &mcp.Reply{Result: mcp.Raw(`{"content":[]}`)}},
			PerUser: i%2 == 0})
	}
	c := start(b, sources...)
	list := by("ann", call(mcp.MethodToolsList, ""))
	in := decided(b.Context(), c, by("ann", call(mcp.MethodToolsCall, "upstream6__tool0042", `{}`)))
	for name, in := range map[string]*mcp.Call{"list": list, "call": in} {
		b.Run(name, func(b *testing.B) {
			do(b, c, in)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.Handle(b.Context(), in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkBuild10x50(b *testing.B) {
	c := tenByFifty(b)
	s := c.snap.Load()
	b.ReportAllocs()
	for b.Loop() {
		build(c.plan, s.states, s)
	}
}
