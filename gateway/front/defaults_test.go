package front

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/exchange"
	"github.com/gatehouse-mcp/gatehouse/gateway/front/live"
	"github.com/gatehouse-mcp/gatehouse/gateway/front/request"
	"github.com/gatehouse-mcp/gatehouse/gateway/front/sse2024"
	"github.com/gatehouse-mcp/gatehouse/gateway/front/stream"
)

// TestPromisedDefaults: the bounds are what docs/operations.md says.
func TestPromisedDefaults(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{}.withDefaults()
	for _, tt := range []struct {
		promise   string
		got, want any
	}{
		{"`http.max_request_bytes` 4MiB, within 15 s", cfg.MaxRequestBytes, int64(4 << 20)},
		{"within 15 s", bodyTime, 15 * time.Second},
		{"1 MiB of a stream, and 30 s for each MiB", exchange.WriteTime, 30 * time.Second},
		{"1 MiB of a stream", stream.MaxUnsent, 1 << 20},
		{"`http.streams_per_user` 20", cfg.StreamsPerUser, 20},
		{"GET streams of one session | 16", live.MaxStreams, 16},
		{"questions that wait in a session | 64", live.MaxQuestions, 64},
		{"requests of a stream of HTTP+SSE at a time | 100; 20 streams", sse2024.MaxAtOnce, 100},
		{"20 streams of one user* without a session", sse2024.MaxSilent, 20},
		{"32 KiB, 100 fields", request.MaxHeaderFields, 100},
	} {
		if !strings.Contains(string(page), tt.promise) {
			t.Errorf("docs/operations.md does not say %q", tt.promise)
		}
		if tt.got != tt.want {
			t.Errorf("%s: %v, want %v", tt.promise, tt.got, tt.want)
		}
	}
}
