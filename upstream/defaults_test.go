package upstream

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream/dialect"
	"github.com/gatehouse-mcp/gatehouse/upstream/pool"
	"github.com/gatehouse-mcp/gatehouse/upstream/stateful/restore"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport/streamable"
)

// TestPromisedDefaults: the defaults are those that docs/operations.md states.
func TestPromisedDefaults(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	url, command := Config{URL: "https://a.example"}.WithDefaults(), Config{Command: []string{"a"}}.WithDefaults()
	alice, anybody := &mcp.Caller{Issuer: "https://issuer", Subject: "alice"}, &mcp.Caller{}
	for _, tt := range []struct {
		promise   string
		got, want any
	}{
		{"`upstreams[].limits.concurrent` 1000, to a process 100; 4000 more wait", url.Limits.Concurrent, 1000},
		{"to a process 100; 4000 more wait", command.Limits.Concurrent, 100},
		{"4000 more wait, for `timeout.call` at most", maxQueuedCalls, 4000},
		{"`limits.concurrent_per_user`, half of `concurrent`", url.Limits.ConcurrentPerUser, 500},
		{"`limits.asks_per_user` 20 (without authentication: as `concurrent`)", url.Limits.asks(alice), 20},
		{"(without authentication: as `concurrent`)", url.Limits.asks(anybody), 1000},
		{"`limits.questions_per_minute` 600", url.Limits.QuestionsPerMinute, 600},
		{"`limits.sessions` 10000, processes 200", url.Limits.Sessions, 10_000},
		{"processes 200", command.Limits.Sessions, 200},
		{"opened at an upstream at a time | 20, of one user* 10", pool.AtOnce, 20},
		{"`limits.items` 20000,", url.Limits.Items, 20_000},
		{"`limits.result_bytes` 16MiB; what it says of itself 1 MiB", url.Limits.ResultBytes, int64(16 << 20)},
		{"what it says of itself 1 MiB", dialect.MaxHello, 1 << 20},
		{"256 messages, 1 MiB of a call; 1000, 1 MiB of a subscription", transport.MaxQueued, 256},
		{"1000, 1 MiB of a subscription", restore.MaxPending, 1000},
		{"300 s at most", streamable.MaxRetryAfter, 300 * time.Second},
	} {
		if !strings.Contains(string(page), tt.promise) {
			t.Errorf("docs/operations.md does not say %q", tt.promise)
		}
		if tt.got != tt.want {
			t.Errorf("%s: %v, want %v", tt.promise, tt.got, tt.want)
		}
	}
}
