package upstream_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// sseFake is a fake on HTTP+SSE.
type sseFake struct {
	*fake
	endpoint string // the first event of a stream; $ID stands for the stream's id
	// opened begins a stream; it returns false to leave that to the fake. If it returns
	// true, the stream ends.
	opened func(s *sseStream) bool
	// posted answers a message to a stream; it returns false to leave it to the fake.
	posted func(s *sseStream, w http.ResponseWriter, r *http.Request, m rpc) bool

	mu      sync.Mutex // guards the fields below
	streams map[string]*sseStream
	count   int
}

// sseStream is one open stream.
type sseStream struct {
	f   *sseFake
	id  string
	ctx context.Context
	end context.CancelFunc

	mu   sync.Mutex // guards w
	w    http.ResponseWriter
	over bool
}

// say writes to the stream as it stands.
func (s *sseStream) say(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.over {
		_, _ = io.WriteString(s.w, text)
		_ = http.NewResponseController(s.w).Flush()
	}
}

// answer says the result of a request.
func (s *sseStream) answer(m rpc, result string) {
	s.say("event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":" + string(m.ID) + ",\"result\":" + result + "}\n\n")
}

// welcome sends the endpoint for messages.
func (s *sseStream) welcome() {
	s.say("event: endpoint\ndata: " + strings.ReplaceAll(s.f.endpoint, "$ID", s.id) + "\n\n")
}

func newSSEFake(t *testing.T, make func(*testing.T, bool,
	func(*fake, http.ResponseWriter, *http.Request, rpc) bool) *fake) *sseFake {
	t.Helper()
	f := &sseFake{endpoint: "/messages?session=$ID", streams: map[string]*sseStream{}}
	f.fake = make(t, true, func(_ *fake, w http.ResponseWriter, r *http.Request, m rpc) bool {
		switch {
		case r.Method == http.MethodGet && r.URL.Path == "/sse":
			f.stream(w, r)
		case r.Method == http.MethodPost && r.URL.Path == "/messages":
			f.message(w, r, m)
		default:
			w.WriteHeader(http.StatusMethodNotAllowed)
		}
		return true
	})
	f.path, f.version = "/sse", "2024-11-05"
	return f
}

func (f *sseFake) stream(w http.ResponseWriter, r *http.Request) {
	s := &sseStream{f: f, w: w}
	s.ctx, s.end = context.WithCancel(r.Context())
	defer s.end()
	f.mu.Lock()
	f.count++
	s.id = fmt.Sprint("s", f.count)
	f.streams[s.id] = s
	f.mu.Unlock()
	defer f.forget(s)
	w.Header().Set("Content-Type", "text/event-stream")
	if f.opened == nil || !f.opened(s) {
		s.welcome()
		<-s.ctx.Done()
	}
}

// forget removes a stream; later messages on it are lost.
func (f *sseFake) forget(s *sseStream) {
	f.mu.Lock()
	delete(f.streams, s.id)
	f.mu.Unlock()
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
}

func (f *sseFake) message(w http.ResponseWriter, r *http.Request, m rpc) {
	f.mu.Lock()
	s := f.streams[r.URL.Query().Get("session")]
	f.mu.Unlock()
	switch {
	case s == nil:
		http.Error(w, "Could not find session", http.StatusNotFound)
		return
	case f.posted != nil && f.posted(s, w, r, m):
		return
	}
	w.WriteHeader(http.StatusAccepted) // which is sent after what is said here
	switch {
	case m.ID == nil || m.Method == "":
	case m.Method == mcp.MethodInitialize:
		s.answer(m, `{"protocolVersion":"`+f.version+`","capabilities":`+f.caps+
			`,"serverInfo":{"name":"fake","version":"1"}}`)
	default:
		s.answer(m, okResult)
	}
}

// calls returns how many tool calls came.
func (f *sseFake) calls() int { return len(f.requests(mcp.MethodToolsCall)) }

func overSSE() upstream.Config { return upstream.Config{Transport: "sse"} }
