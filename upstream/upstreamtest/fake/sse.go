package fake

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

// SSE is a fake on HTTP+SSE.
type SSE struct {
	*Server
	Endpoint string // the first event of a stream; $ID stands for the stream's id
	// Opened begins a stream; it returns false to leave that to the fake. If it returns
	// true, the stream ends.
	Opened func(s *Stream) bool
	// Posted answers a message to a stream; it returns false to leave it to the fake.
	Posted func(s *Stream, w http.ResponseWriter, r *http.Request, m Message) bool

	Mu      sync.Mutex // guards the fields below
	Streams map[string]*Stream
	Count   int
}

// Stream is one open stream.
type Stream struct {
	f   *SSE
	ID  string
	Ctx context.Context
	End context.CancelFunc

	mu   sync.Mutex // guards w
	W    http.ResponseWriter
	over bool
}

// Say writes to the stream as it stands.
func (s *Stream) Say(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.over {
		_, _ = io.WriteString(s.W, text)
		_ = http.NewResponseController(s.W).Flush()
	}
}

// Answer says the result of a request.
func (s *Stream) Answer(m Message, result string) {
	s.Say("event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":" + string(m.ID) + ",\"result\":" + result + "}\n\n")
}

// Welcome sends the endpoint for messages.
func (s *Stream) Welcome() {
	s.Say("event: endpoint\ndata: " + strings.ReplaceAll(s.f.Endpoint, "$ID", s.ID) + "\n\n")
}

// NewSSE makes a fake on HTTP+SSE of one that make makes.
func NewSSE(t *testing.T, make func(*testing.T, bool, Handler) *Server) *SSE {
	t.Helper()
	f := &SSE{Endpoint: "/messages?session=$ID", Streams: map[string]*Stream{}}
	f.Server = make(t, true, func(_ *Server, w http.ResponseWriter, r *http.Request, m Message) bool {
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
	f.Path, f.Version = "/sse", "2024-11-05"
	return f
}

func (f *SSE) stream(w http.ResponseWriter, r *http.Request) {
	s := &Stream{f: f, W: w}
	s.Ctx, s.End = context.WithCancel(r.Context())
	defer s.End()
	f.Mu.Lock()
	f.Count++
	s.ID = fmt.Sprint("s", f.Count)
	f.Streams[s.ID] = s
	f.Mu.Unlock()
	defer f.forget(s)
	w.Header().Set("Content-Type", "text/event-stream")
	if f.Opened == nil || !f.Opened(s) {
		s.Welcome()
		<-s.Ctx.Done()
	}
}

// forget removes a stream; later messages on it are lost.
func (f *SSE) forget(s *Stream) {
	f.Mu.Lock()
	delete(f.Streams, s.ID)
	f.Mu.Unlock()
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
}

func (f *SSE) message(w http.ResponseWriter, r *http.Request, m Message) {
	f.Mu.Lock()
	s := f.Streams[r.URL.Query().Get("session")]
	f.Mu.Unlock()
	switch {
	case s == nil:
		http.Error(w, "Could not find session", http.StatusNotFound)
		return
	case f.Posted != nil && f.Posted(s, w, r, m):
		return
	}
	w.WriteHeader(http.StatusAccepted) // which is sent after what is said here
	switch {
	case m.ID == nil || m.Method == "":
	case m.Method == mcp.MethodInitialize:
		s.Answer(m, `{"protocolVersion":"`+f.Version+`","capabilities":`+f.Caps+
			`,"serverInfo":{"name":"fake","version":"1"}}`)
	default:
		s.Answer(m, OK)
	}
}

// Calls returns how many tool calls came.
func (f *SSE) Calls() int { return len(f.Requests(mcp.MethodToolsCall)) }

// OverSSE configures the transport.
func OverSSE() upstream.Config { return upstream.Config{Transport: "sse"} }
