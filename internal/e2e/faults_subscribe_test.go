package e2e

import (
	"testing"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// TestSubscribeWhileDown: a client that subscribes to a resource of a server that is down
// learns that it is down, not that there is no such resource.
func TestSubscribeWhileDown(t *testing.T) {
	t.Parallel()
	down := verdict{200, 50201, "no", "connection refused; try again later"}
	for _, revision := range []string{statefulServer, stateless} {
		t.Run("server "+revision, func(t *testing.T) {
			t.Parallel()
			server := scripted(t, revision)
			server.On("resources/list", func(c *mcptest.Call) {
				c.Result(`{"resultType":"complete","resources":[{"uri":"test://do","name":"do"}]}`)
			})
			server.On("resources/read", func(c *mcptest.Call) {
				c.Result(`{"resultType":"complete","contents":[{"uri":"test://do","text":"done"}]}`)
			})
			m := newMortal(t, server)
			url := start(t, gateway.Config{Upstreams: []upstream.Config{{Name: "up", URL: "http://" + m.Address + "/mcp"}}})
			const it = `{"uri":"up+test://do"}`
			subscribe := func(c *mcptest.Client) (o faultOutcome) {
				t.Helper()
				o.client, o.upstream = c.Revision.Name, "up"
				x, err := c.Send(deadline(t), "resources/subscribe", it)
				if err != nil {
					t.Fatal(err)
				}
				defer x.Close()
				o.status = x.Status
				o.Message, o.err = x.Response()
				return o
			}
			fresh, known := raw(t, url, statefulClient), raw(t, url, statefulClient)
			if read := mustCall(t, known, "resources/read", it); read.Error != nil {
				t.Fatalf("reading: %s", read.Text)
			}
			m.Kill()
			// A loaded kernel may deliver the end of a connection only after a request was written to it.
			const cut, idle = 50202, 10
			refused := func(c *mcptest.Client) (o faultOutcome) {
				for range idle {
					if o = subscribe(c); o.err != nil || o.Error == nil || o.Error.Code != cut {
						break
					}
				}
				return o
			}
			down.check(t, refused(fresh)) // it has no session there
			down.check(t, refused(known))
			x, err := raw(t, url, stateless).Send(deadline(t), "subscriptions/listen",
				`{"notifications":{"resourceSubscriptions":["up+test://do"]}}`)
			if err != nil {
				t.Fatal(err)
			}
			defer x.Close()
			var granted []string
			if ack, err := x.Until("notifications/subscriptions/acknowledged"); err != nil ||
				ack.Param("notifications|resourceSubscriptions", &granted) {
				t.Errorf("acknowledged to a client of %s: %s %v", stateless, ack.Text, err)
			}
			revive(t, m)
			for _, c := range []*mcptest.Client{fresh, known} {
				if o := subscribe(c); o.err != nil || o.Error != nil {
					t.Errorf("once it is back: %s %v", o.Text, o.err)
				}
			}
			if none, _, err := known.Call(deadline(t), "resources/subscribe", `{"uri":"else+test://do"}`); err != nil ||
				none.Error == nil || none.Error.Code != -32002 {
				t.Errorf("a resource that does not exist: %s %v", none.Text, err)
			}
		})
	}
}
