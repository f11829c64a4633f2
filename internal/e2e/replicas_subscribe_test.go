package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// TestReplicasSubscribe: a subscription at any replica is effective at once, even while
// earlier subscriptions still move to the replica with the stream.
func TestReplicasSubscribe(t *testing.T) {
	t.Parallel()
	const resources, atOnce = 1 + 20*4, 4
	var listed []string
	for i := range resources {
		listed = append(listed, fmt.Sprintf(`{"uri":"test://%d","name":"r%d"}`, i, i))
	}
	server := scripted(t, statefulServer)
	server.Offers(`{"resources":{"subscribe":true}}`)
	server.On("resources/list", func(c *mcptest.Call) { c.Result(`{"resources":[` + strings.Join(listed, ",") + `]}`) })
	server.On("resources/subscribe", func(c *mcptest.Call) { c.Result(`{}`) })
	r := replicated(t, func(cfg *gateway.Config) {
		cfg.Upstreams = []upstream.Config{{Name: "up", URL: server.URL}}
	})
	c := raw(t, r.url, statefulClient)
	stream, err := c.Get(deadline(t), "")
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	subscribe := func(i int) {
		m, _, err := c.Call(deadline(t), "resources/subscribe", fmt.Sprintf(`{"uri":"up+test://%d"}`, i))
		if err != nil || m.Error != nil {
			t.Errorf("subscribing to %d: %s %v", i, m.Text, err)
		}
		server.Push("notifications/resources/updated", fmt.Sprintf(`{"uri":"test://%d"}`, i))
	}
	first, _, err := c.Call(deadline(t), "resources/subscribe", `{"uri":"up+test://0"}`)
	if err != nil || first.Error != nil {
		t.Fatal(first.Text, err)
	}
	// Those of the replicas' catalogs, and one for the client.
	if err := server.AwaitGETStreams(deadline(t), 4); err != nil {
		t.Fatal(err)
	}
	for from := 1; from < resources; from += atOnce {
		var all sync.WaitGroup
		unheard := map[string]bool{}
		for i := from; i < from+atOnce; i++ {
			unheard[fmt.Sprintf("up+test://%d", i)] = true
			all.Go(func() { subscribe(i) })
		}
		all.Wait()
		for len(unheard) > 0 {
			m, err := stream.Until("notifications/resources/updated")
			if err != nil {
				t.Fatalf("%v are not heard of: %v", slices.Collect(maps.Keys(unheard)), err)
			}
			var uri string
			m.Param("uri", &uri)
			delete(unheard, uri)
		}
	}
}
