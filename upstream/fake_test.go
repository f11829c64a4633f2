package upstream_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// patience bounds every wait. It is long, because the machine may be busy.
const patience = time.Minute

// fake is a server on HTTP whose every answer a test can write. It answers the rest itself,
// as a correct server of its era does.
type fake struct {
	*httptest.Server
	network  *mcptest.Network // nil for the real one
	dialled  atomic.Int32     // connections to it
	path     string           // of its endpoint
	stateful bool
	version  string // that initialize answers
	caps     string
	session  string
	// handle answers a request; it returns false to leave that to the fake.
	handle func(f *fake, w http.ResponseWriter, r *http.Request, m rpc) bool

	mu   sync.Mutex // guards seen
	seen []seen
	news chan struct{} // closed with the next request
}

type rpc struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// seen is one request as the fake received it.
type seen struct {
	verb   string
	target string // path and query
	header http.Header
	rpc
}

func newFake(t *testing.T, stateful bool, handle func(f *fake, w http.ResponseWriter, r *http.Request,
	m rpc) bool) *fake {
	t.Helper()
	f := makeFake(stateful, handle)
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	return f
}

// newBubbleFake makes a fake in a bubble of synctest, for times that a test could not wait
// for, or not exactly. Only its own start method connects to it.
func newBubbleFake(t *testing.T, stateful bool,
	handle func(f *fake, w http.ResponseWriter, r *http.Request, m rpc) bool) *fake {
	t.Helper()
	f := makeFake(stateful, handle)
	f.network = mcptest.NewNetwork()
	f.Server = &httptest.Server{Listener: f.network, Config: &http.Server{Handler: f}}
	f.Start()
	t.Cleanup(f.Close)
	return f
}

func makeFake(stateful bool, handle func(f *fake, w http.ResponseWriter, r *http.Request, m rpc) bool) *fake {
	return &fake{
		stateful: stateful, version: "2025-11-25", session: "s1", handle: handle, news: make(chan struct{}),
		caps: `{"tools":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"logging":{}}`,
	}
}

// start makes an Upstream for the fake.
func (f *fake) start(t *testing.T, cfg upstream.Config) *upstream.Upstream {
	t.Helper()
	cfg.URL = f.URL + f.path
	if f.network == nil {
		return startOver(t, cfg, upstream.NewTransport(nil, cfg))
	}
	// The standard client, because our own only uses the system's connections.
	return startOver(t, cfg, &http.Transport{
		MaxIdleConnsPerHost: 100,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			f.dialled.Add(1)
			return f.network.DialContext(ctx, network, address)
		},
	})
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // missing data shows below
	var m rpc
	_ = json.Unmarshal(body, &m)
	f.mu.Lock()
	f.seen = append(f.seen, seen{verb: r.Method, target: r.URL.RequestURI(), header: r.Header.Clone(), rpc: m})
	close(f.news)
	f.news = make(chan struct{})
	f.mu.Unlock()
	if f.handle != nil && f.handle(f, w, r, m) {
		return
	}
	switch {
	case r.Method == http.MethodGet:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case r.Method == http.MethodDelete:
	case m.ID == nil || m.Method == "":
		w.WriteHeader(http.StatusAccepted)
	case f.stateful && m.Method == mcp.MethodDiscover:
		w.WriteHeader(http.StatusBadRequest)
	case m.Method == mcp.MethodInitialize:
		w.Header().Set("Mcp-Session-Id", f.session)
		result(w, m, `{"protocolVersion":"`+f.version+`","capabilities":`+f.caps+
			`,"serverInfo":{"name":"fake","version":"1"}}`)
	case m.Method == mcp.MethodDiscover:
		result(w, m, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":`+f.caps+`}`)
	default:
		result(w, m, `{"content":[{"type":"text","text":"ok"}]}`)
	}
}

// result answers as JSON, event as one event of a stream.
func result(w http.ResponseWriter, m rpc, result string) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

func failure(w http.ResponseWriter, status int, m rpc, e string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":%s}`, m.ID, e)
}

func raw(w http.ResponseWriter, contentType, body string) {
	w.Header().Set("Content-Type", contentType)
	_, _ = io.WriteString(w, body)
}

func events(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, text)
	_ = http.NewResponseController(w).Flush()
}

func event(m rpc, id, result string) string {
	head := ""
	if id != "" {
		head = "id: " + id + "\n"
	}
	return head + `data: {"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":` + result + "}\n\n"
}

const okResult = `{"content":[{"type":"text","text":"ok"}]}`

// requests returns the requests seen of a method ("" for all), or of an HTTP verb.
func (f *fake) requests(method string) []seen {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []seen
	for _, s := range f.seen {
		if method == "" || s.Method == method || s.verb == method {
			out = append(out, s)
		}
	}
	return out
}

// await waits until n requests of a method have been seen.
func (f *fake) await(t *testing.T, method string, n int) []seen {
	t.Helper()
	var got []seen
	f.until(t, fmt.Sprintf("%d requests %s", n, method), func() bool {
		got = f.requests(method)
		return len(got) >= n
	})
	return got
}

// awaitAnswer waits for the answer to the fake's own request of this id.
func (f *fake) awaitAnswer(t *testing.T, id string) (answer string) {
	t.Helper()
	f.until(t, "an answer to "+id, func() bool {
		for _, s := range f.requests("") {
			if s.verb == http.MethodPost && s.Method == "" && string(s.ID) == `"`+id+`"` {
				answer = string(s.Result) + string(s.Error)
				return true
			}
		}
		return false
	})
	return answer
}

// until waits until the condition holds; it checks after every request.
func (f *fake) until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	timeout := time.After(patience)
	for {
		f.mu.Lock()
		news := f.news
		f.mu.Unlock()
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

// start makes an Upstream for the fake, or for cfg if that says how to connect.
func start(t *testing.T, cfg upstream.Config) *upstream.Upstream {
	t.Helper()
	return startOver(t, cfg, upstream.NewTransport(nil, cfg))
}

func startOver(t *testing.T, cfg upstream.Config, transport interface {
	http.RoundTripper
	CloseIdleConnections()
}) *upstream.Upstream {
	t.Helper()
	if cfg.Name == "" {
		cfg.Name = "fake"
	}
	t.Cleanup(transport.CloseIdleConnections)
	u, err := withHomes(t, cfg, upstream.Deps{Log: slog.New(slog.DiscardHandler), HTTP: transport})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shut(t, u) })
	return u
}

func shut(t *testing.T, u *upstream.Upstream) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := u.Close(ctx); err != nil {
		t.Error(err)
	}
}

// tool makes a tool call by a client with a session that cannot be asked.
func tool(name string) *mcp.Call {
	return &mcp.Call{
		Method: mcp.MethodToolsCall, Name: name, Session: "user:session",
		Params: mcp.Raw(`{"name":"` + name + `","arguments":{}}`), Notify: func(mcp.Event) {},
	}
}

// asked makes a call by a client that supports every kind of question.
func asked(name string) *mcp.Call {
	c := tool(name)
	c.Caps = mcp.Raw(`{"roots":{"listChanged":true},"sampling":{},"elicitation":{"form":{},"url":{}}}`)
	return c
}

func do(t *testing.T, u *upstream.Upstream, c *mcp.Call) (*mcp.Reply, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return u.Handle(ctx, c)
}

func mustDo(t *testing.T, u *upstream.Upstream, c *mcp.Call) *mcp.Reply {
	t.Helper()
	reply, err := do(t, u, c)
	if err != nil {
		t.Fatal(err)
	}
	return reply
}

func wantOK(t *testing.T, u *upstream.Upstream, c *mcp.Call) {
	t.Helper()
	if reply := mustDo(t, u, c); string(reply.Result) != okResult {
		t.Errorf("result %s", reply.Result)
	}
}

func wantError(t *testing.T, err error, code int, executed mcp.Executed) *mcp.Error {
	t.Helper()
	e, ok := errors.AsType[*mcp.Error](err)
	if !ok {
		t.Fatalf("error %v, want an mcp.Error of code %d", err, code)
	}
	got, _ := e.Data.Member("executed")
	if e.Code != code || got.Text() != string(executed) {
		t.Errorf("error %v executed %q, want code %d executed %q", e, got.Text(), code, executed)
	}
	if strings.Contains(e.Message, "127.0.0.1") {
		t.Errorf("the message shows an address: %s", e.Message)
	}
	return e
}

func list(method string) *mcp.Call { return &mcp.Call{Method: method, Notify: func(mcp.Event) {}} }
