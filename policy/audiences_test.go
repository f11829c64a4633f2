package policy

import (
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

func TestCrowds(t *testing.T) {
	c, err := NewAudiences([]Who{{Clients: []string{"desktop"}}, {Groups: []string{"dev"}},
		{Claims: map[string][]string{"tier": {"2"}}}})
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name   string
		caller mcp.Caller
		want   int
	}{
		{"a client", mcp.Caller{ClientID: "desktop"}, 0},
		{"a group", mcp.Caller{Groups: []string{"dev"}}, 1},
		{"the first of two", mcp.Caller{ClientID: "desktop", Groups: []string{"dev"}}, 0},
		{"a claim", mcp.Caller{Claims: mcp.Raw(`{"tier":2}`)}, 2},
		{"claims that can be read in two ways", mcp.Caller{ClientID: "desktop", Claims: mcp.Raw(`{"tier":2,"tier":1}`)}, -1},
		{"nobody", mcp.Caller{}, -1},
	}
	for _, tt := range tests {
		for range 2 { // the second time from memory
			if got := c.First(&tt.caller); got != tt.want {
				t.Errorf("%s: %d", tt.name, got)
			}
		}
	}
	caller := tests[1].caller
	if n := testing.AllocsPerRun(100, func() { c.First(&caller) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if _, err := NewAudiences([]Who{{Groups: []string{}}}); err == nil {
		t.Error("an empty list was taken")
	}
}
