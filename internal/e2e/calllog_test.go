package e2e

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// TestACancelledCallIsNoFailure: calls that their clients cancel, in every way, are logged
// as such, without a warning.
func TestACancelledCallIsNoFailure(t *testing.T) {
	t.Parallel()
	for _, revision := range []string{statefulServer, stateless} {
		t.Run("server "+revision, func(t *testing.T) {
			s := scripted(t, revision)
			started := make(chan struct{}, 1)
			s.Tools("do")
			s.Tool("do", func(c *mcptest.Call) {
				c.Progress(1)
				started <- struct{}{}
				c.Hang()
			})
			log := &mcptest.Log{}
			g, err := gateway.New(gateway.Options{
				Config:  gateway.Config{Listen: "127.0.0.1:0", Upstreams: []upstream.Config{{Name: "up", URL: s.URL}}},
				Log:     slog.New(slog.NewTextHandler(log, nil)),
				Version: "test",
			})
			if err != nil {
				t.Fatal(err)
			}
			g.Start()
			stop := func() error { return g.Stop(deadline(t)) }
			defer func() { _ = stop() }() // if the test has failed
			if err := g.WaitReady(deadline(t)); err != nil {
				t.Fatal(err)
			}
			end := map[string]func(*mcptest.Client, *mcptest.Exchange, context.Context){
				"cancelled": func(c *mcptest.Client, _ *mcptest.Exchange, ctx context.Context) {
					_, _ = c.Notify(ctx, "notifications/cancelled", `{"requestId":"x"}`)
				},
				"session ended": func(c *mcptest.Client, _ *mcptest.Exchange, ctx context.Context) { _, _ = c.Delete(ctx) },
				"disconnected":  func(_ *mcptest.Client, x *mcptest.Exchange, _ context.Context) { x.Close() },
			}
			for how, client := range map[string]string{"cancelled": statefulClient, "session ended": statefulClient,
				"disconnected": stateless} {
				c := raw(t, g.URL(), client)
				x, err := c.SendID(deadline(t), `"x"`, "tools/call", `{"name":"up__do","_meta":{"progressToken":1}}`)
				if err != nil {
					t.Fatal(err)
				}
				receive(t, how+": the start", started)
				end[how](c, x, deadline(t))
				x.Text() // to its end
				x.Close()
			}
			if err := stop(); err != nil {
				t.Error(err)
			}
			if n := log.Count("method=tools/call name=up__do upstream=up outcome=cancelled"); n != 3 {
				t.Errorf("%d of 3 calls are logged as cancelled", n)
			}
			for line := range strings.Lines(log.String()) {
				if !strings.Contains(line, "level=INFO") {
					t.Error(line)
				}
			}
		})
	}
}
