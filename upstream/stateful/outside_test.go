package stateful_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/upstream"
	"github.com/gatehouse-mcp/gatehouse/upstream/upstreamtest/fake"
)

// TestEventsWithoutAnEndAreCounted: messages outside of calls count against the memory of
// their user and of the server. A stream that exceeds it is ended; calls continue.
func TestEventsWithoutAnEndAreCounted(t *testing.T) {
	mcptest.Long(t)
	t.Parallel()
	const (
		most  = 8 << 20
		piece = 64 << 10
		large = 256 << 10
	)
	over := make(chan struct{}, 1) // receives a value for each stream that was ended
	var memory *mcp.Memory
	var seen atomic.Int64 // the most that was held
	look := func() {
		for held := memory.Held(); ; {
			before := seen.Load()
			if held <= before || seen.CompareAndSwap(before, held) {
				return
			}
		}
	}
	endless := func(write func(string) error) {
		text := strings.Repeat("x", piece)
		for err := write(`data: "`); err == nil; err = write(text) {
			look()
		}
		select {
		case over <- struct{}{}:
		default:
		}
	}
	streaming := func(t *testing.T) *fake.Server {
		return fake.New(t, true, func(_ *fake.Server, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
			switch {
			case r.Method == http.MethodGet:
				endless(func(text string) error {
					w.Header().Set("Content-Type", "text/event-stream")
					_, err := fmt.Fprint(w, text)
					_ = http.NewResponseController(w).Flush()
					return err
				})
			case m.Method == mcp.MethodToolsCall && m.Params != nil && strings.Contains(string(m.Params), "large"):
				fake.Result(w, m, `{"content":[{"type":"text","text":"`+strings.Repeat("y", large)+`"}]}`)
			default:
				return false
			}
			return true
		})
	}
	f := streaming(t)
	memory = mcp.NewMemory(most)
	cfg := upstream.Config{Name: "fake", URL: f.URL}
	transport := upstream.NewTransport(nil, cfg)
	t.Cleanup(transport.CloseIdleConnections)
	u, err := upstream.New(cfg, upstream.Deps{Log: slog.New(slog.DiscardHandler), HTTP: transport, Memory: memory})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { fake.Close(t, u) })
	for i := range 10 {
		c := as("alice", fmt.Sprint(i), false)
		c.Caps = fake.Asked("a").Caps // a session that can be asked has a GET stream
		fake.WantOK(t, u, c)
	}
	for range 20 {
		select {
		case <-over:
		case <-time.After(fake.Patience):
			t.Fatal("no stream is ended")
		}
	}
	if got := seen.Load(); got > most/2+2*piece || got < large {
		t.Errorf("%d bytes are held, of %d of which a server may hold half outside of calls", got, most)
	}
	c := fake.Tool("large")
	c.Caller, c.Session = as("bob", "", false).Caller, "bob"
	room := memory.Room(c.Caller)
	c.Room = &room
	if reply := fake.MustDo(t, u, c); len(reply.Result) < large {
		t.Errorf("bob's result has %d bytes", len(reply.Result))
	}
	room.Free()
	closing, cancel := context.WithTimeout(t.Context(), fake.Patience)
	defer cancel()
	if err := u.Close(closing); err != nil {
		t.Error(err)
	}
	if memory.Held() != 0 {
		t.Errorf("%d bytes are held after the end", memory.Held())
	}
}

// TestPipesAreCounted checks the same for processes and for servers on HTTP+SSE, all of
// whose messages come on one pipe. The call there gets an error that says so.
func TestPipesAreCounted(t *testing.T) {
	t.Parallel()
	const most = 4 << 20
	for name, server := range map[string]func(t *testing.T) upstream.Config{
		"HTTP+SSE": func(t *testing.T) upstream.Config {
			f := fake.NewSSE(t, fake.New)
			f.Posted = func(s *fake.Stream, w http.ResponseWriter, _ *http.Request, m fake.Message) bool {
				if m.Method == mcp.MethodToolsCall {
					w.WriteHeader(http.StatusAccepted)
					s.Answer(m, `{"content":[{"type":"text","text":"`+strings.Repeat("x", most)+`"}]}`)
				}
				return m.Method == mcp.MethodToolsCall
			}
			return upstream.Config{URL: f.URL + f.Path, Transport: "sse"}
		},
		"a process": func(t *testing.T) upstream.Config {
			cfg := fake.Command(t, "sound")
			cfg.Limits.ResultBytes = 32 << 20
			return cfg
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := server(t)
			cfg.Name = "fake"
			memory := mcp.NewMemory(most)
			transport := upstream.NewTransport(nil, cfg)
			t.Cleanup(transport.CloseIdleConnections)
			u, err := upstream.New(cfg, upstream.Deps{Log: slog.New(slog.DiscardHandler), HTTP: transport, Memory: memory})
			if err != nil {
				t.Fatal(err)
			}
			c := fake.Tool("long answer")
			c.Caller = as("alice", "", false).Caller
			_, err = fake.Do(t, u, c)
			fake.WantError(t, err, mcp.CodeOverloaded, mcp.ExecutedUnknown)
			fake.Close(t, u)
			if memory.Held() != 0 {
				t.Errorf("%d bytes are held after the end", memory.Held())
			}
		})
	}
}
