package e2e

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// party is a client or a server of the matrix.
type party struct{ revision, over string }

const (
	overHTTP  = "http" // Streamable HTTP
	overSSE   = "sse"  // HTTP+SSE
	overStdio = "stdio"
)

func (p party) String() string { return p.revision + " " + p.over }

// name returns the name of the upstream for a kind of peer.
func (p party) name(kind string) string {
	return kind + "-" + strings.ReplaceAll(p.revision, "-", "") + "-" + p.over
}

// since reports whether a revision is this one or a newer one, and so has what this one
// introduced.
func since(r *wire.Revision, revision string) bool { return r.Name >= revision }

// matrix is one gateway in front of all servers. Each server exists as a go-sdk server and
// as a scripted one.
type matrix struct {
	url    string
	events *events
	troupe map[party]*actor
	other  *actor
}

// pair is a client and a server of the matrix: a go-sdk client with the name of its go-sdk
// server, and a scripted client with its scripted server.
type pair struct {
	client, server *wire.Revision
	over           string // the server's transport
	events         *events

	sdk  *client
	peer string

	wire  *speaker
	actor *actor
	other *actor // a scripted server in addition to those of the matrix
	// open makes another scripted client of the same kind.
	open func(t *testing.T, caps string) *speaker
}

func newMatrix(t *testing.T) *matrix {
	t.Helper()
	m := &matrix{events: newEvents(), troupe: map[party]*actor{}}
	t.Cleanup(m.events.server.Close)
	m.other = newActor(t, party{statefulServer, overHTTP})
	m.other.name = "wire-other"
	cfg := gateway.Config{Upstreams: []upstream.Config{m.other.config(t)}}
	for _, s := range matrixServers {
		m.troupe[s] = newActor(t, s)
		cfg.Upstreams = append(cfg.Upstreams, m.sdkServer(t, s), m.troupe[s].config(t))
	}
	m.url = start(t, cfg)
	return m
}

// sdkServer starts a go-sdk server.
func (m *matrix) sdkServer(t *testing.T, s party) upstream.Config {
	cfg := upstream.Config{Name: s.name("sdk")}
	if s.over == overStdio {
		cfg.Command = []string{os.Args[0], stdioCommand, s.revision, m.events.server.URL}
		return cfg
	}
	serve := serve
	if s.over == overSSE { // the gateway finds out
		serve = serveSSE
	}
	url, stop := serve(newPeer(s.revision, m.events.happened), s.revision == stateless)
	t.Cleanup(stop)
	cfg.URL = url
	return cfg
}

// pair connects the clients.
func (m *matrix) pair(t *testing.T, c, s party) *pair {
	t.Helper()
	p := &pair{
		client: wire.Lookup(c.revision), server: wire.Lookup(s.revision), over: s.over,
		events: m.events, peer: s.name("sdk"), actor: m.troupe[s], other: m.other,
	}
	connect := connect
	if c.over == overSSE {
		connect = connectSSE
	}
	p.sdk = connect(t, m.url, c.revision)
	p.open = func(t *testing.T, caps string) *speaker { return newSpeaker(t, m.url, c, caps) }
	p.wire = p.open(t, askable)
	return p
}

// actor is a scripted server. Its calls do what the test registered under a key. The tool
// and the prompt, do, take the key as an argument; resources have it in their URI.
type actor struct {
	*mcptest.Server
	name     string
	party    party
	revision *wire.Revision

	mu    sync.Mutex // guards the fields below
	acts  map[string]*act
	tools []string
}

// act is what an actor does for the calls of a key, and these calls.
type act struct {
	do    func(*mcptest.Call)
	calls []mcptest.Received
}

func newActor(t *testing.T, p party) *actor {
	t.Helper()
	start := mcptest.NewServer
	if p.over == overSSE {
		start = mcptest.NewSSEServer
	}
	s := &actor{Server: start(wire.Lookup(p.revision)), name: p.name("wire"), party: p, revision: wire.Lookup(p.revision),
		acts: map[string]*act{}}
	t.Cleanup(s.Close)
	s.grow("do")
	s.On("prompts/list", func(c *mcptest.Call) { c.Result(`{"prompts":[` + promptParts.in(stateless, "do") + `]}`) })
	s.On("resources/list", func(c *mcptest.Call) {
		c.Result(`{"resources":[` + resourceParts.in(stateless, "test://listed") + `]}`)
	})
	s.On("resources/templates/list", func(c *mcptest.Call) {
		c.Result(`{"resourceTemplates":[` + templateParts.in(stateless, "test://do/{key}") + `]}`)
	})
	for _, method := range askMethods {
		s.On(method, s.perform)
	}
	return s
}

func (s *actor) config(t *testing.T) upstream.Config {
	t.Helper()
	switch s.party.over {
	case overSSE:
		return upstream.Config{Name: s.name, URL: s.URL, Transport: "sse"}
	case overStdio:
		address, err := s.ListenLines()
		if err != nil {
			t.Fatal(err)
		}
		return upstream.Config{Name: s.name, Command: []string{os.Args[0], linesCommand, address}}
	}
	return upstream.Config{Name: s.name, URL: s.URL}
}

// grow gives the server one more tool.
func (s *actor) grow(tool string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tools = append(s.tools, toolParts.in(stateless, tool))
	list := `{"tools":[` + strings.Join(s.tools, ",") + `]}`
	s.On("tools/list", func(c *mcptest.Call) { c.Result(list) })
}

// put registers the action for the calls of a new key, until the test ends.
func (s *actor) put(t *testing.T, do func(*mcptest.Call)) (key string) {
	key = rand.Text()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acts[key] = &act{do: do}
	t.Cleanup(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.acts, key)
	})
	return key
}

// calls returns the calls of a key so far.
func (s *actor) calls(key string) []mcptest.Received {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.acts[key].calls
}

func (s *actor) perform(c *mcptest.Call) {
	var key, uri string
	if c.Param("uri", &uri) {
		key = strings.TrimPrefix(uri, "test://do/")
	} else {
		c.Param("arguments|key", &key)
	}
	s.mu.Lock()
	a := s.acts[key]
	if a != nil {
		a.calls = append(a.calls, c.Received)
	}
	s.mu.Unlock()
	if a == nil {
		c.Error(-32602, "no act "+key)
		return
	}
	a.do(c)
}

// params returns the params of a client's call with a key, with more members.
func (s *actor) params(method, key string, more ...string) string {
	params := fmt.Sprintf(`"name":"%s__do","arguments":{"key":%q}`, s.name, key)
	if method == "resources/read" {
		params = fmt.Sprintf(`"uri":%q`, s.uri(key))
	}
	return "{" + strings.Join(append([]string{params}, more...), ",") + "}"
}

// uri returns the client's URI of the resource of a key.
func (s *actor) uri(key string) string { return s.name + "+test://do/" + key }

// declared returns the client capabilities of a call.
func (s *actor) declared(t *testing.T, call mcptest.Received) map[string]json.RawMessage {
	t.Helper()
	declared := map[string]json.RawMessage{}
	var found bool
	if s.revision.Stateful {
		found = s.Hello(call.Session).Param("capabilities", &declared)
	} else {
		found = call.Param("_meta|"+wire.MetaClientCaps, &declared)
	}
	if !found {
		t.Errorf("no capabilities with %s", cmp.Or(s.Hello(call.Session).Text, call.Text))
	}
	return declared
}

// speaker is a scripted client over either transport.
type speaker struct {
	*mcptest.Client
	sse    *mcptest.SSEClient // nil over Streamable HTTP
	passed []mcptest.Message  // messages on its stream that were for somebody else
	get    *flow
	life   context.Context
	ids    int
}

// newSpeaker opens a speaker for a test.
func newSpeaker(t *testing.T, url string, p party, caps string) *speaker {
	t.Helper()
	if p.over != overSSE {
		c := &speaker{Client: rawWith(t, url, p.revision, caps), life: t.Context()}
		if c.Revision.Stateful { // stdio servers have a process for each session
			t.Cleanup(func() {
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				defer cancel()
				if status, err := c.Delete(ctx); err != nil || status/100 != 2 {
					t.Errorf("DELETE: %d %v", status, err)
				}
			})
		}
		return c
	}
	c := &speaker{Client: unopened(t, url, p.revision), life: t.Context()}
	var err error
	if c.sse, err = mcptest.OpenSSE(t.Context(), ownClient(t), ssePath(url), nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.sse.Close)
	if answer, err := c.sse.Begin(t.Context(), p.revision, caps); err != nil || answer.Error != nil {
		t.Fatal(answer.Text, err)
	}
	return c
}

// flow is the sequence of messages for one request, or for none.
type flow struct {
	*mcptest.Exchange
	c  *speaker
	id string
}

// send makes a request.
func (c *speaker) send(t *testing.T, method, params string) *flow {
	t.Helper()
	c.ids++
	f := &flow{c: c, id: fmt.Sprintf("%q", fmt.Sprint("m", c.ids))}
	var err error
	if c.sse == nil {
		f.Exchange, err = c.SendID(deadline(t), f.id, method, params)
	} else {
		f.Exchange, err = c.sse.Exchange, c.sse.Send(deadline(t), f.id, method, params)
	}
	if err != nil {
		t.Fatalf("%s %s: %v", method, params, err)
	}
	return f
}

// say sends a message without an answer.
func (c *speaker) say(t *testing.T, body string) {
	t.Helper()
	var x *mcptest.Exchange
	var err error
	if c.sse == nil {
		x, err = c.Post(deadline(t), body)
	} else {
		x, err = c.sse.Post(deadline(t), body, nil)
	}
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	defer x.Close()
	if x.Status != 202 {
		t.Fatalf("%s: status %d: %s", body, x.Status, x.Text())
	}
}

// close stops waiting for an answer. Over HTTP+SSE the answer has no stream of its own.
func (f *flow) close() {
	if f.c.sse == nil {
		f.Close()
	}
}

// next returns the next message of the request, or of none.
func (f *flow) next(t *testing.T) mcptest.Message {
	t.Helper()
	stop := context.AfterFunc(deadline(t), f.Close)
	defer stop()
	if f.c.sse == nil {
		m, err := f.Next()
		if err != nil {
			t.Fatalf("the answer to %s ended: %v", f.id, err)
		}
		return m
	}
	for i, m := range f.c.passed {
		if string(m.ID) == f.id {
			f.c.passed = append(f.c.passed[:i:i], f.c.passed[i+1:]...)
			return m
		}
	}
	for {
		m, err := f.Next()
		if err != nil {
			t.Fatalf("the stream ended, waiting for %s: %v", f.id, err)
		}
		if !m.IsResponse() || string(m.ID) == f.id {
			return m
		}
		f.c.passed = append(f.c.passed, m)
	}
}

// until returns the next message of a method.
func (f *flow) until(t *testing.T, method string) mcptest.Message {
	t.Helper()
	for {
		if m := f.next(t); m.Method == method {
			return m
		} else if m.IsResponse() {
			t.Fatalf("%s came before a message %s", m.Text, method)
		}
	}
}

// response returns the response, and the messages before it.
func (f *flow) response(t *testing.T) (answer mcptest.Message, before []mcptest.Message) {
	t.Helper()
	for {
		m := f.next(t)
		if m.IsResponse() {
			return m, before
		}
		before = append(before, m)
	}
}

// request makes a request and reads its answer.
func (c *speaker) request(t *testing.T, method, params string) mcptest.Message {
	t.Helper()
	f := c.send(t, method, params)
	defer f.close()
	answer, _ := f.response(t)
	return answer
}

// hear returns where the client gets messages that belong to no request. filter is the
// notifications member of a stateless client's subscriptions/listen.
func (c *speaker) hear(t *testing.T, filter string) *flow {
	t.Helper()
	switch {
	case c.sse != nil:
		return &flow{Exchange: c.sse.Exchange, c: c}
	case !c.Revision.Stateful:
		f := c.send(t, "subscriptions/listen", `{"notifications":`+filter+`}`)
		t.Cleanup(f.Close)
		f.until(t, "notifications/subscriptions/acknowledged")
		return f
	case c.get == nil:
		x, err := c.Get(c.life, "")
		if err != nil || x.Status != 200 {
			t.Fatalf("%+v %v", x, err)
		}
		context.AfterFunc(c.life, x.Close)
		c.get = &flow{Exchange: x, c: c, id: "nothing"}
	}
	return c.get
}

// converse is converse for either transport.
func (c *speaker) converse(t *testing.T, method, params string, answer func(inquiry) string) (m mcptest.Message,
	asked []inquiry) {
	t.Helper()
	if !c.Revision.Stateful {
		return converseStateless(t, c.Client, method, params, answer)
	}
	f := c.send(t, method, params)
	defer f.close()
	for {
		m := f.next(t)
		if m.IsResponse() {
			return m, asked
		}
		if m.ID == nil {
			continue
		}
		q := inquiry{m.Method, string(m.Params)}
		asked = append(asked, q)
		c.say(t, answerTo(m, answer(q)))
	}
}
