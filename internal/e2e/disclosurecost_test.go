package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/gateway/demo"
	"github.com/gatehouse-mcp/gatehouse/gateway/feature/disclosure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/policy"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// TestDescribedToolsCostLittle: descriptions of the demo's tools cost at most 1.3 times
// what a host gives a model in mode full: names, descriptions and schemas. No tool costs
// more than that plus its name, the names of the members, and a description in words if it
// has none.
func TestDescribedToolsCostLittle(t *testing.T) {
	t.Parallel()
	d, err := demo.Start(deadline(t), demo.Options{Executable: os.Args[0], Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	peer, stop := serve(newPeer(stateless, func(string) {}), true)
	t.Cleanup(stop)
	open := func(mode string) *mcptest.Client {
		cfg, _, err := config.Parse("demo", d.Config())
		if err != nil {
			t.Fatal(err)
		}
		cfg.Upstreams = append(cfg.Upstreams, upstream.Config{Name: "peer", URL: peer})
		cfg.Disclosure.Mode = mode
		return raw(t, start(t, cfg), stateless)
	}
	var list struct{ Tools []map[string]json.RawMessage }
	if err := json.Unmarshal(mustCall(t, open(disclosure.ModeFull), "tools/list", "").Result, &list); err != nil {
		t.Fatal(err)
	}
	if len(list.Tools) < 10 {
		t.Fatalf("%d tools", len(list.Tools))
	}
	c := open(disclosure.ModeProgressive)
	fulls, costs := 0, 0
	for _, tool := range list.Tools {
		var name string
		if err := json.Unmarshal(tool["name"], &name); err != nil {
			t.Fatal(err)
		}
		full := len(tool["name"]) + len(tool["description"]) + len(tool["inputSchema"])
		var result struct{ Content []struct{ Text string } }
		if err := json.Unmarshal(mustCall(t, c, "tools/call",
			fmt.Sprintf(`{"name":"describe_tools","arguments":{"names":[%q]}}`, name)).Result, &result); err != nil ||
			len(result.Content) != 1 {
			t.Fatalf("%s: %v", name, err)
		}
		cost := len(result.Content[0].Text)
		if !strings.HasPrefix(name, "peer__") {
			fulls, costs = fulls+full, costs+cost
		}
		if most := full + len(name) + 60; cost > most {
			t.Errorf("%s is described in %d bytes, want at most %d", name, cost, most)
		}
	}
	if fulls == 0 || costs*10 > fulls*13 {
		t.Errorf("the demo's tools are described in %d bytes; in mode full a model is given %d", costs, fulls)
	}
}

// TestLimitsDoNotCountWhatDisclosureRefuses: neither refusals nor descriptions count
// against an agent's rate limits, which come after disclosure.
func TestLimitsDoNotCountWhatDisclosureRefuses(t *testing.T) {
	for _, revision := range eras {
		t.Run(revision, func(t *testing.T) {
			s := scripted(t, revision)
			s.Tools("do", "other")
			s.Tool("do", func(c *mcptest.Call) { c.Text("done") })
			cfg := inShort(upstream.Config{Name: "up", URL: s.URL})
			cfg.Limits = policy.Limits{{Name: "few", What: []string{"tools:*"},
				Rate: policy.Rate{Count: 1, Per: time.Hour}, Burst: 1}}
			g := guard(t, cfg)
			refusals := g.raw(t, revision, g.issuer.Token(claims{"sub": "refused", "client_id": "a"}))
			if got := mustCall(t, refusals, "tools/call", `{"name":"up__do"}`).Text; !strings.Contains(got,
				"TOOL_DESCRIPTION_REQUIRED") {
				t.Fatalf("the first call: %s", got)
			}
			if got := mustCall(t, refusals, "tools/call", `{"name":"up__other"}`).Text; !strings.Contains(got,
				"TOOL_DESCRIPTION_REQUIRED") {
				t.Fatalf("the first call of another tool: %s", got)
			}
			for range 3 {
				mustCall(t, refusals, "tools/call", `{"name":"describe_tools","arguments":{"names":["up__do"]}}`)
			}
			if got := mustCall(t, refusals, "tools/call", `{"name":"up__do"}`).Text; !strings.Contains(got, "done") {
				t.Errorf("the call that the allowance is for: %s", got)
			}
			refused(t, refusals, "tools/call", `{"name":"up__do"}`, 42901)
			refused(t, refusals, "tools/call", `{"name":"up__other"}`, 42901)
			if n := len(s.Received("tools/call")); n != 1 {
				t.Errorf("the server was called %d times", n)
			}
		})
	}
}
