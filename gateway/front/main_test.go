package front

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/exchange"
	"github.com/gatehouse-mcp/gatehouse/internal/cluster"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/home"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
	"github.com/gatehouse-mcp/gatehouse/session"
)

func TestMain(m *testing.M) { mcptest.VerifyMain(m) }

// tooLong bounds each wait for what must come. It is long, since the machine may be busy with
// other things.
const tooLong = time.Minute

// script is the handler below the front. The name of the called tool says what it does.
type script struct {
	mu        sync.Mutex
	calls     []mcp.Call
	listening map[*mcp.Call]struct{}
	changed   chan struct{} // closed when listening changes

	started chan *mcp.Call // receives each call of the tool "slow"
	release chan struct{}  // lets one continue
	ended   chan error     // receives how it ended
	dropped chan string    // receives why a question of the tool "ask-here" was dropped

	tools *mcp.List
}

func newScript() *script {
	next := "2"
	return &script{
		listening: make(map[*mcp.Call]struct{}),
		changed:   make(chan struct{}),
		started:   make(chan *mcp.Call, 16),
		release:   make(chan struct{}, 16),
		ended:     make(chan error, 16),
		dropped:   make(chan string, 16),
		tools: &mcp.List{Next: &next, Items: []mcp.Item{
			{Name: "echo", Raw: mcp.Raw(`{"name":"echo","title":"Echo","inputSchema":{"type":"object"}}`)},
			{Name: "slow", Raw: mcp.Raw(`{"name":"slow","inputSchema":{"type":"object","x":1.0}}`)},
		}},
	}
}

const scriptCaps = `{"tools":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"prompts":{},"completions":{},"logging":{}}`

func (s *script) Handle(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
	s.mu.Lock()
	s.calls = append(s.calls, *c)
	s.mu.Unlock()
	switch c.Method {
	case mcp.MethodDiscover:
		return result(`{"capabilities":` + scriptCaps +
			`,"instructions":"Be kind.","serverInfo":{"name":"x","version":"0"}}`), nil
	case mcp.MethodToolsList:
		cursor, given := c.Params.Member("cursor")
		if given && cursor.Text() != "2" {
			return nil, mcp.Errorf(failure.InvalidParams, "Invalid cursor")
		}
		if given {
			return &mcp.Reply{List: &mcp.List{Private: true, Expires: time.Now().Add(-time.Minute)}}, nil
		}
		return &mcp.Reply{List: s.tools}, nil
	case mcp.MethodToolsCall:
		return s.tool(ctx, c)
	case mcp.MethodResourcesRead:
		switch c.Name {
		case "doc://1":
			return result(`{"contents":[{"uri":"doc://1","text":"one"}]}`), nil
		case "doc://hints":
			return result(`{"ttlMs":500,"cacheScope":"public","contents":[]}`), nil
		case "doc://asks":
			return result(`{"requestState":"s","contents":[],"inputRequests":{"q":{"method":"roots/list"}}}`), nil
		case "doc://bad-hints":
			return result(`{"ttlMs":-1.5,"contents":[],"cacheScope":"shared"}`), nil
		}
		return nil, mcp.ErrUnknown(c.Method, c.Name)
	case mcp.MethodComplete:
		if c.Name == "ask" {
			return s.ask(c)
		}
		return result(`{"completion":{"values":["` + c.Name + `"]}}`), nil
	case mcp.MethodListen:
		return s.listen(ctx, c)
	}
	return nil, mcp.ErrMethod(c.Method)
}

func (s *script) tool(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
	switch c.Name {
	case "echo":
		arguments, _ := c.Params.Member("arguments")
		return result(fmt.Sprintf(`{"content":[],"structuredContent":{"got":%s}}`, orNull(arguments))), nil
	case "full":
		return result(`{"resultType":"complete","content":[],"_meta":{"a/b":1,"io.modelcontextprotocol/serverInfo":{"name":"upstream","version":"9"}},"ttlMs":1}`), nil
	case "wrong-type":
		return result(`{"resultType":"input_required","resultType":"complete","content":[]}`), nil
	case "empty":
		return result(`{}`), nil
	case "large":
		return result(`{"content":[{"type":"text","text":"` + strings.Repeat("x", 1<<20) + `"}]}`), nil
	case "slow":
		s.started <- c
		select {
		case <-s.release:
			c.Notify(progress(`1`))
			s.ended <- nil
			return result(`{"content":[]}`), nil
		case <-ctx.Done():
			s.ended <- context.Cause(ctx)
			return nil, ctx.Err()
		}
	case "progress":
		for _, p := range []string{"1", "1", "0.5", "2", "2.50", "9007199254740993", "9007199254740994"} {
			c.Notify(progress(p))
		}
		return result(`{"content":[]}`), nil
	case "flood": // of progress, of log messages, and of progress again
		arguments, _ := c.Params.Member("arguments")
		text, _ := arguments.Member("steps")
		steps, err := strconv.Atoi(string(text))
		if err != nil {
			return nil, err
		}
		for i := range steps {
			c.Notify(progress(strconv.Itoa(i + 1)))
		}
		s.started <- c
		<-s.release
		for i := range session.LogEvents {
			c.Notify(mcp.Event{Method: mcp.NoteMessage, Params: mcp.Raw(`{"level":"error","data":` + strconv.Itoa(i) + `}`)})
		}
		for i := range 2 * progressBurst {
			c.Notify(progress(strconv.Itoa(steps + i + 1)))
		}
		return result(`{"content":[]}`), nil
	case "log":
		for _, level := range []string{"debug", "warning", "nonsense", "error"} {
			c.Notify(mcp.Event{Method: mcp.NoteMessage, Params: mcp.Raw(`{"level":"` + level + `","data":1.0}`)})
		}
		c.Notify(mcp.Event{Method: mcp.NoteToolsListChanged, Params: mcp.Raw(`{}`)}) // not for this request
		return result(`{"content":[]}`), nil
	case "late":
		go func(notify func(mcp.Event)) { // what a careless handler might do
			<-s.release
			notify(progress("5"))
			s.ended <- nil
		}(c.Notify)
		return result(`{"content":[]}`), nil
	case "ask", "ask-wait", "ask-url", "ask-sampling", "ask-roots", "ask-keys", "ask-odd":
		return s.ask(c)
	case "ask-this":
		return askThis(c)
	case "ask-here":
		reply, err := s.ask(c)
		reply.Ask.Here, reply.Ask.Drop = true, func(reason string) { s.dropped <- reason }
		return reply, err
	case "ask-late", "approve-late":
		if len(c.Round) > 0 {
			return nil, mcp.Errorf(failure.StateInvalid, "Invalid params: requestState is not one that waits for answers")
		}
		reply, err := s.ask(c)
		if c.Name == "approve-late" {
			reply.Ask.Requests[0].Key = mcp.OwnKey + "approval"
		} else {
			c.Verdict.Reached, c.Verdict.Executed = 1, mcp.ExecutedUnknown
		}
		return reply, err
	case "ask-twice":
		return askTwice(c)
	case "patience":
		return &mcp.Reply{Ask: &mcp.Ask{Round: c.Round.Push(mcp.FrameServer, "+")}}, nil
	case "panic":
		panic("on purpose")
	case "panic-late":
		c.Notify(progress("1"))
		panic("on purpose")
	case "broken":
		return nil, fmt.Errorf("dial tcp 10.0.0.7: secret detail")
	case "down":
		return nil, mcp.UpstreamError(failure.UpstreamDown, "crm", mcp.ExecutedNo, "crm is down")
	case "needs-roots":
		return nil, &mcp.Error{Code: mcp.CodeMissingCapability, Message: "roots",
			Data: mcp.Raw(`{"requiredCapabilities":{"roots":{}}}`)}
	case "limited", "limited-late":
		if c.Name == "limited-late" {
			c.Notify(progress("1"))
		}
		arguments, _ := c.Params.Member("arguments")
		return nil, &mcp.Error{Code: mcp.CodeRateLimited, Message: "too many calls", Data: arguments}
	case "old-code":
		return nil, mcp.Errorf(failure.URLNeeded, "go there")
	case "no-reply":
		return nil, nil
	case "no-object":
		return result(`[1]`), nil
	}
	return nil, mcp.ErrUnknown(c.Method, c.Name)
}

func (s *script) ask(c *mcp.Call) (*mcp.Reply, error) {
	if c.Answers == nil && c.Refused == nil {
		q := mcp.InputRequest{Key: "q.1", Method: mcp.MethodElicit,
			Params: mcp.Raw(`{"message":"name?","requestedSchema":{"type":"object"}}`)}
		round := mcp.NewRound(mcp.FrameServer, "st-1")
		switch c.Name {
		case "ask-url":
			q.Params = mcp.Raw(`{"mode":"url","message":"go","url":"https://a.example"}`)
		case "ask-sampling":
			q.Method, q.Params = mcp.MethodCreateMessage, mcp.Raw(`{"messages":[],"maxTokens":1}`)
		case "ask-roots":
			q.Method, q.Params = mcp.MethodRootsList, nil
		case "ask-odd":
			q.Method = "ping"
		case "ask-keys":
			round = nil
		}
		return &mcp.Reply{Ask: &mcp.Ask{Requests: []mcp.InputRequest{q}, Round: round, Here: c.Name == "ask-wait"}}, nil
	}
	refused := "none"
	if e := c.Refused["q.1"]; e != nil {
		refused = e.Message
	}
	return result(fmt.Sprintf(`{"content":[],"structuredContent":{"answer":%s,"state":%q,"refused":%q}}`,
		orNull(c.Answers["q.1"]), c.Round.Top().Value, refused)), nil
}

// askTwice asks one question, and then two more.
func askTwice(c *mcp.Call) (*mcp.Reply, error) {
	q := func(key string) mcp.InputRequest {
		return mcp.InputRequest{Key: key, Method: mcp.MethodElicit, Params: mcp.Object("message", mcp.String(key))}
	}
	c.Notify(progress("1")) // the same in each round
	switch c.Round.Top().Value {
	case "":
		return &mcp.Reply{Ask: &mcp.Ask{Round: mcp.NewRound(mcp.FrameServer, "1"), Requests: []mcp.InputRequest{q("a")}}}, nil
	case "1":
		if c.Answers["a"] == nil {
			return nil, mcp.Errorf(failure.InvalidParams, "no answer to a")
		}
		return &mcp.Reply{Ask: &mcp.Ask{Round: mcp.NewRound(mcp.FrameServer, "2"),
			Requests: []mcp.InputRequest{q("b"), q("c")}}}, nil
	}
	return result(fmt.Sprintf(`{"content":[],"structuredContent":{"b":%s,"c":%s}}`, orNull(c.Answers["b"]),
		orNull(c.Answers["c"]))), nil
}

// listen agrees to resources that begin with "doc://".
func (s *script) listen(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
	filter, _ := c.Params.Member("notifications")
	uris := mcp.Raw("[")
	list, _ := filter.Member("resourceSubscriptions")
	list.Elements(func(uri mcp.Raw) bool {
		if strings.HasPrefix(uri.Text(), "doc://") {
			if len(uris) > 1 {
				uris = append(uris, ',')
			}
			uris = append(uris, uri...)
		}
		return true
	})
	if list != nil {
		filter = filter.With("resourceSubscriptions", append(uris, ']'))
	}
	s.mu.Lock()
	s.listening[c] = struct{}{}
	s.wakeLocked()
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.listening, c)
		s.wakeLocked()
		s.mu.Unlock()
	}()
	c.Notify(mcp.Event{Method: mcp.NoteAcknowledged, Params: mcp.Object("notifications", filter)})
	<-ctx.Done()
	return nil, ctx.Err()
}

func (s *script) wakeLocked() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// emit sends an event to all listen calls.
func (s *script) emit(method, params string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.listening {
		c.Notify(mcp.Event{Method: method, Params: mcp.Raw(params)})
	}
}

// waitListening waits until exactly n listen calls run.
func (s *script) waitListening(t testing.TB, n int) {
	t.Helper()
	deadline := time.After(tooLong)
	for {
		s.mu.Lock()
		now, changed := len(s.listening), s.changed
		s.mu.Unlock()
		if now == n {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("%d listen calls run, want %d", now, n)
		}
	}
}

// made returns the calls that came so far.
func (s *script) made() []mcp.Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

// last returns the newest call of a method.
func (s *script) last(method string) mcp.Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := len(s.calls) - 1; i >= 0; i-- {
		if s.calls[i].Method == method {
			return s.calls[i]
		}
	}
	return mcp.Call{}
}

func result(text string) *mcp.Reply { return &mcp.Reply{Result: mcp.Raw(text)} }

func progress(n string) mcp.Event {
	return mcp.Event{Method: mcp.NoteProgress, Params: mcp.Raw(`{"progressToken":"upstream's","progress":` + n +
		`,"message":"m"}`)}
}

func orNull(r mcp.Raw) string {
	if r == nil {
		return "null"
	}
	return string(r)
}

// bench is a front on a server, over a script.
type bench struct {
	t      testing.TB
	front  *Front
	script *script
	store  *session.Memory
	faults *faultyLog // lies above the event log of store
	url    string
	log    *mcptest.Log
	onEnd  func(key string) // called when a session ends; nil for none
}

// Opened and Closed implement home.Events.
func (b *bench) Opened(*home.Home) {}

func (b *bench) Closed(h *home.Home, _ home.Why) {
	if b.onEnd != nil {
		b.onEnd(h.String())
	}
}

// home returns the home of a client's session, nil for none.
func (b *bench) home(c *mcptest.Client) *home.Home {
	return b.front.homes().Known(home.ParseKey(keyOf(c)))
}

// newBench makes a bench. An answer becomes a stream when something needs one or when cfg says
// so, not because the machine is slow.
func newBench(t testing.TB, cfg Config) *bench {
	t.Helper()
	if cfg.StreamAfter == 0 {
		cfg.StreamAfter = tooLong
	}
	cfg.SSEPath = ssePath
	b := &bench{t: t, script: newScript(), log: &mcptest.Log{}}
	var err error
	b.store, err = session.NewMemory(session.Config{MaxPerUser: 5}, session.Deps{Homes: home.Config{Events: b}})
	if err != nil {
		t.Fatal(err)
	}
	store := newFaultyStore(b.store)
	b.faults = store.log
	key, err := seal.NewRandom("test")
	if err != nil {
		t.Fatal(err)
	}
	b.front, err = newFront(cfg, Deps{Deps: exchange.Deps{Handler: b.script, Store: store, Seal: key,
		Log:    slog.New(slog.NewTextHandler(b.log, nil)),
		Server: exchange.ServerInfo{Name: "gate", Title: "Gate", Version: "1"}}})
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{MaxIdleConnsPerHost: 100, DisableCompression: true}
	server := httptest.NewServer(b)
	b.url = server.URL
	t.Cleanup(func() {
		now, cancel := context.WithCancel(context.Background())
		cancel()
		_ = b.front.Close(now) // ends what runs; the early end does not matter
		soon, cancel := context.WithTimeout(context.Background(), tooLong)
		defer cancel()
		if err := b.front.Close(soon); err != nil {
			t.Errorf("closing: %v", err)
		}
		transport.CloseIdleConnections()
		server.Close()
		http.DefaultClient.CloseIdleConnections()
		b.store.Close()
	})
	return b
}

// newFront makes a Front with what a test leaves out.
func newFront(cfg Config, deps Deps) (*Front, error) {
	deps.Log = cmp.Or(deps.Log, slog.New(slog.DiscardHandler))
	deps.Cluster = cmp.Or(deps.Cluster, cluster.Alone())
	deps.Memory = mcp.NewMemory(cmp.Or(cfg.MaxInFlightBytes, DefaultInFlight))
	deps.Metrics = exchange.NewMetrics(nil)
	deps.Lasting = mcp.NewLasting(nil)
	if deps.Observe == nil {
		deps.Observe = func(ctx context.Context, c *mcp.Call, next mcp.Handler) (*mcp.Reply, error) {
			return next.Handle(ctx, c)
		}
	}
	return New(cfg, deps)
}

// keeping is Upstreams all of which keep state for their clients.
type keeping struct{ changed []string }

func (*keeping) Keeps(*mcp.Call) bool          { return true }
func (*keeping) Differs(*mcp.Call) bool        { return false }
func (k *keeping) RootsChanged(session string) { k.changed = append(k.changed, session) }

// closed reports whether a channel that is only ever closed is closed.
func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// ServeHTTP answers one request whose caller is in its context, as Behind does behind auth.
func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.Behind(func(next http.Handler) http.Handler { return next }).ServeHTTP(w, r)
}

// ServeHTTP puts the caller of the test into the context, as auth does.
func (b *bench) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	caller := mcp.Caller{Issuer: r.Header.Get("Test-Issuer"), Subject: r.Header.Get("Test-User"),
		ClientID: r.Header.Get("Test-Client"), Groups: r.Header["Test-Group"]}
	if life, err := time.ParseDuration(r.Header.Get("Test-Life")); err == nil {
		caller.Expires = time.Now().Add(life)
	}
	b.serve(w, r, mcp.NewCaller(caller))
}

// ssePath is the path of HTTP+SSE in benches.
const ssePath = "/sse"

func (b *bench) serve(w http.ResponseWriter, r *http.Request, caller mcp.Caller) {
	as := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(w, r.WithContext(mcp.WithCaller(r.Context(), caller)))
		})
	}
	handler := b.front.Behind(as)
	switch stream, messages := b.front.SSEPaths(); r.URL.Path {
	case stream:
		handler = b.front.SSEBehind(as)
	case messages:
		handler = b.front.MessagesBehind(as)
	}
	handler.ServeHTTP(w, r)
}

// client returns a client of a revision. A stateful client has its session.
func (b *bench) client(revision string, caps ...string) *mcptest.Client {
	b.t.Helper()
	c := mcptest.NewClient(b.url, wire.Lookup(revision))
	if len(caps) > 0 {
		c.Caps = caps[0]
	}
	if err := c.Open(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
	return c
}

// send makes a request with exactly these headers and this body.
func (b *bench) send(method, body string, header http.Header) (*http.Response, string) {
	b.t.Helper()
	return b.sendFrom(method, strings.NewReader(body), header)
}

func (b *bench) sendFrom(method string, body io.Reader, header http.Header) (*http.Response, string) {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), method, b.url, body)
	if err != nil {
		b.t.Fatal(err)
	}
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
	}
	for name, values := range header {
		switch {
		case name == "Host":
			req.Host = values[0]
		case values == nil:
			req.Header.Del(name)
		default:
			req.Header[name] = values
		}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	var text strings.Builder
	buf := make([]byte, 4096)
	for {
		n, err := resp.Body.Read(buf)
		text.Write(buf[:n])
		if err != nil {
			return resp, text.String()
		}
	}
}

const (
	v2024 = "2024-11-05"
	v2503 = "2025-03-26"
	v2506 = "2025-06-18"
	v2511 = "2025-11-25"
	v2607 = "2026-07-28"
)

// meta is the _meta that a stateless request needs.
const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`

// modern returns the headers of a stateless request.
func modern(method, name string) http.Header {
	h := http.Header{wire.HeaderVersion: {v2607}, wire.HeaderMethod: {method}}
	if name != "" {
		h[wire.HeaderName] = []string{name}
	}
	return h
}
