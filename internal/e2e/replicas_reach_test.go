package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/gateway/trial"
	"github.com/gatehouse-mcp/gatehouse/internal/faultproxy"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// TestReplicasThatCannotReachEachOther: /readyz and check report it with address and
// reason.
func TestReplicasThatCannotReachEachOther(t *testing.T) {
	mcptest.Long(t)
	t.Parallel()
	s, redis := doing(t), redistest.Start(t)
	cfg := gateway.Config{Upstreams: []upstream.Config{{Name: "up", URL: s.URL}}}
	cfg.Sessions.Store, cfg.Sessions.Key, cfg.Sessions.Redis.URL = "redis", "0123456789abcdef0123456789abcdef",
		mcp.Secret(redis.URL())
	cfg.Admin.Listen = "127.0.0.1:0"
	wall, err := faultproxy.Start("127.0.0.1:1") // nobody listens there
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(wall.Close)
	cfg.Replicas.Listen = "127.0.0.1:0"
	there, stop, err := run(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	hidden := cfg
	hidden.Replicas.Advertise = wall.Addr()
	start(t, hidden)

	type replica struct{ Name, Address, Error string }
	look := func() (all []replica) {
		resp, err := http.Get(fmt.Sprintf("http://%s/readyz", there.AdminAddr()))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var answer struct{ Replicas []replica }
		if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("readyz: %d %v", resp.StatusCode, err)
		}
		return answer.Replicas
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for ctx := deadline(t); ; {
		if all := look(); len(all) == 1 && all[0].Address == wall.Addr() && all[0].Error != "" {
			break
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("readyz does not say that the other replica cannot be reached: %+v", look())
		}
	}
	reports, err := trial.Backends(deadline(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	var reached, walled bool
	for _, r := range reports {
		if strings.HasPrefix(r.Name, "replica ") {
			reached = reached || r.Error == ""
			walled = walled || strings.Contains(r.Error, "replicas.advertise")
		}
	}
	if !reached || !walled {
		t.Errorf("check says %+v", reports)
	}
}
