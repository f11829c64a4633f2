package stdio

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
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
func TestUnreadInputAtTheEnd(t *testing.T) {
	file := filepath.Join(t.TempDir(), "said good-bye")
	const script = `trap 'echo yes >"$FILE"; exit' TERM; read line; echo '{"jsonrpc":"2.0","method":"ready"}'; sleep 300 & wait`
	var wg sync.WaitGroup
	program := New(transport.Env{Log: slog.New(slog.DiscardHandler), Spawn: func(f func()) { wg.Go(f) },
		Garbage: new(atomic.Int64), Program: new(atomic.Pointer[transport.Program])}, Config{
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
	case <-time.After(time.Minute):
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
