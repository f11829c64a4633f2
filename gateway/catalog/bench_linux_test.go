package catalog

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/policy"
)

// fiveClasses are what the clients in these benchmarks declare.
var fiveClasses = []string{`{}`, `{"elicitation":{}}`, `{"sampling":{}}`,
	`{"roots":{},"elicitation":{"form":{},"url":{}}}`, `{"extensions":{"x":{}}}`}

// manyByClass are upstreams with 50 tools each, all of which show another tool for each thing that
// a client declares.
func manyByClass(n int) (sources []Source) {
	for i := range n {
		s := newServer(fmt.Sprint("upstream", i))
		items := toolItems(toolNames(50)...)
		for at, item := range items {
			items[at].Raw = item.Raw.With("description", mcp.String(fmt.Sprintf("%0600d", at)))
		}
		s.on(mcp.MethodToolsList, func(_ context.Context, call *mcp.Call) (*mcp.Reply, error) {
			return &mcp.Reply{List: &mcp.List{Items: append(toolItems(toolsFor(call.Caps)...), items[7:]...)}}, nil
		})
		sources = append(sources, classed(s))
	}
	return sources
}

// measured reports the CPU time of a run, which a busy machine does not change as much as its
// duration.
func measured(b *testing.B, run func()) {
	cpu := func() time.Duration {
		var used syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
			b.Fatal(err)
		}
		return time.Duration(used.Utime.Nano() + used.Stime.Nano())
	}
	b.ReportAllocs()
	b.ResetTimer()
	before := cpu()
	n := 0
	for b.Loop() {
		run()
		n++
	}
	b.ReportMetric(float64((cpu()-before).Microseconds())/float64(n), "cpu-us/op")
}

// BenchmarkListsByClass: 1,000 users with clients of five classes read all tools, by a policy
// that hides some of them. All pages are rendered, as front renders them. "changed" does so after
// an upstream has changed its list.
func BenchmarkListsByClass(b *testing.B) {
	for _, n := range []int{10, 200} {
		c := start(b, manyByClass(n)...)
		rules, err := policy.New(policy.Config{Rules: []policy.Rule{
			{Name: "all", Allow: []string{"*:*"}}, {Name: "one", Who: policy.Who{Groups: []string{"few"}},
				Deny: []string{"tools:*/tool0049"}},
		}})
		if err != nil {
			b.Fatal(err)
		}
		guard, err := policy.NewGuard(rules, policy.GuardDeps{})
		if err != nil {
			b.Fatal(err)
		}
		h := mcp.Chain(c, guard.Middleware)
		i := 0
		list := func() {
			user := i % 1000
			i++
			in := declares(fiveClasses[user%5], call(mcp.MethodToolsList, ""))
			in.Caller = mcp.NewCaller(mcp.Caller{Issuer: "https://idp.example.com", Subject: fmt.Sprint("user", user)})
			if user%2 == 0 {
				in.Caller.Groups = []string{"few"}
			}
			for page, err := range mcp.Pages(b.Context(), h, in, 100) {
				if err != nil { // while new classes of clients are looked at
					if i > 1000 {
						b.Fatal(err)
					}
					return
				}
				page.Render("bench", renderBench)
			}
		}
		for range 1000 {
			list()
		}
		b.Run(fmt.Sprintf("%dx50", n), func(b *testing.B) { measured(b, list) })
		b.Run(fmt.Sprintf("%dx50 changed", n), func(b *testing.B) {
			state, now := c.snap.Load().states[0], 0
			lists := [2]*publicList{newPublicList(c.plan, c.sources[0].naming, tools, fetched{items: toolItems("a")}),
				state.lists[tools]}
			measured(b, func() {
				state.lists[tools] = lists[now%2]
				now++
				c.publisher.publish(0, state)
				for range fiveClasses {
					list()
				}
			})
		})
	}
}

func renderBench(l *mcp.List) []byte {
	size := 0
	for _, item := range l.Items {
		size += len(item.Raw)
	}
	out := make([]byte, 0, size)
	for _, item := range l.Items {
		out = append(out, item.Raw...)
	}
	return out
}

// BenchmarkStart200x50 is the start of a catalog, until all upstreams have answered and have been
// looked at as clients that declare nothing.
func BenchmarkStart200x50(b *testing.B) {
	sources := manyByClass(200)
	measured(b, func() {
		c := newCatalog(b, Config{}, sources...)
		stop := running(b, c)
		c.WaitFirst(b.Context())
		stop()
	})
}
