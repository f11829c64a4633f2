package e2e

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// TestOrdinaryLoadIsCarried: 256 clients without authentication, as many as a bare proxy
// supports, call one server at the same time with the default settings. All calls succeed.
func TestOrdinaryLoadIsCarried(t *testing.T) {
	mcptest.Long(t)
	const clients, calls = 256, 4
	for _, server := range []string{statefulServer, stateless} {
		for _, revision := range eras {
			t.Run(fmt.Sprintf("client %s, server %s", revision, server), func(t *testing.T) {
				s := scripted(t, server)
				s.Discard()
				s.Tools("do")
				s.Tool("do", func(c *mcptest.Call) {
					select {
					case <-time.After(50 * time.Millisecond): // so that many run at the same time
						c.Text("done")
					case <-c.Done():
					}
				})
				url := start(t, gateway.Config{Upstreams: []upstream.Config{{Name: "up", URL: s.URL}}})
				transport := &http.Transport{MaxIdleConnsPerHost: clients}
				t.Cleanup(transport.CloseIdleConnections)
				var all sync.WaitGroup
				for range clients {
					all.Go(func() {
						c := unopened(t, url, revision)
						c.HTTP = &http.Client{Transport: transport}
						if err := c.Open(deadline(t)); err != nil {
							t.Errorf("a session: %v", err)
							return
						}
						for range calls {
							m, _, err := c.Call(deadline(t), "tools/call", `{"name":"up__do"}`)
							if err == nil && m.Error != nil {
								err = m.Error
							}
							if err != nil {
								t.Errorf("a call: %v", err)
								return
							}
						}
					})
				}
				all.Wait()
			})
		}
	}
}
