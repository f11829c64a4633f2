package main

import (
	"context"
	"fmt"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/interop/rig"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// storeHost is the address of Redis. No outgoing connection uses it.
const storeHost = "127.0.0.8"

// store is a real Redis.
type store struct {
	address string
	process *rig.Process
}

// startStore starts a Redis that saves nothing to disk.
func startStore(ctx context.Context) (s *store, err error) {
	s = &store{}
	if s.address, err = mcptest.FreeAddress(storeHost); err != nil {
		return nil, err
	}
	return s, s.start(ctx)
}

// start starts an empty Redis and waits until it takes connections.
func (s *store) start(ctx context.Context) (err error) {
	s.process, err = rig.StartRedis(ctx, s.address)
	return err
}

// ping sends PING and waits for the answer.
func ping(conn net.Conn) error {
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return err
	}
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return err
	}
	answer := make([]byte, 64)
	n, err := conn.Read(answer)
	if err == nil && !strings.HasPrefix(string(answer[:n]), "+PONG") {
		err = fmt.Errorf("it says %q", answer[:n])
	}
	return err
}

func (s *store) signal(sig syscall.Signal) error { return s.process.Signal(sig) }

// kill ends the process as a crash would.
func (s *store) kill() error {
	if err := s.signal(syscall.SIGKILL); err != nil {
		return err
	}
	return s.process.Stop()
}
