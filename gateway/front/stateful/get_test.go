package stateful

import (
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/home"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// TestExpiredTokenWaitsForNothing: what exists already is not replayed to a token that has expired.
func TestExpiredTokenWaitsForNothing(t *testing.T) {
	more := make(chan struct{})
	close(more)
	ctx, cancel := mcp.NewLasting(nil).While(t.Context(), &mcp.Caller{Expires: time.Now()})
	defer cancel()
	if !(&getting{home: new(home.Home)}).wait(ctx, more) {
		t.Error("it waits for more")
	}
}
