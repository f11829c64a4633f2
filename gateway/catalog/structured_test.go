package catalog

import (
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

func TestStructured(t *testing.T) {
	crm := newServer("crm").has(mcp.MethodToolsList, tool("a"),
		`{"name":"b.c","inputSchema":{"type":"object"},"outputSchema":{"type":"object"}}`)
	down := newServer("down")
	down.unreachable(true)
	c := start(t, sourcesOf([]*server{crm, down})...)
	for _, tt := range []struct {
		name           string
		upstream, tool string
		want           bool
	}{
		{"without a schema", "crm", "a", false},
		{"with one", "crm", "b.c", true},
		{"on no list", "crm", "x", true},
		{"of an upstream that is down", "down", "a", true},
		{"of none", "other", "a", true},
	} {
		if got := c.For(&mcp.Call{}).Structured(mcp.Target{Kind: mcp.KindTools, Upstream: tt.upstream,
			Name: tt.tool}); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}
