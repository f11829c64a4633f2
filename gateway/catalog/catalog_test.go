package catalog

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
)

func TestMain(m *testing.M) { mcptest.VerifyMain(m) }

const allCaps = `{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true},"completions":{},"logging":{}}`

// server is a scripted upstream.
type server struct {
	name string

	mu       sync.Mutex
	caps     string
	text     string // instructions
	items    map[string][]mcp.Item
	override map[string]mcp.HandlerFunc // by method
	calls    []*mcp.Call
	streams  map[*stream]struct{}
}

// stream is a subscriptions/listen call at a server.
type stream struct {
	notify func(mcp.Event)
	user   string // the subject of the listener
	uris   []string
	end    chan error // nil ends it normally
}

func newServer(name string) *server {
	return &server{name: name, caps: allCaps, items: make(map[string][]mcp.Item),
		override: make(map[string]mcp.HandlerFunc), streams: make(map[*stream]struct{})}
}

// has adds items to one of the server's lists, as JSON.
func (s *server) has(method string, items ...string) *server {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.items[method] = nil
	for _, text := range items {
		name, _ := mcp.Raw(text).Member(mcp.ItemKey(method))
		s.items[method] = append(s.items[method], mcp.Item{Name: name.Text(), Raw: mcp.Raw(text)})
	}
	return s
}

// offers changes the server's capabilities.
func (s *server) offers(caps string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.caps = caps
}

// tools gives the server tools with these names.
func (s *server) tools(names ...string) *server {
	items := make([]string, len(names))
	for i, name := range names {
		items[i] = tool(name)
	}
	return s.has(mcp.MethodToolsList, items...)
}

func tool(name string) string {
	return string(mcp.Object("name", mcp.String(name), "inputSchema", mcp.Raw(`{"type":"object"}`)))
}

// on sets the handler of a method; nil restores the usual answer.
func (s *server) on(method string, h mcp.HandlerFunc) *server {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.override[method] = h
	return s
}

func (s *server) fails(method string, err error) *server {
	return s.on(method, func(context.Context, *mcp.Call) (*mcp.Reply, error) { return nil, err })
}

func (s *server) unreachable(down bool) {
	for _, method := range []string{mcp.MethodDiscover, mcp.MethodToolsList, mcp.MethodPromptsList,
		mcp.MethodResourcesList, mcp.MethodResourceTemplatesList, mcp.MethodListen, mcp.MethodToolsCall} {
		if down {
			s.fails(method, mcp.UpstreamError(failure.UpstreamDown, s.name, mcp.ExecutedNo,
				"upstream %s cannot be reached", s.name))
		} else {
			s.on(method, nil)
		}
	}
}

func (s *server) Name() string { return s.name }

func (s *server) Handle(ctx context.Context, call *mcp.Call) (*mcp.Reply, error) {
	s.mu.Lock()
	s.calls = append(s.calls, call)
	h := s.override[call.Method]
	items, caps, text := s.items[call.Method], s.caps, s.text
	s.mu.Unlock()
	switch {
	case h != nil:
		return h(ctx, call)
	case call.Method == mcp.MethodListen:
		return s.listen(ctx, call)
	case call.Method == mcp.MethodDiscover:
		return &mcp.Reply{Result: mcp.Object("capabilities", mcp.Raw(caps), "instructions", mcp.String(text))}, nil
	case mcp.ListMember(call.Method) != "":
		return &mcp.Reply{List: &mcp.List{Items: items}}, nil
	}
	if call.Method == mcp.MethodComplete {
		return &mcp.Reply{Result: mcp.Object("completion",
			mcp.Object("values", mcp.Strings([]string{s.name, call.Name}), "total", mcp.Raw("null")))}, nil
	}
	return &mcp.Reply{Result: mcp.Object("from", mcp.String(s.name), "name", mcp.String(call.Name))}, nil
}

func (s *server) listen(ctx context.Context, call *mcp.Call) (*mcp.Reply, error) {
	filter, _ := call.Params.Member("notifications")
	st := &stream{notify: call.Notify, user: call.Caller.Subject, end: make(chan error)}
	if uris, ok := filter.Member("resourceSubscriptions"); ok {
		uris.Elements(func(uri mcp.Raw) bool {
			st.uris = append(st.uris, uri.Text())
			return true
		})
	}
	s.mu.Lock()
	s.streams[st] = struct{}{}
	s.mu.Unlock()
	call.Notify(mcp.Event{Method: mcp.NoteAcknowledged, Params: mcp.Object("notifications", filter)})
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.streams, st)
	}()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case err := <-st.end:
		if err != nil {
			return nil, err
		}
		return &mcp.Reply{Result: mcp.Raw(`{}`)}, nil
	}
}

// open returns the open streams, either those with resources or those without.
func (s *server) open(withResources bool) (list []*stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for st := range s.streams {
		if (st.uris != nil) == withResources {
			list = append(list, st)
		}
	}
	return list
}

// says sends an event on all streams.
func (s *server) says(method, params string) {
	for _, st := range append(s.open(true), s.open(false)...) {
		st.notify(mcp.Event{Method: method, Params: mcp.Raw(params)})
	}
}

// called returns how often a method was called.
func (s *server) called(method string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, call := range s.calls {
		if call.Method == method {
			n++
		}
	}
	return n
}

// last returns the last call of a method.
func (s *server) last(t *testing.T, method string) *mcp.Call {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := len(s.calls) - 1; i >= 0; i-- {
		if s.calls[i].Method == method {
			return s.calls[i]
		}
	}
	t.Fatalf("%s: %s was not called", s.name, method)
	return nil
}

func plain(s *server) Source {
	none := ""
	return Source{Upstream: s, Prefix: &none}
}

func sourcesOf(servers []*server) []Source {
	sources := make([]Source, len(servers))
	for i, s := range servers {
		sources[i] = Source{Upstream: s}
	}
	return sources
}

func newCatalog(t testing.TB, cfg Config, sources ...Source) *Catalog {
	t.Helper()
	key, err := seal.NewRandom("cursor")
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(cfg, sources, Deps{Log: slog.New(slog.DiscardHandler), Seal: key, Tasks: key})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// start runs a catalog of the sources until the test ends, and waits for their first
// answers.
func start(t testing.TB, sources ...Source) *Catalog {
	t.Helper()
	c := newCatalog(t, Config{}, sources...)
	running(t, c)
	c.WaitFirst(t.Context())
	return c
}

func running(t testing.TB, c *Catalog) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func call(method, name string, params ...string) *mcp.Call {
	c := &mcp.Call{ID: "test", Method: method, Name: name, Session: "u:s", Notify: func(mcp.Event) {}}
	if len(params) > 0 {
		c.Params = mcp.Raw(params[0])
	}
	return c
}

// decided returns a call that policy has let through to the target of its name, unless the
// test sets a target itself.
func decided(ctx context.Context, c *Catalog, call *mcp.Call) *mcp.Call {
	kind := map[string]string{
		mcp.MethodToolsCall: mcp.KindTools, mcp.MethodPromptsGet: mcp.KindPrompts, mcp.MethodResourcesRead: mcp.KindResources,
		"ref/prompt": mcp.KindPrompts, "ref/resource": mcp.KindResources,
	}
	of := call.Method
	if of == mcp.MethodComplete {
		ref, _ := call.Params.Member("ref")
		text, _ := ref.Member("type")
		of = text.Text()
	}
	which := kind[of]
	if mcp.IsTaskMethod(of) {
		which = mcp.KindTask
	}
	if which == "" || call.Target != (mcp.Target{}) {
		return call
	}
	call = call.Clone()
	call.Target, _ = resolve(ctx, c, call, which, call.Name)
	return call
}

func do(t testing.TB, c *Catalog, call *mcp.Call) *mcp.Reply {
	t.Helper()
	reply, err := c.Handle(t.Context(), decided(t.Context(), c, call))
	if err != nil {
		t.Fatalf("%s %s: %v", call.Method, call.Name, err)
	}
	return reply
}

// refused makes a call that must fail with a code, and returns the error.
func refused(t testing.TB, c *Catalog, call *mcp.Call, code int) *mcp.Error {
	t.Helper()
	_, err := c.Handle(t.Context(), decided(t.Context(), c, call))
	e, ok := errors.AsType[*mcp.Error](err)
	if !ok || e.Code != code {
		t.Fatalf("%s %s: got %v, want code %d", call.Method, call.Name, err, code)
	}
	return e
}

func listed(t testing.TB, c *Catalog, method string) []string {
	t.Helper()
	names := []string{}
	for _, item := range do(t, c, call(method, "")).List.Items {
		names = append(names, item.Name)
	}
	return names
}

func wantNames(t testing.TB, c *Catalog, method string, want ...string) {
	t.Helper()
	if got := listed(t, c, method); strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("%s: got %q, want %q", method, got, want)
	}
}

func wantResult(t testing.TB, reply *mcp.Reply, want string) {
	t.Helper()
	if string(reply.Result) != want {
		t.Errorf("got  %s\nwant %s", reply.Result, want)
	}
}

func TestNewRefuses(t *testing.T) {
	key, err := seal.NewRandom("cursor")
	if err != nil {
		t.Fatal(err)
	}
	deps := Deps{Log: slog.New(slog.DiscardHandler), Seal: key, Tasks: key}
	bad, long := "a b", strings.Repeat("x", 30)
	tests := []struct {
		name    string
		cfg     Config
		sources []Source
		deps    Deps
		want    []string
	}{
		{"a name taken", Config{}, []Source{{Upstream: newServer("crm")}, {Upstream: newServer("crm")}}, deps,
			[]string{`upstream "crm": the name is taken`}},
		{"a prefix with a space", Config{}, []Source{{Upstream: newServer("crm"), Prefix: &bad}}, deps,
			[]string{`upstream "crm": prefix: "a b"`}},
		{"a prefix too long", Config{}, []Source{{Upstream: newServer("crm"), Prefix: &long}}, deps,
			[]string{"set a shorter prefix"}},
		{"no upstream", Config{}, []Source{{}}, deps, []string{"source 0 has no upstream"}},
		{"no deps", Config{}, nil, Deps{}, []string{"log, seal and tasks are needed"}},
		{"everything at once", Config{Separator: "/", MaxLength: 5, Instructions: strings.Repeat("x", 5000)}, nil, deps,
			[]string{`separator: "/"`, "max_length: 5", "instructions: 5000 bytes"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := New(tt.cfg, tt.sources, tt.deps)
			for _, want := range tt.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %q in it", err, want)
				}
			}
		})
	}
}

func TestPrefix(t *testing.T) {
	none, fine, space, long := "", "x-", "a b", strings.Repeat("x", defaultMaxLength/2+1)
	tests := []struct {
		name   string
		own    *string
		prefix string
		usable bool
	}{
		{"default", nil, "crm__", true}, {"none", &none, "", true}, {"own", &fine, "x-", true},
		{"a space", &space, "a b", false}, {"too long", &long, long, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if prefix, err := (Config{}).Prefix("crm", tt.own); prefix != tt.prefix || (err == nil) != tt.usable {
				t.Errorf("got %q, %v", prefix, err)
			}
		})
	}
}

func TestNoSources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		wantResult(t, do(t, c, call(mcp.MethodDiscover, "")), `{"capabilities":{}}`)
		refused(t, c, call(mcp.MethodToolsList, ""), mcp.CodeMethodNotFound)
		refused(t, c, call(mcp.MethodToolsCall, "x"), mcp.CodeMethodNotFound)
		refused(t, c, call("tools/other", "x"), mcp.CodeMethodNotFound)
	})
}

func TestNotOffered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		crm := newServer("crm").tools("a")
		crm.caps = `{"tools":{}}`
		c := start(t, Source{Upstream: crm})
		wantNames(t, c, mcp.MethodToolsList, "crm__a")
		for _, method := range []string{
			mcp.MethodPromptsList, mcp.MethodPromptsGet,
			mcp.MethodResourcesList, mcp.MethodResourceTemplatesList, mcp.MethodResourcesRead,
		} {
			refused(t, c, call(method, "x"), mcp.CodeMethodNotFound)
		}
		refused(t, c, call(mcp.MethodToolsCall, "x"), mcp.CodeInvalidParams)
	})
}

func TestColdStart(t *testing.T) {
	t.Run("a list waits for who is slow, but not for long", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			quick, slow, hung := newServer("quick").tools("a"), newServer("slow").tools("a"), newServer("hung").tools("a")
			slow.on(mcp.MethodToolsList, func(ctx context.Context, _ *mcp.Call) (*mcp.Reply, error) {
				waitFor(ctx, time.Second)
				return &mcp.Reply{List: &mcp.List{Items: []mcp.Item{{Name: "a", Raw: mcp.Raw(tool("a"))}}}}, nil
			})
			hung.on(mcp.MethodDiscover, func(ctx context.Context, _ *mcp.Call) (*mcp.Reply, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			})
			c := newCatalog(t, Config{}, sourcesOf([]*server{quick, slow, hung})...)
			running(t, c)
			began := time.Now()
			wantNames(t, c, mcp.MethodToolsList, "quick__a", "slow__a")
			if took := time.Since(began); took != warmUp {
				t.Errorf("the first list took %v, want %v", took, warmUp)
			}
			if c.Heard() {
				t.Error("a gateway counts as ready before one of its servers has answered or failed")
			}
			began = time.Now()
			wantNames(t, c, mcp.MethodToolsList, "quick__a", "slow__a")
			e := refused(t, c, call(mcp.MethodToolsCall, "hung__a"), mcp.CodeUpstreamUnreachable)
			if took := time.Since(began); took != 0 {
				t.Errorf("later it took %v", took)
			}
			if !strings.Contains(e.Message, "hung") || !strings.Contains(string(e.Data), `"executed":"no"`) {
				t.Errorf("%v %s does not say who and what", e, e.Data)
			}
		})
	})
	t.Run("a call waits for its upstream", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newServer("crm").tools("a")
			c := newCatalog(t, Config{}, sourcesOf([]*server{s})...)
			running(t, c)
			wantResult(t, do(t, c, call(mcp.MethodToolsCall, "crm__a")), `{"from":"crm","name":"a"}`)
			synctest.Wait()
			if !c.Heard() {
				t.Error("a gateway whose servers have all answered does not count as ready")
			}
		})
	})
	t.Run("a client that leaves is not kept", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := newCatalog(t, Config{}, sourcesOf([]*server{newServer("crm")})...) // Run was not called
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := c.Handle(ctx, call(mcp.MethodToolsList, "")); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
		})
	})
}

// resolve returns what a name stands for to the caller of a call.
func resolve(ctx context.Context, c *Catalog, call *mcp.Call, kind, public string) (mcp.Target, bool) {
	return c.For(call).Target(ctx, kind, public)
}

// TestOldLens: a stage that reads lists while a call lasts gets what there is now.
func TestOldLens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		crm := newServer("crm").tools("a")
		crm.offers(`{"tools":{}}`)
		c := start(t, Source{Upstream: crm})
		list := call(mcp.MethodPromptsList, "")
		list.Lens = c.For(list)
		if _, err := c.Handle(t.Context(), list); !mcp.HasCode(err, mcp.CodeMethodNotFound) {
			t.Fatalf("got %v", err)
		}
		crm.offers(`{"prompts":{}}`)
		crm.has(mcp.MethodPromptsList, `{"name":"p"}`)
		c.Refresh("crm")
		synctest.Wait()
		if got := do(t, c, list).List.Items; len(got) != 1 {
			t.Errorf("got %d prompts", len(got))
		}
	})
}
