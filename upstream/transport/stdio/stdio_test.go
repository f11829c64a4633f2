package stdio

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
)

// A process that does not read what is still to be written to it is asked to end like
// any other, by SIGTERM before SIGKILL.
func TestP9_170_UnreadInputAtTheEnd(t *testing.T) {
	file := filepath.Join(t.TempDir(), "said good-bye")
	const script = `trap 'echo yes >"$FILE"; exit' TERM; read line; echo '{"jsonrpc":"2.0","method":"ready"}'; sleep 300 & wait`
	var wg sync.WaitGroup
	program := New(transport.Env{Log: slog.New(slog.DiscardHandler), Spawn: func(f func()) { wg.Go(f) }, Garbage: new(atomic.Int64)}, Config{
		Command: []string{"sh", "-c", script}, Env: map[string]mcp.Secret{"FILE": mcp.Secret(file)}, Patience: time.Minute,
	})
	conn, err := program.Dial(t.Context(), &transport.Identity{})
	if err != nil {
		t.Fatal(err)
	}
	defer wg.Wait()
	defer conn.Close(t.Context())
	ready := make(chan struct{})
	conn.Deliver(true, func(wire.Message) { close(ready) })
	if err := conn.Post(t.Context(), []byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ready:
	case <-time.After(10 * time.Second):
		t.Fatal("the process does not start")
	}
	if err := conn.Post(t.Context(), bytes.Repeat([]byte{' '}, 1<<20)); err != nil {
		t.Fatal(err)
	}
	hurry, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := conn.Close(hurry); err != nil {
		t.Error(err)
	}
	if said, err := os.ReadFile(file); err != nil || string(said) != "yes\n" {
		t.Errorf("it was killed before it could end: %q, %v", said, err)
	}
}

// TestH167_TailKeepsTheEnd: H/167 of all that a process says the last 1000 bytes are kept.
func TestH167_TailKeepsTheEnd(t *testing.T) {
	var kept tail
	for i := range 1 << 14 {
		_, _ = kept.Write([]byte(strings.Repeat(fmt.Sprintf("%04x", i), 16)))
		if len(kept) > transport.ChatterLine {
			t.Fatalf("%d bytes are kept", len(kept))
		}
	}
	if cap(kept) > 4<<10 {
		t.Errorf("%d bytes are held", cap(kept))
	}
	if len(kept) != transport.ChatterLine || !strings.HasSuffix(string(kept), "3fff3fff") {
		t.Errorf("the end is %q, of %d bytes", kept[max(0, len(kept)-20):], len(kept))
	}
}
