package exchange

import (
	"log/slog"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
	"github.com/gatehouse-mcp/gatehouse/session"
)

func TestMain(m *testing.M) { mcptest.VerifyMain(m) }

// newEndpoint returns an Endpoint without a handler.
func newEndpoint(t testing.TB) *Endpoint {
	t.Helper()
	store, err := session.NewMemory(session.Config{}, session.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	key, err := seal.NewRandom("test")
	if err != nil {
		t.Fatal(err)
	}
	e := NewEndpoint(Deps{
		Store:   store,
		Seal:    key,
		Log:     slog.New(slog.DiscardHandler),
		Memory:  mcp.NewMemory(1 << 20),
		Metrics: NewMetrics(nil),
	}, "r", 0, time.Hour)
	e.StreamAfter = time.Hour
	return e
}
