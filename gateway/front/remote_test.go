package front

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// post delivers letters between fronts of one process; those to nobody are lost.
type post struct {
	name   string
	others map[string]*Front

	mu   sync.Mutex // guards the fields below
	sent []string   // to one replica each, as they were sealed
	told int        // broadcasts
	gone map[string]chan struct{}

	losing int  // how many more letters are lost
	unsure bool // nobody says that a letter has arrived
}

func (p *post) Self() string { return p.name }

// Watch tells of those that lose is called for.
func (p *post) Watch(replica string) (gone <-chan struct{}, stop func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone[replica] == nil {
		if p.gone == nil {
			p.gone = make(map[string]chan struct{})
		}
		p.gone[replica] = make(chan struct{})
	}
	return p.gone[replica], func() {}
}

func (p *post) Present(_ context.Context, replica string) bool {
	gone, _ := p.Watch(replica)
	return !closed(gone)
}

// lose has a replica be gone, which gets no letters from here either.
func (p *post) lose(replica string) {
	_, _ = p.Watch(replica)
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.gone[replica])
}

func (p *post) Send(_ context.Context, replica string, message []byte) error {
	p.mu.Lock()
	p.sent = append(p.sent, string(message))
	lost := p.losing > 0
	p.losing--
	unsure := p.unsure
	p.mu.Unlock()
	if lost {
		return session.ErrUnavailable
	}
	if f := p.others[replica]; f != nil && p.Present(context.Background(), replica) {
		f.Mail(message)
	}
	if unsure {
		return errors.Join(session.ErrUnavailable, session.ErrUnsure)
	}
	return nil
}

// fail has the next letters be lost.
func (p *post) fail(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.losing = n
}

// broadcasts are how many there were.
func (p *post) broadcasts() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.told
}

// letters are those that were sent to one replica each.
func (p *post) letters() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.sent)
}

func (p *post) Broadcast(_ context.Context, message []byte) error {
	p.mu.Lock()
	p.told++
	lost := p.losing > 0
	p.losing--
	p.mu.Unlock()
	if lost {
		return session.ErrUnavailable
	}
	for name, f := range p.others {
		if name != p.name && p.Present(context.Background(), name) {
			f.Mail(message)
		}
	}
	return nil
}

var replicaSecret = []byte("0123456789abcdef0123456789abcdef")

// replicaFronts are two fronts, a and b, that serve calls by these handlers.
func replicaFronts(t *testing.T, a, b mcp.HandlerFunc) (fronts map[string]*Front, posts map[string]*post) {
	t.Helper()
	store, err := session.NewMemory(session.Config{}, session.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	fronts, posts = map[string]*Front{}, map[string]*post{}
	for name, handler := range map[string]mcp.HandlerFunc{"a": a, "b": b} {
		key, err := seal.NewKey(replicaSecret, "test")
		if err != nil {
			t.Fatal(err)
		}
		posts[name] = &post{name: name, others: fronts}
		fronts[name], err = New(Config{SSEPath: ssePath}, Deps{Handler: handler, Sessions: store, Seal: key, Mail: posts[name], Callers: Callers{auth.WriteCaller, auth.ReadCaller}, Log: slog.New(slog.DiscardHandler),
			Direct: func(context.Context, string, *mcp.Call) (*mcp.Reply, error) { return nil, ErrNotThere }})
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		for _, f := range fronts {
			if err := f.Close(context.Background()); err != nil {
				t.Error(err)
			}
		}
		store.Close()
	})
	return fronts, posts
}

func unexpected(context.Context, *mcp.Call) (*mcp.Reply, error) { return nil, errors.New("unexpected") }

// A call made elsewhere is the same call, and what comes of it comes back.
func TestRemoteCall(t *testing.T) {
	expires := time.Now().Add(time.Hour).Round(0)
	call := &mcp.Call{
		ID: "a-1", Method: mcp.MethodToolsCall, Name: "t", Params: mcp.Raw(`{"name":"t", "x":1.0}`), Session: "u:~s", Ephemeral: true, Caps: mcp.Raw(`{"roots":{}}`),
		LogLevel: "info", ParamHeaders: map[string]string{"x": "y"}, State: "s", Answers: map[string]mcp.Raw{"q": mcp.Raw(`{"a":"<&>"}`)},
		Refused: map[string]*mcp.Error{"r": {Code: -1, Message: "no", Data: mcp.Raw(`{}`)}},
		Caller:  mcp.NewCaller(mcp.Caller{Issuer: "i", Subject: "s", ClientID: "c", Groups: []string{"g"}, Scopes: []string{"o"}, Claims: mcp.Raw(`{"sub":"s"}`), Expires: expires, Token: "t0ken"}),
	}
	var got *mcp.Call
	reply := func() (*mcp.Reply, error) {
		return &mcp.Reply{Result: mcp.Raw(`{"x":1.0, "y":"<&>"}`), Task: true}, nil
	}
	fronts, _ := replicaFronts(t, unexpected, func(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
		got = c
		if caller, ok := mcp.CallerFrom(ctx); !ok || caller.Token != "t0ken" {
			t.Error("the context has no caller")
		}
		c.Notify(mcp.Event{Method: mcp.NoteProgress, Params: mcp.Raw(`{"progress":1.0}`)})
		return reply()
	})
	var events []string
	call.Notify = func(e mcp.Event) { events = append(events, e.Method+string(e.Params)) }
	made := func() (*mcp.Reply, error) { return elsewhere{fronts["a"], "b"}.Handle(t.Context(), call) }

	r, err := made()
	if err != nil || string(r.Result) != `{"x":1.0, "y":"<&>"}` || !r.Task || r.Ask != nil {
		t.Errorf("got %+v, %v", r, err)
	}
	if strings.Join(events, "|") != mcp.NoteProgress+`{"progress":1.0}` {
		t.Errorf("events: %q", events)
	}
	if got.ID != call.ID || got.Method != call.Method || got.Name != call.Name || string(got.Params) != string(call.Params) || got.Session != call.Session ||
		!got.Ephemeral || string(got.Caps) != string(call.Caps) || got.LogLevel != "info" || got.ParamHeaders["x"] != "y" || got.State != "s" ||
		string(got.Answers["q"]) != `{"a":"<&>"}` || got.Refused["r"].Message != "no" {
		t.Errorf("the call there: %+v", got)
	}
	if c := got.Caller; c.User() != call.Caller.User() || c.ClientID != "c" || c.Groups[0] != "g" || c.Scopes[0] != "o" || string(c.Claims) != `{"sub":"s"}` || !c.Expires.Equal(expires) {
		t.Errorf("the caller there: %+v", c)
	}

	reply = func() (*mcp.Reply, error) {
		return &mcp.Reply{Ask: &mcp.Ask{State: "next", Here: true, Expires: expires, Requests: []mcp.InputRequest{{Key: "k", Method: mcp.MethodElicit, Params: mcp.Raw(`{}`)}}}}, nil
	}
	if r, err := made(); err != nil || r.Ask == nil || r.Ask.State != "next" || !r.Ask.Here || !r.Ask.Expires.Equal(expires) || r.Ask.Requests[0].Key != "k" {
		t.Errorf("a question: %+v, %v", r, err)
	}
	reply = func() (*mcp.Reply, error) { return nil, &mcp.Error{Code: 7, Message: "m", Data: mcp.Raw(`{"a":1}`)} }
	if _, err := made(); !errors.Is(err, &mcp.Error{Code: 7}) {
		t.Errorf("an error: %v", err)
	}
	reply = func() (*mcp.Reply, error) { return nil, errors.New("secret of the house") }
	if _, err := made(); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("an error that is not the client's to read: %v", err)
	}
	reply = func() (*mcp.Reply, error) { panic("there") }
	if _, err := made(); err == nil {
		t.Error("a panic is no reply")
	}
}

// H/178: a call of which Redis did not say that the other replica was told of it may run
// there: it is waited for, and not said not to have run.
func TestRemoteUnsure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fronts, posts := replicaFronts(t, unexpected, func(context.Context, *mcp.Call) (*mcp.Reply, error) {
			return &mcp.Reply{Result: mcp.Raw(`{"ran":true}`)}, nil
		})
		call := &mcp.Call{ID: "a-1", Method: mcp.MethodToolsCall, Name: "t", Notify: func(mcp.Event) {}}
		posts["a"].unsure = true
		if r, err := (elsewhere{fronts["a"], "b"}).Handle(t.Context(), call); err != nil || string(r.Result) != `{"ran":true}` {
			t.Errorf("H/178 a letter that may have arrived: %+v, %v", r, err)
		}
		synctest.Wait() // until it has said that the reply has come
		posts["a"].fail(1)
		if _, err := (elsewhere{fronts["a"], "b"}).Handle(t.Context(), call); !errors.Is(err, &mcp.Error{Code: mcp.CodeStoreUnavailable}) {
			t.Errorf("H/178 a letter that has not: %v", err)
		}
	})
}

// Who leaves ends the call there; who never comes back for a question has it let go.
func TestRemoteCancel(t *testing.T) {
	began, ended := make(chan error, 1), make(chan error, 1)
	fronts, _ := replicaFronts(t, unexpected, func(ctx context.Context, _ *mcp.Call) (*mcp.Reply, error) {
		began <- ctx.Err()
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return nil, ctx.Err()
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	call := &mcp.Call{ID: "a-1", Method: mcp.MethodToolsCall, Notify: func(mcp.Event) {}}
	go func() {
		_, err := elsewhere{fronts["a"], "b"}.Handle(ctx, call)
		done <- err
	}()
	if err := <-began; err != nil {
		t.Errorf("it begins with %v", err)
	}
	cancel()
	if err := <-ended; !errors.Is(err, errCancelled) {
		t.Errorf("there it ends with %v", err)
	}
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("here it ends with %v", err)
	}
	call.ID = "a-2"
	if _, err := (elsewhere{fronts["a"], "b"}).Handle(ctx, call); !errors.Is(err, context.Canceled) {
		t.Errorf("let go: %v", err)
	}
	if err := <-began; err == nil {
		t.Error("what is let go begins as if it were not")
	}
	<-ended
}

// A replica that has gone is not waited for, and one that is slow is.
func TestRemoteLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fronts, _ := replicaFronts(t, unexpected, func(context.Context, *mcp.Call) (*mcp.Reply, error) {
			time.Sleep(10 * time.Minute)
			return result(`{}`), nil
		})
		call := &mcp.Call{ID: "a-1", Method: mcp.MethodToolsCall, Notify: func(mcp.Event) {}}
		start := time.Now()
		_, err := elsewhere{fronts["a"], "gone"}.Handle(t.Context(), call)
		if !errors.Is(err, &mcp.Error{Code: mcp.CodeUpstreamSessionLost}) || time.Since(start) != lostTime {
			t.Errorf("after %s: %v", time.Since(start), err)
		}
		start = time.Now()
		if _, err := (elsewhere{fronts["a"], "b"}).Handle(t.Context(), call); err != nil || time.Since(start) < 10*time.Minute {
			t.Errorf("after %s: %v", time.Since(start), err)
		}
	})
}

// Whoever can use the same Redis cannot have anything done.
func TestMailForged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fronts, posts := replicaFronts(t, unexpected, func(context.Context, *mcp.Call) (*mcp.Reply, error) {
			return result(`{}`), nil
		})
		call := &mcp.Call{ID: "a-1", Method: mcp.MethodToolsCall, Notify: func(mcp.Event) {}}
		if _, err := (elsewhere{fronts["a"], "b"}).Handle(t.Context(), call); err != nil {
			t.Fatal(err)
		}
		genuine := posts["a"].letters()[0]
		synctest.Wait()
		before := len(posts["b"].letters())
		for what, letter := range map[string]string{
			"garbage":       "x",
			"nothing":       "",
			"a number":      `{"kind":7}`,
			"no known kind": `{"kind":"x","from":"a","number":"1"}`,
			"nobody's call": `{"kind":"call","from":"a","number":"1"}`,
			"of no replica": `{"kind":"call","from":"*","number":"1","call":{}}`,
		} {
			fronts["b"].Mail([]byte(letter))
			if len(posts["b"].letters()) != before {
				t.Errorf("%s: it is answered", what)
			}
		}
		if fronts["a"].askedAt(mcp.String("gatehouse-b-1")) != "b" {
			t.Error("a question of b is not known for one")
		}
		for _, id := range []string{`"gatehouse-a-1"`, `"gatehouse-*-1"`, `"gatehouse-b"`, `"b-1"`, `7`, `"gatehouse--1"`} {
			if at := fronts["a"].askedAt(mcp.Raw(id)); at != "" {
				t.Errorf("the answer to %s would go to %q", id, at)
			}
		}
		if genuine == "" {
			t.Error("there was no letter")
		}
	})
}
