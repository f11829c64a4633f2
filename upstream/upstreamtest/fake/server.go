package fake

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// Patience bounds every wait. It is long, because the machine may be busy.
const Patience = time.Minute

// Handler answers a request; it returns false to leave that to the fake.
type Handler func(f *Server, w http.ResponseWriter, r *http.Request, m Message) bool

// Server is a server on HTTP; a test can write each of its answers. It answers the rest itself, as
// a correct server of its era does.
type Server struct {
	*httptest.Server
	Network  *mcptest.Network // nil for the real one
	Dialled  atomic.Int32     // connections to it
	Path     string           // of its endpoint
	Stateful bool
	Version  string // that initialize answers
	Caps     string
	Session  string
	Handle   Handler

	Mu   sync.Mutex // guards the fields below, and what a test likes
	seen []Seen
	news chan struct{} // closed with the next request
}

// Message is what a client sends: a request, a notification or an answer.
type Message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// Seen is one request as the fake received it.
type Seen struct {
	Verb   string
	Target string // path and query
	Header http.Header
	Message
}

// New starts a fake of an era; handle may be nil.
func New(t *testing.T, stateful bool, handle Handler) *Server {
	t.Helper()
	f := NewUnstarted(stateful, handle)
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	return f
}

// NewBubble makes a fake in a bubble of synctest, for times that a test could not wait
// for, or not exactly. Only its own method Upstream connects to it.
func NewBubble(t *testing.T, stateful bool, handle Handler) *Server {
	t.Helper()
	f := NewUnstarted(stateful, handle)
	f.Network = mcptest.NewNetwork()
	f.Server = &httptest.Server{Listener: f.Network, Config: &http.Server{Handler: f}}
	f.Start()
	t.Cleanup(f.Close)
	return f
}

// NewUnstarted makes a fake for a Server that the test makes.
func NewUnstarted(stateful bool, handle Handler) *Server {
	return &Server{
		Stateful: stateful, Version: "2025-11-25", Session: "s1", Handle: handle, news: make(chan struct{}),
		Caps: `{"tools":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"logging":{}}`,
	}
}

// Upstream makes an Upstream for the fake.
func (f *Server) Upstream(t *testing.T, cfg upstream.Config) *Upstream {
	t.Helper()
	cfg.URL = f.URL + f.Path
	if f.Network == nil {
		return StartOver(t, cfg, upstream.NewTransport(nil, cfg))
	}
	// The standard client, because our own only uses the system's connections.
	return StartOver(t, cfg, &http.Transport{
		MaxIdleConnsPerHost: 100,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			f.Dialled.Add(1)
			return f.Network.DialContext(ctx, network, address)
		},
	})
}

func (f *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // missing data shows below
	var m Message
	_ = json.Unmarshal(body, &m)
	f.Mu.Lock()
	f.seen = append(f.seen, Seen{Verb: r.Method, Target: r.URL.RequestURI(), Header: r.Header.Clone(), Message: m})
	close(f.news)
	f.news = make(chan struct{})
	f.Mu.Unlock()
	if f.Handle != nil && f.Handle(f, w, r, m) {
		return
	}
	switch {
	case r.Method == http.MethodGet:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case r.Method == http.MethodDelete:
	case m.ID == nil || m.Method == "":
		w.WriteHeader(http.StatusAccepted)
	case f.Stateful && m.Method == mcp.MethodDiscover:
		w.WriteHeader(http.StatusBadRequest)
	case m.Method == mcp.MethodInitialize:
		w.Header().Set("Mcp-Session-Id", f.Session)
		Result(w, m, `{"protocolVersion":"`+f.Version+`","capabilities":`+f.Caps+
			`,"serverInfo":{"name":"fake","version":"1"}}`)
	case m.Method == mcp.MethodDiscover:
		Result(w, m, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":`+f.Caps+`}`)
	default:
		Result(w, m, `{"content":[{"type":"text","text":"ok"}]}`)
	}
}

// Result answers as JSON.
func Result(w http.ResponseWriter, m Message, result string) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

// Failure answers with a status and an error.
func Failure(w http.ResponseWriter, status int, m Message, e string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":%s}`, m.ID, e)
}

// Raw answers with a body of any type.
func Raw(w http.ResponseWriter, contentType, body string) {
	w.Header().Set("Content-Type", contentType)
	_, _ = io.WriteString(w, body)
}

// Events writes events as they stand.
func Events(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, text)
	_ = http.NewResponseController(w).Flush()
}

// Event is the event with the result of a request.
func Event(m Message, id, result string) string {
	head := ""
	if id != "" {
		head = "id: " + id + "\n"
	}
	return head + `data: {"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":` + result + "}\n\n"
}

// OK is the result of every call that a test does not handle.
const OK = `{"content":[{"type":"text","text":"ok"}]}`

// Requests returns the requests seen of a method ("" for all), or of an HTTP verb.
func (f *Server) Requests(method string) []Seen {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	var out []Seen
	for _, s := range f.seen {
		if method == "" || s.Method == method || s.Verb == method {
			out = append(out, s)
		}
	}
	return out
}

// Await waits until n requests of a method have been seen.
func (f *Server) Await(t *testing.T, method string, n int) []Seen {
	t.Helper()
	var got []Seen
	f.until(t, fmt.Sprintf("%d requests %s", n, method), func() bool {
		got = f.Requests(method)
		return len(got) >= n
	})
	return got
}

// AwaitAnswer waits for the answer to the fake's own request of this id.
func (f *Server) AwaitAnswer(t *testing.T, id string) (answer string) {
	t.Helper()
	f.until(t, "an answer to "+id, func() bool {
		for _, s := range f.Requests("") {
			if s.Verb == http.MethodPost && s.Method == "" && string(s.ID) == `"`+id+`"` {
				answer = string(s.Result) + string(s.Error)
				return true
			}
		}
		return false
	})
	return answer
}

// News returns a channel that is closed with the next request.
func (f *Server) News() <-chan struct{} {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	return f.news
}

// until waits until the condition holds; it checks after every request.
func (f *Server) until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	timeout := time.After(Patience)
	for {
		news := f.News()
		if holds() {
			return
		}
		select {
		case <-news:
		case <-timeout:
			t.Fatalf("the server never saw %s", what)
		}
	}
}
