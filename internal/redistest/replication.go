package redistest

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// Follow makes the server a read-only replica of another one, and returns when it has the
// other's data.
func (s *Server) Follow(t testing.TB, master *Server) {
	t.Helper()
	host, port, _ := net.SplitHostPort(master.Addr)
	s.replicaOf(t, host, port)
	client := s.Client()
	defer client.Close()
	eventually(t, "replication", func(ctx context.Context) bool {
		info, err := client.Info(ctx, "replication").Result()
		return err == nil && strings.Contains(info, "master_link_status:up")
	})
}

// Replicated returns when a replica of the server has everything that was written before.
func (s *Server) Replicated(t testing.TB) {
	t.Helper()
	client := s.Client()
	defer client.Close()
	// WAIT covers the writes of its own connection and all writes before those.
	conn := client.Conn()
	defer conn.Close()
	if err := conn.Publish(context.Background(), "redistest", "").Err(); err != nil {
		t.Fatal(err)
	}
	if n, err := conn.Wait(context.Background(), 1, startTime).Result(); n == 0 || err != nil {
		t.Fatalf("redistest: %d replicas have it all: %v", n, err)
	}
}

// Lead makes the server a master again, with its present data.
func (s *Server) Lead(t testing.TB) {
	t.Helper()
	s.replicaOf(t, "NO", "ONE")
}

func (s *Server) replicaOf(t testing.TB, host, port string) {
	t.Helper()
	client := s.Client()
	defer client.Close()
	if err := client.Do(context.Background(), "REPLICAOF", host, port).Err(); err != nil {
		t.Fatal(err)
	}
}

// StartSentinel runs a Sentinel that monitors a server as the master of this name.
func StartSentinel(t testing.TB, master *Server, name string) *Server {
	t.Helper()
	host, port, _ := net.SplitHostPort(master.Addr)
	file := filepath.Join(t.TempDir(), "sentinel.conf")
	program := lookUp(t)
	for range 5 { // another process may take the port first
		s := &Server{Addr: mcptest.LoopbackAddress(t), program: program, args: []string{file, "--sentinel"}}
		_, own, _ := net.SplitHostPort(s.Addr)
		text := fmt.Sprintf("port %s\nbind 127.0.0.1\nsentinel monitor %s %s %s 1\n", own, name, host, port)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if s.launch(t) == nil {
			t.Cleanup(s.Kill)
			return s
		}
	}
	t.Fatal("redistest: no Sentinel would start")
	return nil
}

// Failover makes a Sentinel promote a replica to master, and returns when the Sentinel
// names it as the master.
func (s *Server) Failover(t testing.TB, name string, to *Server) {
	t.Helper()
	client := s.Client()
	defer client.Close()
	eventually(t, "the Sentinel knows a replica", func(ctx context.Context) bool {
		return client.Do(ctx, "SENTINEL", "FAILOVER", name).Err() == nil
	})
	eventually(t, "failover", func(ctx context.Context) bool {
		at, err := client.Do(ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", name).StringSlice()
		return err == nil && len(at) == 2 && net.JoinHostPort(at[0], at[1]) == to.Addr
	})
}
