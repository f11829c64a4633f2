package gateway

import (
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/doorway"
	"github.com/gatehouse-mcp/gatehouse/gateway/front"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// TestPromisedDefaults: the bounds are what docs/operations.md says. Packages whose bounds are
// not visible here have tests of this name, too.
func TestPromisedDefaults(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	connections, server := doorway.Config{}.WithDefaults(), newServer(nil, slog.New(slog.DiscardHandler))
	for _, tt := range []struct {
		promise   string
		got, want any
	}{
		{"`connections.max` 10000", connections.Max, 10_000},
		{"`connections.per_address`, half of `max`", connections.PerAddress, 5_000},
		{"`connections.idle_timeout` 60s; before the first request 5 s", connections.IdleTimeout, 60 * time.Second},
		{"before the first request 5 s", server.ReadHeaderTimeout, 5 * time.Second},
		{"header | 32 KiB", server.MaxHeaderBytes, 32 << 10},
		{"`http.max_in_flight_bytes` 512MiB, or an eighth of `GOMEMLIMIT`", Config{}.InFlight(math.MaxInt64),
			int64(512 << 20)},
		{"an eighth of `GOMEMLIMIT`", Config{}.InFlight(1 << 30), int64(128 << 20)},
		{"`http.streams_per_user` 20", front.DefaultStreams, 20},
		{"`sessions.max_per_user` 100", session.DefaultMaxPerUser, 100},
		{"`sessions.max` 100000, 256 KiB each", session.DefaultMax, 100_000},
		{"256 KiB each", session.MaxRecordBytes, 256 << 10},
		{"256 events, 1 MiB; 64 streams of a session", session.LogEvents, 256},
		{"1 MiB; 64 streams of a session", session.LogBytes, 1 << 20},
		{"64 streams of a session", session.LogStreams, 64},
		{"connections to `admin.listen` | 256", adminConnections, 256},
	} {
		if !strings.Contains(string(page), tt.promise) {
			t.Errorf("docs/operations.md does not say %q", tt.promise)
		}
		if tt.got != tt.want {
			t.Errorf("%s: %v, want %v", tt.promise, tt.got, tt.want)
		}
	}
}
