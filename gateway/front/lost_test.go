package front

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/stream"
	"github.com/gatehouse-mcp/gatehouse/internal/home"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/session"
)

func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), tooLong)
	t.Cleanup(cancel)
	return ctx
}

// wantLost checks the answer to a call whose replica has gone.
func wantLost(t *testing.T, what string, m mcptest.Message, err error, id string) {
	t.Helper()
	if err != nil || m.Error == nil || m.Error.Code != mcp.CodeUpstreamSessionLost || string(m.ID) != id {
		t.Errorf("%s: %s %v", what, m.Text, err)
		return
	}
	for _, part := range []string{`"executed":"unknown"`, `"retryable":false`} {
		if !strings.Contains(string(m.Error.Data), part) {
			t.Errorf("%s: the error lacks %s: %s", what, part, m.Error.Data)
		}
	}
}

// lostStream begins a stream for a call of another replica, and returns the id of its first
// event.
func lostStream(t *testing.T, b *bench, c *mcptest.Client, name string) (event string) {
	t.Helper()
	seq, err := b.store.Log().Begin(t.Context(), b.home(c), name, []byte(`"the call"`), nil)
	if err != nil {
		t.Fatal(err)
	}
	return stream.EventID(name, seq)
}

// keyOf returns the key of a client's session, whose user has no name.
func keyOf(c *mcptest.Client) string {
	caller := mcp.NewCaller(mcp.Caller{})
	return caller.User() + ":" + c.Session
}

func follow(t *testing.T, c *mcptest.Client, after string) *mcptest.Exchange {
	t.Helper()
	x, err := c.Get(soon(t), after)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.Close)
	return x
}

// TestFollowLost: clients that come back for a call that ran at the former owner are told at
// once that it is lost. One of them writes that to the log, where a later one finds it.
func TestFollowLost(t *testing.T) {
	b := newBench(t, Config{})
	c := b.client(v2511)
	log := b.store.Log()
	event := lostStream(t, b, c, "c-gone-1")
	if _, err := log.Append(t.Context(), b.home(c), "c-gone-1",
		[]byte(`{"jsonrpc":"2.0","method":"notifications/progress","params":{}}`)); err != nil {
		t.Fatal(err)
	}
	var last string
	for range 3 {
		x := follow(t, c, event)
		m, err := x.Response()
		wantLost(t, "who follows", m, err, `"the call"`)
		if len(x.Before) != 1 || m.EventID == "" || last != "" && m.EventID != last {
			t.Errorf("after %d messages, the error is event %q, before %q", len(x.Before), m.EventID, last)
		}
		last = m.EventID
	}

	// For this stream it is not known what it answers.
	seq, err := log.Append(t.Context(), b.home(c), "c-gone-2", nil)
	if err != nil {
		t.Fatal(err)
	}
	if m, err := follow(t, c, stream.EventID("c-gone-2", seq)).Next(); err == nil {
		t.Errorf("got %s", m.Text)
	}
}

// faultyStore is a session store whose event log fails as the test says.
type faultyStore struct {
	session.Store
	log *faultyLog
}

func (s faultyStore) Log() session.EventLog { return s.log }

type faultyLog struct {
	session.EventLog
	crammed atomic.Int64 // how many more streams cannot be finished
	moved   atomic.Bool  // another replica owns the session
	reads   chan error   // what Read returns instead, as long as there is something; nil for a good answer
}

func newFaultyStore(of session.Store) faultyStore {
	return faultyStore{of, &faultyLog{EventLog: of.Log(), reads: make(chan error, 10)}}
}

func (l *faultyLog) Append(ctx context.Context, h *home.Home, stream string, data ...[]byte) (uint64, error) {
	if l.moved.Load() {
		return 0, session.ErrMoved
	}
	return l.EventLog.Append(ctx, h, stream, data...)
}

func (l *faultyLog) Finish(ctx context.Context, h *home.Home, stream string, data ...[]byte) (uint64, error) {
	switch {
	case l.moved.Load():
		return 0, session.ErrMoved
	case l.crammed.Add(-1) >= 0:
		return 0, session.ErrUnavailable
	}
	return l.EventLog.Finish(ctx, h, stream, data...)
}

func (l *faultyLog) Read(ctx context.Context, h *home.Home, stream string, after uint64) ([]session.Event, bool,
	<-chan struct{}, error) {
	select {
	case err := <-l.reads:
		if err != nil {
			return nil, errors.Is(err, session.ErrGap), nil, err
		}
	default:
	}
	return l.EventLog.Read(ctx, h, stream, after)
}

// TestFinishAgain: while Redis is full, clients that follow a lost call retry finishing
// its stream at intervals, not all the time.
func TestFinishAgain(t *testing.T) {
	b := newBench(t, Config{})
	c := b.client(v2511)
	event := lostStream(t, b, c, "c-gone-1")
	const tries = 3
	b.faults.crammed.Store(tries)
	start := time.Now()
	m, err := follow(t, c, event).Response()
	wantLost(t, "who follows", m, err, `"the call"`)
	if took, least := time.Since(start), tries*time.Second/2; took < least {
		t.Errorf("it was tried %d times in %s, want at least %s", tries, took, least)
	}
}

// TestFollowLostEnd: if the response could not be kept, the client is told that, with an
// error.
func TestFollowLostEnd(t *testing.T) {
	b := newBench(t, Config{})
	c := b.client(v2511)
	event := lostStream(t, b, c, "c-"+b.front.endpoint.Replica+"-1")
	b.faults.reads <- session.ErrGap
	m, err := follow(t, c, event).Response()
	wantLost(t, "a response that could not be kept", m, err, `"the call"`)
}

// TestFollowUnknown: a client that resumes a stream which nobody has is told that the answer is lost,
// and only if the stream was forgotten that it came too late.
func TestFollowUnknown(t *testing.T) {
	b := newBench(t, Config{})
	c := b.client(v2511)
	name := stream.CallName(keyOf(c), "gone-1", []byte(`"the call"`))
	for _, tt := range []struct {
		err  error
		code int
	}{{session.ErrNotFound, mcp.CodeUpstreamSessionLost}, {session.ErrForgotten, mcp.CodeInternal}} {
		b.faults.reads <- tt.err
		m, err := follow(t, c, stream.EventID(name, 7)).Response()
		if err != nil || m.Error == nil || m.Error.Code != tt.code || string(m.ID) != `"the call"` ||
			!strings.Contains(string(m.Error.Data), `"executed":"unknown"`) {
			t.Errorf("%v: %s %v", tt.err, m.Text, err)
		}
	}
}

// TestFollowWithoutStore: a call's stream that cannot be read now is not an unknown stream. A
// client that wants to resume it is told to come again, and a client that follows it continues
// once it can be read.
func TestFollowWithoutStore(t *testing.T) {
	b := newBench(t, Config{})
	c := b.client(v2511)
	stream := "c-" + b.front.endpoint.Replica + "-1"
	event := lostStream(t, b, c, stream)
	log := b.faults
	for _, err := range []error{session.ErrUnavailable, session.ErrMoved} { // the second one while the session is given up
		log.reads <- err
		if x := follow(t, c, event); x.Status != http.StatusServiceUnavailable || x.Header.Get("Retry-After") == "" {
			t.Errorf("%v: status %d, Retry-After %q", err, x.Status, x.Header.Get("Retry-After"))
		}
	}
	// the first one is for a stream that is found
	for _, err := range []error{nil, session.ErrUnavailable, session.ErrUnavailable} {
		log.reads <- err
	}
	x := follow(t, c, event)
	if _, err := log.EventLog.Append(t.Context(), b.home(c), stream,
		[]byte(`{"jsonrpc":"2.0","method":"notifications/progress","params":{}}`)); err != nil {
		t.Fatal(err)
	}
	if _, err := x.Until("notifications/progress"); err != nil {
		t.Errorf("a stream is not gone on with once the store is back: %v", err)
	}
	if _, err := log.EventLog.Finish(t.Context(), b.home(c), stream,
		[]byte(`{"jsonrpc":"2.0","id":1,"result":{}}`)); err != nil {
		t.Fatal(err)
	}
	if m, err := x.Response(); err != nil || string(m.Result) != "{}" {
		t.Errorf("%s %v", m.Text, err)
	}
	if len(log.reads) > 0 {
		t.Error("it was never away")
	}
}

// TestFenced: a replica that others considered gone, and that comes back, writes nothing
// more for its calls: another replica owns their session, and has told the client that they
// are lost.
func TestFenced(t *testing.T) {
	hows := map[string]func(b *bench, log *faultyLog, h *home.Home, stream string){
		"answered as lost": func(b *bench, log *faultyLog, h *home.Home, stream string) {
			if _, err := log.EventLog.Finish(b.t.Context(), h, stream,
				[]byte(`{"jsonrpc":"2.0","id":7,"error":{"code":50205,"message":"lost"}}`)); err != nil {
				b.t.Fatal(err)
			}
		},
		"refused by the fence": func(_ *bench, log *faultyLog, _ *home.Home, _ string) { log.moved.Store(true) },
		"dropped": func(_ *bench, log *faultyLog, h *home.Home, _ string) {
			log.moved.Store(true)
			h.EndLater(home.Moved)
		},
	}
	for how, taken := range hows {
		t.Run(how, func(t *testing.T) {
			b := newBench(t, Config{StreamAfter: time.Millisecond})
			c := b.client(v2511)
			log := b.faults
			running := rawStream(t, b, c,
				`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"slow","_meta":{"progressToken":1}}}`)
			stream, _, _ := strings.Cut(running.id(t), ".")
			call := receive(t, "the call", b.script.started)
			taken(b, log, b.home(c), stream)
			call.Notify(progress("2"))
			if err := receive(t, "the call's end", b.script.ended); !errors.Is(err, context.Canceled) { // nobody hears of it
				t.Errorf("the call ended with %v", err)
			}
			if rest := strings.Join(running.end(t), "\n"); strings.Contains(rest, "data: {") {
				t.Errorf("the replica still says %s", rest)
			}
			wantCount(t, "calls that were fenced", b.front.endpoint.Metrics.Fenced, 1)
		})
	}
}

// TestDropped: a call without a stream, which nobody can come back for, is answered as lost by
// the replica that drops it.
func TestDropped(t *testing.T) {
	b := newBench(t, Config{})
	c := b.client(v2511)
	answers, _ := start(t, c, `"the call"`, `{"name":"slow"}`)
	receive(t, "the call", b.script.started)
	b.home(c).EndLater(home.Moved)
	x := receive(t, "the answer", answers)
	defer x.Close()
	m, err := x.Response()
	wantLost(t, "the answer", m, err, `"the call"`)
	<-b.script.ended
}

// TestDroppedListener: the listener of a session that is dropped, or given up, ends after the
// upstreams have let go of the session. Before that, they would unsubscribe what the next
// owner wants.
func TestDroppedListener(t *testing.T) {
	for name, drop := range map[string]func(f *Front, h *home.Home){
		"dropped":  func(_ *Front, h *home.Home) { h.EndLater(home.Moved) },
		"given up": func(f *Front, _ *home.Home) { f.Drain(t.Context(), true) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, Config{})
			listening, ended := make(chan context.Context, 1), make(chan struct{})
			b.front.endpoint.Handler = mcp.HandlerFunc(func(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
				if c.Method == mcp.MethodListen {
					listening <- ctx
					defer close(ended)
				}
				return b.script.Handle(ctx, c)
			})
			c := b.client(v2511)
			x := follow(t, c, "")
			defer x.Close()
			ctx := receive(t, "the listener", listening)
			b.script.waitListening(t, 1)
			b.home(c).Attach(func(home.Why) {
				if ctx.Err() != nil {
					t.Error("it is stopped while the upstreams still have the session")
				}
			})
			drop(b.front, b.home(c))
			receive(t, "the listener's end", ended)
		})
	}
}

// TestTakeover: the new owner of a session has missed changes to what its client follows, so
// the client's next stream is told that everything may have changed.
func TestTakeover(t *testing.T) {
	b := replicas(t, 1)[0]
	c := b.client(v2511)
	if m, _, err := c.Call(soon(t), mcp.MethodResourcesSubscribe, `{"uri":"doc://1"}`); err != nil || m.Error != nil {
		t.Fatal(m.Text, err)
	}
	b.giveUp(c) // this leaves the record as another replica finds it
	x := follow(t, c, "")
	got := make(map[string]bool)
	for range 5 {
		m, err := x.Next()
		if err != nil {
			t.Fatal(err)
		}
		got[m.Method] = true
	}
	for _, want := range []string{mcp.NoteToolsListChanged, mcp.NoteResourcesListChanged, mcp.NotePromptsListChanged,
		mcp.NoteResourceUpdated} {
		if !got[want] {
			t.Errorf("nothing of %s: %v", want, got)
		}
	}
}
