package mcptest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// Server is an MCP server that follows a script, over Streamable HTTP or HTTP+SSE at its
// URL; ListenLines serves it over stdio as well. Without a script it has no tools, answers
// the handshake, lists, ping and subscriptions as its revision requires, and records
// everything that arrives.
type Server struct {
	// URL is the endpoint.
	URL      string
	revision *wire.Revision
	sse      bool // URL is an HTTP+SSE endpoint
	http     *httptest.Server
	ctx      context.Context
	stop     context.CancelFunc
	lines    sync.WaitGroup // of ListenLines

	mu       Cond // guards the fields below; wakes when received or streams grows
	script   map[string]func(*Call)
	caps     string // a capabilities object
	received []Received
	waiting  map[string]chan Message // questions, by id
	streams  map[*Call]bool
	running  map[string]*Call // by session and request id
	sessions map[string]bool
	subs     map[string]map[string]bool // subscribed URIs, by session
	hellos   map[string]Message         // by session
	pipes    map[string]*pipe
	down     bool
	discards bool // received messages are not recorded
	minted   int
}

// Received is a message that arrived, or a GET or DELETE without one.
type Received struct {
	HTTP    string // the HTTP method
	Header  http.Header
	Session string
	Message
}

// NewServer starts a server of one revision.
func NewServer(revision *wire.Revision) *Server {
	ctx, stop := context.WithCancel(context.Background())
	s := &Server{
		revision: revision,
		ctx:      ctx,
		stop:     stop,
		script:   map[string]func(*Call){},
		caps:     scriptedCaps,
		waiting:  map[string]chan Message{},
		streams:  map[*Call]bool{},
		running:  map[string]*Call{},
		sessions: map[string]bool{},
		subs:     map[string]map[string]bool{},
		hellos:   map[string]Message{},
		pipes:    map[string]*pipe{},
	}
	s.http = httptest.NewServer(s)
	s.URL = s.http.URL + "/mcp"
	return s
}

// NewSSEServer is NewServer over HTTP+SSE.
func NewSSEServer(revision *wire.Revision) *Server {
	s := NewServer(revision)
	s.sse = true
	s.URL = s.http.URL + "/sse"
	return s
}

// Close ends every exchange and waits for its handler.
func (s *Server) Close() {
	s.stop()
	s.http.CloseClientConnections()
	s.http.Close()
	s.lines.Wait()
}

// On sets the handler for requests of a method. The exchange ends when the function
// returns.
func (s *Server) On(method string, do func(*Call)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script[method] = do
}

// Offers adds members to the server's capabilities.
func (s *Server) Offers(caps string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var more map[string]json.RawMessage
	if err := json.Unmarshal([]byte(caps), &more); err != nil {
		panic(err) // the test's own JSON
	}
	added := make(map[string]string, len(more))
	for name, value := range more {
		added[name] = string(value)
	}
	merged, err := merge(s.caps, added)
	if err != nil {
		panic(err)
	}
	s.caps = merged
}

// OffersOnly replaces the server's capabilities.
func (s *Server) OffersOnly(caps string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.caps = caps
}

func (s *Server) offered() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.caps
}

// Tools sets the answer of tools/list to tools of these names without arguments.
func (s *Server) Tools(names ...string) {
	var items []string
	for _, name := range names {
		items = append(items, fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object"}}`, name))
	}
	s.On("tools/list", func(c *Call) { c.Result(`{"tools":[` + strings.Join(items, ",") + `]}`) })
}

// Tool sets the handler for calls of one tool; other tools return an error.
func (s *Server) Tool(name string, do func(*Call)) {
	s.On("tools/call", func(c *Call) {
		var called string
		if c.Param("name", &called); called != name {
			c.Error(-32602, "Unknown tool: "+called)
			return
		}
		do(c)
	})
}

// SetDown makes the server answer everything with 503, or ends that.
func (s *Server) SetDown(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

// Hello returns the initialize request of a session.
func (s *Server) Hello(session string) Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hellos[session]
}

// Forget loses all sessions: their requests are answered with 404.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.sessions)
}

// Discard stops recording: Received and Await see nothing that arrives later.
func (s *Server) Discard() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.discards, s.received = true, nil
}

// Load returns what the server holds: running exchanges, including GET streams; sessions;
// and questions without an answer.
func (s *Server) Load() (running, sessions, asked int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.running), len(s.sessions), len(s.waiting)
}

// AwaitGETStreams waits until there are at least n GET streams.
func (s *Server) AwaitGETStreams(ctx context.Context, n int) error {
	now := 0
	if err := s.mu.Await(ctx, func() bool { now = len(s.streams); return now >= n }); err != nil {
		return fmt.Errorf("%d GET streams, waiting for %d: %w", now, n, err)
	}
	return nil
}

// Push sends a notification on every GET stream and returns their number.
func (s *Server) Push(method, params string) int {
	return s.push(method, params, func(*Call) bool { return true })
}

// push calls fits with mu held, to select the streams.
func (s *Server) push(method, params string, fits func(*Call) bool) int {
	s.mu.Lock()
	calls := make([]*Call, 0, len(s.streams))
	for c := range s.streams {
		if fits(c) {
			calls = append(calls, c)
		}
	}
	s.mu.Unlock()
	for _, c := range calls {
		own := params
		if !s.revision.Stateful {
			meta := fmt.Sprintf(`{%q:%s}`, wire.MetaSubscriptionID, c.ID)
			if merged, err := merge(params, map[string]string{"_meta": meta}); err == nil {
				own = merged
			}
		}
		c.Notify(method, own)
	}
	return len(calls)
}

// Update announces that a resource was updated, on the GET streams of its subscribers, and
// returns their number.
func (s *Server) Update(uri string) int {
	params := fmt.Sprintf(`{"uri":%q}`, uri)
	return s.push("notifications/resources/updated", params, func(c *Call) bool {
		var uris []string
		if c.Param("notifications|resourceSubscriptions", &uris) || !s.revision.Stateful {
			return slices.Contains(uris, uri)
		}
		return s.subs[c.Session][uri]
	})
}

// Received returns what has arrived of a method; "" for everything. GET and DELETE stand
// for requests without a message.
func (s *Server) Received(method string) []Received {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []Received
	for _, r := range s.received {
		if method == "" || r.Method == method || (r.Method == "" && r.HTTP == method) {
			found = append(found, r)
		}
	}
	return found
}

// Await returns the first message that fits, as soon as there is one.
func (s *Server) Await(ctx context.Context, what string, fits func(Received) bool) (found Received, err error) {
	err = s.mu.Await(ctx, func() bool {
		at := slices.IndexFunc(s.received, fits)
		if at >= 0 {
			found = s.received[at]
		}
		return at >= 0
	})
	if err != nil {
		return found, fmt.Errorf("waiting for %s: %w", what, err)
	}
	return found, nil
}

// ServeHTTP handles one HTTP request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.sse {
		s.serveSSE(w, r)
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, 16<<20))
	if err != nil {
		return // the client is gone
	}
	got := Received{HTTP: r.Method, Header: r.Header.Clone(), Session: r.Header.Get("Mcp-Session-Id")}
	if r.Method == http.MethodPost {
		if got.Message, err = parse(body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	do, down := s.record(got)
	s.mu.Lock()
	known := got.Session == "" || s.sessions[got.Session]
	s.mu.Unlock()
	switch {
	case down:
		http.Error(w, "down", http.StatusServiceUnavailable)
	case s.revision.Stateful && !known:
		http.Error(w, "unknown session", http.StatusNotFound)
	case r.Method == http.MethodDelete:
		s.mu.Lock()
		delete(s.sessions, got.Session)
		delete(s.subs, got.Session)
		s.mu.Unlock()
		w.WriteHeader(http.StatusOK)
	case r.Method == http.MethodGet && !s.revision.Stateful:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case r.Method == http.MethodGet:
		s.serve(w, r, got, (*Call).stand)
	case got.IsResponse():
		s.answered(got.Message)
		w.WriteHeader(http.StatusAccepted)
	case got.ID == nil:
		s.notified(got.Session, got)
		w.WriteHeader(http.StatusAccepted)
	default:
		s.serve(w, r, got, do)
	}
}

// record records a message and returns its handler.
func (s *Server) record(got Received) (do func(*Call), down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.discards {
		s.received = append(s.received, got)
		s.mu.Wake()
	}
	s.subscribe(got)
	if do = s.script[got.Method]; do == nil {
		do = s.usual
	}
	return do, s.down
}

// subscribe records a subscription. The caller holds mu.
func (s *Server) subscribe(got Received) {
	uri := ""
	switch got.Method {
	case "resources/subscribe":
		if s.subs[got.Session] == nil {
			s.subs[got.Session] = map[string]bool{}
		}
		got.Param("uri", &uri)
		s.subs[got.Session][uri] = true
	case "resources/unsubscribe":
		got.Param("uri", &uri)
		delete(s.subs[got.Session], uri)
	}
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request, got Received, do func(*Call)) {
	s.run(r.Context(), &Call{Received: got, server: s, w: w, key: got.Session + " " + string(got.ID)}, do)
}

// run works on a call until its function returns.
func (s *Server) run(ctx context.Context, c *Call, do func(*Call)) {
	s.enter(ctx, c)
	s.work(c, do)
}

// enter registers a call, so that it can be cancelled.
func (s *Server) enter(ctx context.Context, c *Call) {
	c.ctx, c.cancel = context.WithCancel(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running[c.key] = c
}

// work works on a registered call.
func (s *Server) work(c *Call, do func(*Call)) {
	defer c.cancel()
	defer context.AfterFunc(s.ctx, c.cancel)()
	defer func() {
		s.mu.Lock()
		delete(s.running, c.key)
		s.mu.Unlock()
		c.mu.Lock()
		c.over = true
		c.mu.Unlock()
	}()
	do(c)
}

// notified ends the call that a cancellation names.
func (s *Server) notified(session string, got Received) {
	var id json.RawMessage
	if got.Method != "notifications/cancelled" || !got.Param("requestId", &id) {
		return
	}
	s.mu.Lock()
	c := s.running[session+" "+string(id)]
	s.mu.Unlock()
	if c != nil {
		c.cancel()
	}
}

func (s *Server) answered(m Message) {
	s.mu.Lock()
	answer := s.waiting[string(m.ID)]
	delete(s.waiting, string(m.ID))
	s.mu.Unlock()
	if answer != nil {
		answer <- m
	}
}

func (s *Server) mint() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.minted++
	return strconv.Itoa(s.minted)
}
