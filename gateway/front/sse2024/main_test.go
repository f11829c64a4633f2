package sse2024

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/exchange"
	"github.com/gatehouse-mcp/gatehouse/gateway/front/request"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
	"github.com/gatehouse-mcp/gatehouse/session"
)

func TestMain(m *testing.M) { mcptest.VerifyMain(m) }

// keepAlive is the time after which an idle stream gets a comment.
const keepAlive = 15 * time.Second

// server is the handler below. The name of the called tool says what it does.
type server struct {
	started chan *mcp.Call // receives each call of the tool "slow"
	release chan struct{}  // lets one continue
	ended   chan error     // receives how it ended

	mu     sync.Mutex
	listen *mcp.Call // the last one
	ctx    context.Context
}

func (s *server) Handle(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
	result := func(text string) (*mcp.Reply, error) { return &mcp.Reply{Result: mcp.Raw(text)}, nil }
	switch {
	case c.Method == mcp.MethodDiscover:
		return result(`{"capabilities":{"tools":{"listChanged":true}}}`)
	case c.Method == mcp.MethodListen:
		s.mu.Lock()
		s.listen, s.ctx = c, ctx
		s.mu.Unlock()
		filter, _ := c.Params.Member("notifications")
		c.Notify(mcp.Event{Method: mcp.NoteAcknowledged, Params: mcp.Object("notifications", filter)})
		<-ctx.Done()
		return nil, ctx.Err()
	case c.Name == "slow":
		s.started <- c
		select {
		case <-s.release:
			s.ended <- nil
		case <-ctx.Done():
			s.ended <- context.Cause(ctx)
			return nil, ctx.Err()
		}
	case c.Name == "large":
		return result(`{"content":[{"type":"text","text":"` + strings.Repeat("x", 1<<20) + `"}]}`)
	case c.Name == "ask" && c.Answers == nil && c.Refused == nil:
		return &mcp.Reply{Ask: &mcp.Ask{Round: mcp.NewRound(mcp.FrameServer, "1"), Requests: []mcp.InputRequest{
			{Key: "q", Method: mcp.MethodCreateMessage, Params: mcp.Raw(`{"messages":[],"maxTokens":1}`)}}}}, nil
	}
	return result(`{}`)
}

// listening returns the last call of listen, and whether it still runs.
func (s *server) listening() (c *mcp.Call, runs bool) {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.listen, s.listen != nil && s.ctx.Err() == nil
}

// bench is an endpoint with Streams in a bubble of synctest, without a network.
type bench struct {
	*exchange.Endpoint
	streams *Streams
	server  *server
}

// newBench makes a bench. Without a use for a minute, its sessions end.
func newBench(t *testing.T) *bench {
	store, err := session.NewMemory(session.Config{IdleTimeout: time.Minute}, session.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	key, err := seal.NewRandom("test")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{started: make(chan *mcp.Call, MaxAtOnce), release: make(chan struct{}, 1),
		ended: make(chan error, MaxAtOnce)}
	e := exchange.NewEndpoint(exchange.Deps{
		Handler: s,
		Store:   store,
		Seal:    key,
		Log:     slog.New(slog.DiscardHandler),
		Lasting: mcp.NewLasting(nil),
		Memory:  mcp.NewMemory(1 << 30),
		Metrics: exchange.NewMetrics(nil),
		Observe: func(ctx context.Context, c *mcp.Call, next mcp.Handler) (*mcp.Reply, error) {
			return next.Handle(ctx, c)
		},
	}, "r", 0, keepAlive)
	e.StreamAfter, e.AskTimeout = time.Hour, time.Hour
	t.Cleanup(func() {
		ended := e.Running.Close()
		e.Sessions.StopListening()
		<-ended
		store.Close()
	})
	return &bench{Endpoint: e, streams: New(e), server: s}
}

// opened is a stream, with what was written to it.
type opened struct {
	t      *testing.T
	b      *bench
	caller mcp.Caller
	cancel context.CancelFunc
	done   chan struct{}
	turn   chan struct{} // holds one token: taken to write, or to keep others from writing

	header http.Header
	mu     sync.Mutex
	text   strings.Builder
}

func (o *opened) Header() http.Header { return o.header }
func (o *opened) Flush()              {}
func (o *opened) WriteHeader(int)     {}

// Write waits for its turn.
func (o *opened) Write(p []byte) (int, error) {
	<-o.turn
	defer func() { o.turn <- struct{}{} }()
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *opened) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// open opens a stream.
func (b *bench) open(t *testing.T, caller mcp.Caller) *opened {
	caller = mcp.NewCaller(caller)
	ctx, cancel := context.WithCancel(mcp.WithCaller(context.Background(), caller))
	o := &opened{t: t, b: b, caller: caller, cancel: cancel, header: make(http.Header),
		done: make(chan struct{}), turn: make(chan struct{}, 1)}
	o.turn <- struct{}{}
	go func() {
		defer close(o.done)
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/sse", nil)
		if ref := b.streams.Open(o, r, caller); ref != nil {
			b.Refuse(o, nil, ref)
		}
	}()
	synctest.Wait()
	return o
}

// post sends a message and returns the status.
func (o *opened) post(body string) int {
	_, endpoint, _ := strings.Cut(o.String(), "data: ")
	endpoint, _, _ = strings.Cut(endpoint, "\n")
	w := httptest.NewRecorder()
	r := &request.Request{W: w, RC: http.NewResponseController(w), Caller: o.caller, Body: []byte(body),
		R: httptest.NewRequest(http.MethodPost, "http://localhost"+endpoint, nil)}
	ref := r.Scan()
	if ref == nil {
		ref = o.b.streams.Post(r)
	}
	if ref != nil {
		o.b.Refuse(w, r.Message.ID, ref)
	}
	return w.Code
}

// begin begins the session.
func (o *opened) begin() {
	o.t.Helper()
	o.post(`{"jsonrpc":"2.0","id":0,"method":"initialize",
		"params":{"protocolVersion":"2024-11-05","capabilities":{"sampling":{}}}}`)
	synctest.Wait()
	if o.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`); !strings.Contains(o.settled(),
		`"id":0,"result"`) {
		o.t.Fatalf("no session: %s", o)
	}
}

// settled returns what was written once everything is quiet. It runs in a synctest bubble. Events of a
// burst wait a moment for each other.
func (o *opened) settled() string {
	time.Sleep(time.Second / 10)
	synctest.Wait()
	return o.String()
}

func (o *opened) over() bool {
	synctest.Wait()
	select {
	case <-o.done:
		return true
	default:
		return false
	}
}
