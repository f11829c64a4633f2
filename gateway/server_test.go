package gateway

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener without a network, for a bubble of synctest.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.closed); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

func TestAnswerThatNobodyReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := slog.New(slog.DiscardHandler)
		server := newServer(routes(anybody(t), log, place{path: "/mcp", behind: alone(http.NotFoundHandler())}), log)
		listener := &pipes{make(chan net.Conn), make(chan struct{})}
		served := make(chan error, 1)
		go func() { served <- server.Serve(listener) }()
		client, conn := net.Pipe() // it buffers no byte
		listener.conns <- conn
		fmt.Fprint(client, "GET /elsewhere HTTP/1.1\r\nHost: localhost\r\n\r\n")
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		if err := server.Shutdown(ctx); err != nil {
			t.Errorf("stopping: %v", err)
		}
		client.Close()
		<-served
	})
}

func TestBodyThatNobodyReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := slog.New(slog.DiscardHandler)
		server := newServer(routes(anybody(t), log, place{path: "/mcp", behind: alone(http.NotFoundHandler())}), log)
		listener := &pipes{make(chan net.Conn), make(chan struct{})}
		served := make(chan error, 1)
		go func() { served <- server.Serve(listener) }()
		for _, target := range []string{"POST /elsewhere", "GET /elsewhere", "OPTIONS *"} {
			client, conn := net.Pipe()
			listener.conns <- conn
			// If the read never ended otherwise, this would fail the test.
			_ = client.SetDeadline(time.Now().Add(time.Hour))
			begun := time.Now()
			fmt.Fprintf(client, "%s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n", target)
			text, err := io.ReadAll(client)
			if err != nil || !strings.Contains(string(text), "Connection: close") || time.Since(begun) > time.Minute {
				t.Errorf("%s: after %s %v: %s", target, time.Since(begun), err, text)
			}
			client.Close()
		}
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		<-served
	})
}
