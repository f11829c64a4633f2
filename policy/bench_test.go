package policy

import (
	"fmt"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

func BenchmarkDecide(b *testing.B) {
	cfg := Config{}
	for i := range 1000 {
		cfg.Rules = append(cfg.Rules, Rule{
			Name:  fmt.Sprintf("rule-%d", i),
			Who:   Who{Groups: []string{fmt.Sprintf("group-%d", i%50)}},
			Allow: []string{fmt.Sprintf("tools:up-%d/get_*", i%20), fmt.Sprintf("tools:up-%d/list_%d_*", i%20, i)},
		})
	}
	p, err := New(cfg)
	if err != nil {
		b.Fatal(err)
	}
	var targets []mcp.Target
	for i := range 500 {
		targets = append(targets, mcp.Target{Kind: mcp.KindTools, Upstream: fmt.Sprintf("up-%d", i%20),
			Name: fmt.Sprintf("get_thing_%d", i)})
	}
	caller := mcp.NewCaller(mcp.Caller{Issuer: "https://login.example.com", Subject: "alice",
		Groups: []string{"group-1", "group-2", "group-3"},
		Claims: mcp.Raw(`{"sub":"alice","groups":["group-1","group-2","group-3"],"iat":1,"exp":2,"name":"Alice Example","aud":"https://mcp.example.com/mcp","client_id":"abc","scope":"a b c d e f g h"}`)})
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		p.Decide(b.Context(), &caller, targets[i%500], nil)
		i++
	}
}

// TestDecideAllocatesNothing: on the hot path, with everything remembered.
func TestDecideAllocatesNothing(t *testing.T) {
	p := newForTest(t, Config{Rules: []Rule{
		{Name: "a", Who: Who{Groups: []string{"dev"}}, Allow: []string{"tools:u/*"}},
		{Name: "b", Allow: []string{"tools:u/*"}, When: `caller.user == "alice"`},
	}})
	caller := user("alice", "dev")
	caller.Claims = mcp.Raw(`{"sub":"alice"}`)
	target := tool("u", "get")
	if n := testing.AllocsPerRun(100, func() {
		if p.Decide(t.Context(), &caller, target, nil).Effect != Allow || !p.Visible(&caller, target) {
			t.Fatal("denied")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
