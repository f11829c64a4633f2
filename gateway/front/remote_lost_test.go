package front

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/refuse"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// clientOf is a client of a front with its session.
func clientOf(t *testing.T, f *Front, revision string) (c *mcptest.Client, user string) {
	t.Helper()
	caller := mcp.NewCaller(mcp.Caller{Subject: "alice"})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.ServeHTTP(w, r.WithContext(mcp.WithCaller(r.Context(), caller)))
	}))
	transport := &http.Transport{}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		server.CloseClientConnections()
		server.Close()
	})
	c = mcptest.NewClient(server.URL, wire.Lookup(revision))
	c.HTTP = &http.Client{Transport: transport}
	if err := c.Open(soon(t)); err != nil {
		t.Fatal(err)
	}
	return c, caller.User()
}

func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), tooLong)
	t.Cleanup(cancel)
	return ctx
}

// discovered answers what a client asks as it begins.
func discovered(c *mcp.Call) (*mcp.Reply, error) {
	if c.Method == mcp.MethodDiscover {
		return result(`{"capabilities":` + scriptCaps + `}`), nil
	}
	return nil, mcp.ErrMethod(c.Method)
}

// wantLost checks the answer to a call whose replica has gone.
func wantLost(t *testing.T, what string, m mcptest.Message, err error, id string) {
	t.Helper()
	if err != nil || m.Error == nil || m.Error.Code != mcp.CodeUpstreamSessionLost || string(m.ID) != id {
		t.Errorf("%s: %s %v", what, m.Text, err)
		return
	}
	for _, part := range []string{`"executed":"unknown"`, `"retryable":false`, `"request_id":"`} {
		if !strings.Contains(string(m.Error.Data), part) {
			t.Errorf("%s: the error lacks %s: %s", what, part, m.Error.Data)
		}
	}
}

// Whoever follows the call of a replica that goes is told once that it is lost, whoever
// else does is told the same, and a later one finds it in the log.
func TestFollowLost(t *testing.T) {
	fronts, posts := replicaFronts(t, unexpected, func(_ context.Context, c *mcp.Call) (*mcp.Reply, error) { return discovered(c) })
	c, user := clientOf(t, fronts["b"], v2511)
	key := user + ":" + c.Session
	log := fronts["b"].sessions.Log()
	if _, err := log.Begin(t.Context(), key, "c-gone-1", []byte(`"the call"`), nil); err != nil {
		t.Fatal(err)
	}
	seq, err := log.Append(t.Context(), key, "c-gone-1", []byte(`{"jsonrpc":"2.0","method":"notifications/progress","params":{}}`))
	if err != nil {
		t.Fatal(err)
	}
	const followers = 50
	var follows []*mcptest.Exchange
	for range followers {
		x, err := c.Get(soon(t), eventID("c-gone-1", seq-1))
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		if _, err := x.Until("notifications/progress"); err != nil {
			t.Fatal(err)
		}
		follows = append(follows, x)
	}
	posts["b"].lose("gone")
	for _, x := range follows {
		m, err := x.Response()
		wantLost(t, "who follows", m, err, `"the call"`)
		if m.EventID == "" {
			t.Error("the error is not in the log")
		}
	}
	late, err := c.Get(soon(t), eventID("c-gone-1", seq))
	if err != nil {
		t.Fatal(err)
	}
	defer late.Close()
	m, err := late.Response()
	wantLost(t, "who comes later", m, err, `"the call"`)
	events, ended, _, err := log.Read(t.Context(), key, "c-gone-1", seq)
	if len(events) != 1 || !ended || err != nil {
		t.Errorf("%d events, ended %t, %v", len(events), ended, err)
	}

	// One of which it is not known what it answers.
	if seq, err = log.Append(t.Context(), key, "c-gone-2", nil); err != nil {
		t.Fatal(err)
	}
	x, err := c.Get(soon(t), eventID("c-gone-2", seq))
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	if m, err := x.Next(); err == nil {
		t.Errorf("got %s", m.Text)
	}
}

// unwatched is a mailbox that at first watches too many replicas.
type unwatched struct {
	*post
	left *atomic.Int64
}

func (u unwatched) Watch(replica string) (gone <-chan struct{}, stop func()) {
	if u.left.Add(-1) >= 0 {
		return nil, func() {}
	}
	return u.post.Watch(replica)
}

// Who follows the call of a replica that cannot be watched at first is told that it is lost
// as soon as it can be.
func TestFollowUnwatched(t *testing.T) {
	fronts, posts := replicaFronts(t, unexpected, func(_ context.Context, c *mcp.Call) (*mcp.Reply, error) { return discovered(c) })
	c, user := clientOf(t, fronts["b"], v2511)
	log := fronts["b"].sessions.Log()
	seq, err := log.Begin(t.Context(), user+":"+c.Session, "c-gone-1", []byte(`"the call"`), nil)
	if err != nil {
		t.Fatal(err)
	}
	left := &atomic.Int64{}
	left.Store(1)
	fronts["b"].mail = unwatched{posts["b"], left}
	posts["b"].lose("gone")
	x, err := c.Get(soon(t), eventID("c-gone-1", seq))
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	// In Redis this comes from time to time: something may be new.
	if _, err := log.Append(t.Context(), user+":"+c.Session, "c-gone-1", []byte(`{"jsonrpc":"2.0","method":"notifications/progress","params":{}}`)); err != nil {
		t.Fatal(err)
	}
	m, err := x.Response()
	wantLost(t, "who follows", m, err, `"the call"`)
}

// crammedLog is an event log that for a number of times cannot finish a stream.
type crammedLog struct {
	session.EventLog
	left *atomic.Int64
}

func (l crammedLog) Finish(ctx context.Context, key, stream string, data []byte) (uint64, error) {
	if l.left.Add(-1) >= 0 {
		return 0, session.ErrUnavailable
	}
	return l.EventLog.Finish(ctx, key, stream, data)
}

type crammedStore struct {
	session.Store
	left *atomic.Int64
}

func (s crammedStore) Log() session.EventLog { return crammedLog{s.Store.Log(), s.left} }

// H/185: while Redis is full, whoever follows a call that is lost tries now and then to
// finish its stream, not all the time.
func TestBuryAgain(t *testing.T) {
	fronts, posts := replicaFronts(t, unexpected, func(_ context.Context, c *mcp.Call) (*mcp.Reply, error) { return discovered(c) })
	c, user := clientOf(t, fronts["b"], v2511)
	seq, err := fronts["b"].sessions.Log().Begin(t.Context(), user+":"+c.Session, "c-gone-1", []byte(`"the call"`), nil)
	if err != nil {
		t.Fatal(err)
	}
	const tries = 3
	left := &atomic.Int64{}
	left.Store(tries)
	fronts["b"].sessions = crammedStore{fronts["b"].sessions, left}
	posts["b"].lose("gone")
	start := time.Now()
	x, err := c.Get(soon(t), eventID("c-gone-1", seq))
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	m, err := x.Response()
	wantLost(t, "who follows", m, err, `"the call"`)
	if took, least := time.Since(start), tries*readAgain/2; took < least {
		t.Errorf("H/185 it was tried %d times in %s, want at least %s", tries, took, least)
	}
}

// H/192: a replica that others took to have gone, and that comes back, has nothing more to
// say of its calls: their client has been told that they are lost.
func TestFenced(t *testing.T) {
	for _, how := range []string{"progress", "the result"} {
		t.Run(how, func(t *testing.T) {
			goOn, ended := make(chan struct{}), make(chan error, 1)
			fronts, _ := replicaFronts(t, func(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
				if c.Method != mcp.MethodToolsCall {
					return discovered(c)
				}
				c.Notify(progress("1"))
				<-goOn
				if how == "progress" {
					c.Notify(progress("2"))
					select { // a call that nobody hears of is not gone on with
					case <-ctx.Done():
					case <-time.After(tooLong):
					}
				}
				ended <- context.Cause(ctx)
				return result(`{"content":[]}`), nil
			}, unexpected)
			c, user := clientOf(t, fronts["a"], v2511)
			x, err := c.SendID(soon(t), `"the call"`, mcp.MethodToolsCall, `{"name":"t","_meta":{"progressToken":1}}`)
			if err != nil {
				t.Fatal(err)
			}
			defer x.Close()
			m, err := x.Until("notifications/progress")
			if err != nil {
				t.Fatal(err)
			}
			stream, _, _ := strings.Cut(m.EventID, ".")
			if err := fronts["b"].bury(t.Context(), user+":"+c.Session, stream, wire.Lookup(v2511)); err != nil {
				t.Fatal(err)
			}
			close(goOn)
			if m, err := x.Next(); err == nil {
				t.Errorf("H/192 the replica still says %s", m.Text)
			}
			wantCount(t, "calls that others took to be lost", fronts["a"].metrics.fenced, 1)
			if cause := <-ended; how == "progress" && !errors.Is(cause, errFenced) {
				t.Errorf("the call ended with %v", cause)
			}
			back, err := c.Get(soon(t), m.EventID)
			if err != nil {
				t.Fatal(err)
			}
			defer back.Close()
			m, err = back.Response()
			wantLost(t, "H/192 the answer that counts", m, err, `"the call"`)
		})
	}
}

// away is a session store whose event log is not available for a number of reads.
type away struct {
	session.Store
	log awayLog
}

type awayLog struct {
	session.EventLog
	reads chan error // what Read answers instead, as long as there is something
}

func (a away) Log() session.EventLog {
	l := a.log
	l.EventLog = a.Store.Log()
	return l
}

func (l awayLog) Read(ctx context.Context, key, stream string, after uint64) ([]session.Event, bool, <-chan struct{}, error) {
	select {
	case err := <-l.reads:
		if err != nil {
			return nil, false, nil, err
		}
	default:
	}
	return l.EventLog.Read(ctx, key, stream, after)
}

// A call's stream that cannot be read now is not a stream that is not known: whoever wants
// to go on with it is told to come again, and whoever does goes on once it can be read.
func TestFollowWithoutStore(t *testing.T) {
	fronts, _ := replicaFronts(t, unexpected, func(_ context.Context, c *mcp.Call) (*mcp.Reply, error) { return discovered(c) })
	c, user := clientOf(t, fronts["b"], v2511)
	key := user + ":" + c.Session
	log := fronts["b"].sessions.Log()
	seq, err := log.Begin(t.Context(), key, "c-a-1", []byte("1"), nil)
	if err != nil {
		t.Fatal(err)
	}
	reads := make(chan error, 10)
	fronts["b"].sessions = away{fronts["b"].sessions, awayLog{reads: reads}}
	reads <- session.ErrUnavailable
	x, err := c.Get(soon(t), eventID("c-a-1", seq))
	if err != nil {
		t.Fatal(err)
	}
	x.Close()
	if x.Status != http.StatusServiceUnavailable || x.Header.Get("Retry-After") == "" {
		t.Errorf("H/178 the store is away: status %d, Retry-After %q", x.Status, x.Header.Get("Retry-After"))
	}
	for _, err := range []error{nil, session.ErrUnavailable, session.ErrUnavailable} { // the first one is of a stream that is found
		reads <- err
	}
	if x, err = c.Get(soon(t), eventID("c-a-1", seq)); err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	if _, err := log.Append(t.Context(), key, "c-a-1", []byte(`{"jsonrpc":"2.0","method":"notifications/progress","params":{}}`)); err != nil {
		t.Fatal(err)
	}
	if _, err := x.Until("notifications/progress"); err != nil {
		t.Errorf("H/178 a stream is not gone on with once the store is back: %v", err)
	}
	if _, err := log.Finish(t.Context(), key, "c-a-1", []byte(`{"jsonrpc":"2.0","id":1,"result":{}}`)); err != nil {
		t.Fatal(err)
	}
	if m, err := x.Response(); err != nil || string(m.Result) != "{}" {
		t.Errorf("%s %v", m.Text, err)
	}
	if len(reads) > 0 {
		t.Error("it was never away")
	}
}

// A replica that goes is not waited for, and the call of one that has gone is given up.
func TestRemoteGone(t *testing.T) {
	for _, goes := range []string{"b", "a"} { // who serves the call, who made it
		t.Run(goes, func(t *testing.T) {
			began, ended := make(chan struct{}, 1), make(chan error, 1)
			fronts, posts := replicaFronts(t, unexpected, func(ctx context.Context, _ *mcp.Call) (*mcp.Reply, error) {
				began <- struct{}{}
				<-ctx.Done()
				ended <- context.Cause(ctx)
				return nil, ctx.Err()
			})
			ctx := soon(t)
			done := make(chan error, 1)
			go func() {
				_, err := elsewhere{fronts["a"], "b"}.Handle(ctx, &mcp.Call{ID: "a-1", Method: mcp.MethodToolsCall, Notify: func(mcp.Event) {}})
				done <- err
			}()
			<-began
			if goes == "b" {
				posts["a"].lose("b")
				if err := <-done; !errors.Is(err, &mcp.Error{Code: mcp.CodeUpstreamSessionLost}) {
					t.Errorf("the replica that serves the call has gone: %v", err)
				}
				fronts["b"].dropRemote(letter{From: "a", Number: "a-1"})
				return
			}
			posts["b"].lose("a")
			if err := <-ended; !errors.Is(err, errCancelled) || ctx.Err() != nil {
				t.Errorf("the replica of the caller has gone: the call ended with %v", err)
			}
		})
	}
}

// An answer is carried until it has come, and counts once.
func TestAnswerCarried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fronts, posts := replicaFronts(t, unexpected, unexpected)
		record, err := fronts["a"].sessions.Create(t.Context(), session.Record{User: "u", Revision: v2511, Initialized: true})
		if err != nil {
			t.Fatal(err)
		}
		l, ref := fronts["b"].liveOf(t.Context(), record)
		if ref != nil {
			t.Fatal(ref.Err)
		}
		answers := make(chan answer, 10)
		ask := func(id string) wire.Message {
			if !l.expect(&question{id: mcp.String(id), answers: answers}) {
				t.Fatal("too many questions")
			}
			return wire.Message{Kind: wire.Response, ID: mcp.String(id), Result: mcp.Raw("{}")}
		}
		carry := func(m wire.Message) (*refuse.Refusal, time.Duration) {
			start := time.Now()
			return fronts["a"].answered(t.Context(), record, m, mcp.Caller{}), time.Since(start)
		}
		m := ask("gatehouse-b-1")
		if ref, took := carry(m); ref != nil || took != 0 {
			t.Errorf("an answer: %v after %s", ref, took)
		}
		if ref, took := carry(m); ref != nil || took != 0 {
			t.Errorf("an answer that nobody waits for: %v after %s", ref, took)
		}
		m = ask("gatehouse-b-2")
		posts["a"].fail(2)
		if ref, took := carry(m); ref != nil || took != 2*answerAgain || l.claim(m.ID) != nil {
			t.Errorf("an answer that is lost twice on the way: %v after %s", ref, took)
		}
		m = ask("gatehouse-b-3")
		posts["b"].fail(1)
		if ref, took := carry(m); ref != nil || took != answerAgain {
			t.Errorf("an answer of which it is lost that it came: %v after %s", ref, took)
		}
		posts["a"].fail(1000)
		if ref, took := carry(ask("gatehouse-b-4")); ref == nil || ref.Status != http.StatusServiceUnavailable || !ref.Retry || took != answerTime {
			t.Errorf("an answer that cannot be carried: %+v after %s", ref, took)
		}
		posts["a"].fail(0)
		posts["a"].lose("gone")
		if ref, took := carry(wire.Message{Kind: wire.Response, ID: mcp.String("gatehouse-gone-1")}); ref != nil || took != 0 {
			t.Errorf("an answer to a replica that has gone: %v after %s", ref, took)
		}
	})
}

// lostEnd is an event log that could not keep the end of a stream.
type lostEnd struct{ session.EventLog }

func (lostEnd) Read(context.Context, string, string, uint64) ([]session.Event, bool, <-chan struct{}, error) {
	return nil, true, nil, session.ErrGap
}

type lostEnds struct{ session.Store }

func (s lostEnds) Log() session.EventLog { return lostEnd{s.Store.Log()} }

// H/63: whose response could not be kept is told that, and by an error.
func TestFollowLostEnd(t *testing.T) {
	fronts, _ := replicaFronts(t, unexpected, func(_ context.Context, c *mcp.Call) (*mcp.Reply, error) { return discovered(c) })
	c, user := clientOf(t, fronts["b"], v2511)
	seq, err := fronts["b"].sessions.Log().Begin(t.Context(), user+":"+c.Session, "c-a-1", []byte(`"the call"`), nil)
	if err != nil {
		t.Fatal(err)
	}
	fronts["b"].sessions = lostEnds{fronts["b"].sessions}
	x, err := c.Get(soon(t), eventID("c-a-1", seq))
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	m, err := x.Response()
	wantLost(t, "H/63 a response that could not be kept", m, err, `"the call"`)
}

// Letters that come all at once wait for their turn.
func TestMailCrowd(t *testing.T) {
	fronts, _ := replicaFronts(t, unexpected, unexpected)
	f := fronts["a"]
	const letters = 10 * maxMail
	busy, goOn := make(chan struct{}, letters), make(chan struct{})
	var done atomic.Int64
	for range letters {
		f.apart(func(context.Context) {
			busy <- struct{}{}
			<-goOn
			done.Add(1)
		})
	}
	for range maxMail {
		<-busy
	}
	if len(busy) > 0 || len(f.mailing) != maxMail {
		t.Errorf("%d letters are worked at", maxMail+len(busy))
	}
	close(goOn)
	if err := f.Close(soon(t)); err != nil {
		t.Fatal(err)
	}
	if n := done.Load(); n != letters {
		t.Errorf("%d of %d letters were read", n, letters)
	}
	f.apart(func(context.Context) { t.Error("after Close something is done") })
}

// A replica that did not hear the others for a while looks whether it still is the one that
// listens for its sessions, and for what.
func TestRejoin(t *testing.T) {
	script := newScript()
	fronts, posts := replicaFronts(t, script.Handle, unexpected)
	c, user := clientOf(t, fronts["a"], v2511)
	x, err := c.Get(soon(t), "")
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	script.waitListening(t, 1)
	store := fronts["a"].sessions
	record := func(change func(*session.Record)) session.Record {
		t.Helper()
		r, err := store.Update(t.Context(), user, c.Session, change)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	await := func(what string, happened func() bool) {
		t.Helper()
		for tick, ctx := time.NewTicker(time.Millisecond), soon(t); !happened(); {
			select {
			case <-tick.C:
			case <-ctx.Done():
				t.Fatalf("%s: it does not happen", what)
			}
		}
	}
	await("it listens", func() bool { return record(func(*session.Record) {}).Standing == "a" })

	record(func(r *session.Record) { r.Subscriptions = []string{"doc://1"} })
	fronts["a"].Rejoin()
	l := fronts["a"].known(user + ":" + c.Session)
	await("what another replica subscribed to", func() bool { return l.honours("doc://1") })
	script.waitListening(t, 1)
	record(func(r *session.Record) { r.Subscriptions = nil })
	fronts["a"].Rejoin()
	await("what another replica unsubscribed from", func() bool { return !l.honours("doc://1") })
	script.waitListening(t, 1)

	for _, gone := range []string{"", "gone"} { // as if nobody had the stream
		record(func(r *session.Record) { r.Standing = gone })
		if gone != "" {
			posts["a"].lose(gone)
		}
		fronts["a"].Rejoin()
		await("it has the stream", func() bool { return record(func(*session.Record) {}).Standing == "a" })
	}

	record(func(r *session.Record) { r.Standing = "b" })
	fronts["a"].Rejoin()
	script.waitListening(t, 0)
}

// slowUpdates is a store whose first answer comes late.
type slowUpdates struct {
	session.Store
	updates atomic.Int64
	late    func()        // called before the first answer
	second  chan struct{} // closed by the second update
}

func (s *slowUpdates) Update(ctx context.Context, user, id string, change func(*session.Record)) (session.Record, error) {
	r, err := s.Store.Update(ctx, user, id, change)
	switch s.updates.Add(1) {
	case 1:
		s.late()
	case 2:
		close(s.second)
	}
	return r, err
}

// A stream that comes to a replica just as that leaves the session to another one is
// listened for.
func TestYieldAndStand(t *testing.T) {
	script := newScript()
	fronts, _ := replicaFronts(t, script.Handle, unexpected)
	f := fronts["a"]
	record, err := f.sessions.Create(t.Context(), session.Record{User: "u", Revision: v2511, Initialized: true, Standing: "b"})
	if err != nil {
		t.Fatal(err)
	}
	l, ref := f.liveOf(t.Context(), record)
	if ref != nil {
		t.Fatal(ref.Err)
	}
	caller := mcp.NewCaller(mcp.Caller{Subject: "alice"})
	l.saw(caller)
	l.listen(t.Context(), record, caller)
	script.waitListening(t, 1)
	stood, ctx := make(chan struct{}), soon(t)
	slow := &slowUpdates{Store: f.sessions, second: make(chan struct{})}
	slow.late = func() { // it was told that the other replica has the stream
		go func() {
			defer close(stood)
			l.stands(ctx, "")
		}()
		<-slow.second
	}
	f.sessions = slow
	l.yield(ctx, letter{From: "b"})
	<-stood
	l.mu.Lock()
	listens := l.heard != nil && !closed(l.heard.ended)
	l.mu.Unlock()
	if !listens {
		t.Error("nobody listens for the session's stream")
	}
}
