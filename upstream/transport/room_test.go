package transport_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream"
	"github.com/gatehouse-mcp/gatehouse/upstream/upstreamtest/fake"
)

// TestLargeResults: a large result is taken from its call's memory, over every
// transport, and refused if there is no room.
func TestLargeResults(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	large := `{"content":[{"type":"text","text":"` + strings.Repeat("x", size) + `"}]}`
	answer := func(write func(w http.ResponseWriter, m fake.Message)) fake.Handler {
		return func(_ *fake.Server, w http.ResponseWriter, _ *http.Request, m fake.Message) bool {
			if m.Method == mcp.MethodToolsCall {
				write(w, m)
			}
			return m.Method == mcp.MethodToolsCall
		}
	}
	known := answer(func(w http.ResponseWriter, m fake.Message) {
		w.Header().Set("Content-Length", fmt.Sprint(len(`{"jsonrpc":"2.0","id":,"result":}`)+len(m.ID)+len(large)))
		fake.Result(w, m, large)
	})
	chunked := answer(func(w http.ResponseWriter, m fake.Message) {
		w.Header().Set("Content-Type", "application/json")
		_ = http.NewResponseController(w).Flush()
		fake.Result(w, m, large)
	})
	onAStream := answer(func(w http.ResponseWriter, m fake.Message) {
		for range 20 { // in all more than fits, but one after the other
			fake.Events(w, `data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"`+
				strings.Repeat("y", size/2)+`"}}`+"\n\n")
		}
		fake.Events(w, fake.Event(m, "", large))
	})
	for _, tt := range []struct {
		name   string
		server func(t *testing.T) *fake.Upstream
	}{
		{"stateless, JSON",
			func(t *testing.T) *fake.Upstream { return fake.New(t, false, known).Upstream(t, upstream.Config{}) }},
		{"stateless, JSON of unknown length",
			func(t *testing.T) *fake.Upstream {
				return fake.New(t, false, chunked).Upstream(t, upstream.Config{})
			}},
		{"stateless, a stream",
			func(t *testing.T) *fake.Upstream {
				return fake.New(t, false, onAStream).Upstream(t, upstream.Config{})
			}},
		{"stateful, JSON",
			func(t *testing.T) *fake.Upstream { return fake.New(t, true, known).Upstream(t, upstream.Config{}) }},
		{"stateful, a stream",
			func(t *testing.T) *fake.Upstream {
				return fake.New(t, true, onAStream).Upstream(t, upstream.Config{})
			}},
		{"the standard client", func(t *testing.T) *fake.Upstream {
			return fake.New(t, false, chunked).Upstream(t, upstream.Config{HTTPClient: "standard"})
		}},
		{"HTTP+SSE", func(t *testing.T) *fake.Upstream {
			f := fake.NewSSE(t, fake.New)
			f.Posted = func(s *fake.Stream, w http.ResponseWriter, _ *http.Request, m fake.Message) bool {
				if m.Method == mcp.MethodToolsCall {
					w.WriteHeader(http.StatusAccepted)
					s.Answer(m, large)
				}
				return m.Method == mcp.MethodToolsCall
			}
			return f.Upstream(t, upstream.Config{Transport: "sse"})
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			u := tt.server(t)
			call := func(max int64) (*mcp.Memory, *mcp.Room, error) {
				memory := mcp.NewMemory(max)
				room := memory.Room(mcp.Caller{})
				c := fake.Tool("large")
				c.Room = &room
				reply, err := fake.Do(t, u, c)
				if err == nil && len(reply.Result) != len(large) {
					t.Errorf("the result has %d bytes", len(reply.Result))
				}
				return memory, &room, err
			}
			memory, room, err := call(size / 2)
			e := fake.WantError(t, err, mcp.CodeOverloaded, mcp.ExecutedUnknown)
			if !strings.Contains(e.Message, "upstream fake") {
				t.Errorf("the message is %q", e.Message)
			}
			if memory.Held() > size/2 {
				t.Errorf("%d bytes are held", memory.Held())
			}
			room.Free()
			memory, room, err = call(4 * size)
			if err != nil || memory.Held() < size {
				t.Errorf("with room for it: %v; %d bytes are held", err, memory.Held())
			}
			room.Free()
			if memory.Held() != 0 {
				t.Errorf("%d bytes are left", memory.Held())
			}
			if _, err := u.Handle(context.WithoutCancel(t.Context()), fake.Tool("large")); err != nil {
				t.Errorf("a call that is not counted: %v", err)
			}
		})
	}
}
