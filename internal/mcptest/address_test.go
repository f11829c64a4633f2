package mcptest_test

import (
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// TestAddressesDiffer: what a test has got, no other one gets meanwhile.
func TestAddressesDiffer(t *testing.T) {
	got := map[string]bool{}
	for range 500 { // of 12,000, so some would be drawn twice
		address := mcptest.LoopbackAddress(t)
		if got[address] {
			t.Fatalf("%s was given twice", address)
		}
		got[address] = true
	}
}
