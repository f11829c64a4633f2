package e2e

import (
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// BenchmarkListChange measures the time from a server's notification of a new tool to that of the client.
func BenchmarkListChange(b *testing.B) {
	for _, revision := range []string{statefulServer, stateless} {
		b.Run("server "+revision, func(b *testing.B) {
			var sum time.Duration
			for b.Loop() {
				sum += firstChange(b, revision)
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(sum.Microseconds())/1e3/float64(b.N), "ms/change")
		})
	}
}

// firstChange returns how long the first change of a gateway's lists takes to reach a client.
func firstChange(b *testing.B, revision string) time.Duration {
	server := mcptest.NewServer(wire.Lookup(revision))
	defer server.Close()
	server.Tools("tool")
	g, stop, err := run(gateway.Config{Upstreams: []upstream.Config{{Name: "up", URL: server.URL}}})
	if err != nil {
		b.Fatal(err)
	}
	defer stop()
	client := mcptest.NewClient(g.URL(), wire.Lookup(statefulClient))
	if err := client.Open(deadline(b)); err != nil {
		b.Fatal(err)
	}
	stream, err := client.Get(deadline(b), "")
	if err != nil {
		b.Fatal(err)
	}
	defer stream.Close()
	if revision == statefulServer {
		err = server.AwaitGETStreams(deadline(b), 1)
	}
	if err != nil {
		b.Fatal(err)
	}
	server.Tools("tool", "other")
	began := time.Now()
	server.Push("notifications/tools/list_changed", "{}")
	if _, err := stream.Until("notifications/tools/list_changed"); err != nil {
		b.Fatal(err)
	}
	return time.Since(began)
}
