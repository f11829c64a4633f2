package mcptest_test

import (
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// TestLeaks: a goroutine that ends late is no leak.
func TestLeaks(t *testing.T) {
	late := time.After(time.Second)
	go func() { <-late }()
	if err := mcptest.Leaks(); err != nil {
		t.Error(err)
	}
}
