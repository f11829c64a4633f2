package upstream_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

func TestSSERefusedPosts(t *testing.T) {
	for _, tt := range []struct {
		name, body string
		status     int
		code       int
		executed   mcp.Executed
		calls      int // a message that certainly did not arrive is sent again, once
	}{
		{"the session is not known", "", 404, mcp.CodeUpstreamSessionLost, mcp.ExecutedNo, 2},
		{"the session is not known, in words", "No transport found for sessionId", 400, mcp.CodeUpstreamSessionLost,
			mcp.ExecutedNo, 2},
		{"bad request", "oops", 400, mcp.CodeUpstreamBadAnswer, mcp.ExecutedNo, 1},
		{"method not allowed", "", 405, mcp.CodeUpstreamBadAnswer, mcp.ExecutedNo, 1},
		{"unauthorized", "", 401, mcp.CodeUpstreamAuthFailed, mcp.ExecutedNo, 1},
		{"forbidden", "", 403, mcp.CodeUpstreamAuthFailed, mcp.ExecutedNo, 1},
		{"too many", "", 429, mcp.CodeRateLimited, mcp.ExecutedNo, 1},
		{"redirect", "", 307, mcp.CodeUpstreamBadAnswer, mcp.ExecutedNo, 1},
		{"broken", "", 500, mcp.CodeUpstreamBadAnswer, mcp.ExecutedUnknown, 1},
		{"unavailable", "", 503, mcp.CodeUpstreamUnreachable, mcp.ExecutedUnknown, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newSSEFake(t, newFake)
			var sound atomic.Bool
			f.posted = func(s *sseStream, w http.ResponseWriter, r *http.Request, m rpc) bool {
				if m.Method != mcp.MethodToolsCall || sound.Load() {
					return false
				}
				w.Header().Set("Location", "http://127.0.0.1:1/")
				http.Error(w, tt.body, tt.status)
				return true
			}
			u := f.start(t, overSSE())
			_, err := do(t, u, tool("a"))
			wantError(t, err, tt.code, tt.executed)
			if n := f.calls(); n != tt.calls {
				t.Errorf("sent %d times, want %d", n, tt.calls)
			}
			sound.Store(true)
			wantOK(t, u, tool("a"))
		})
	}
}

// A lost session is made anew, once, and messages that did not arrive are sent again.
func TestSSESessionGone(t *testing.T) {
	f := newSSEFake(t, newFake)
	u := f.start(t, overSSE())
	wantOK(t, u, tool("a"))
	f.mu.Lock()
	old := f.streams["s1"]
	delete(f.streams, "s1")
	f.mu.Unlock()
	wantOK(t, u, tool("a"))
	calls := f.requests(mcp.MethodToolsCall)
	if len(calls) != 3 || calls[2].target != "/messages?session=s2" || string(calls[1].ID) == string(calls[2].ID) {
		t.Errorf("calls %v", calls)
	}
	select { // the stream of the lost session is not left open
	case <-old.ctx.Done():
	case <-time.After(patience):
		t.Error("the old stream is still open")
	}
}

func TestSSEStreamEnds(t *testing.T) {
	t.Parallel()
	t.Run("a call that was sent is not sent again", func(t *testing.T) {
		f := newSSEFake(t, newFake)
		var ended atomic.Bool
		f.posted = func(s *sseStream, w http.ResponseWriter, r *http.Request, m rpc) bool {
			if m.Method == mcp.MethodToolsCall && ended.CompareAndSwap(false, true) {
				s.end()
				return true
			}
			return false
		}
		u := f.start(t, overSSE())
		_, err := do(t, u, tool("a"))
		wantError(t, err, mcp.CodeUpstreamBadAnswer, mcp.ExecutedUnknown)
		wantOK(t, u, tool("a"))
		if n := f.calls(); n != 2 {
			t.Errorf("%d calls", n)
		}
	})
	t.Run("its server goes, and comes back", func(t *testing.T) {
		f := newSSEFake(t, newFake)
		var gone atomic.Bool
		f.posted = func(s *sseStream, w http.ResponseWriter, r *http.Request, m rpc) bool {
			if m.Method != mcp.MethodToolsCall || !gone.Load() {
				return false
			}
			s.end()
			return true
		}
		f.opened = func(*sseStream) bool { return gone.Load() } // ends the stream without a message
		u := f.start(t, overSSE())
		wantOK(t, u, tool("a"))
		gone.Store(true)
		for range 3 { // only the second of them finds the session lost
			if _, err := do(t, u, tool("a")); err == nil {
				t.Error("answered by nobody")
			}
		}
		gone.Store(false)
		wantOK(t, u, tool("a"))
	})
	t.Run("what listens goes on", func(t *testing.T) {
		f := newSSEFake(t, newFake)
		u := f.start(t, overSSE())
		c := tool("a")
		c.LogLevel = "warning"
		wantOK(t, u, c)
		end, events := listen(t, u, `{"toolsListChanged":true,"resourceSubscriptions":["a:b"]}`, "user:session")
		next := func(want string) {
			t.Helper()
			select {
			case e := <-events:
				if e.Method != want {
					t.Errorf("event %s, want %s", e.Method, want)
				}
			case <-time.After(patience):
				t.Fatalf("no %s", want)
			}
		}
		next(mcp.NoteAcknowledged)
		f.mu.Lock()
		s := f.streams["s1"]
		f.mu.Unlock()
		s.say("data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n")
		next(mcp.NoteToolsListChanged)
		s.end()
		next(mcp.NoteToolsListChanged) // something may have been missed
		next(mcp.NoteResourceUpdated)
		for _, method := range []string{mcp.MethodSetLevel, mcp.MethodResourcesSubscribe} {
			got := f.requests(method)
			if len(got) != 2 || got[1].target != "/messages?session=s2" {
				t.Errorf("%s: %v, want it in both sessions", method, got)
			}
		}
		end()
	})
	t.Run("EndSession and Close end it", func(t *testing.T) {
		f := newSSEFake(t, newFake)
		closed := make(chan string, 10)
		f.opened = func(s *sseStream) bool {
			s.welcome()
			<-s.ctx.Done()
			closed <- s.id
			return true
		}
		u := f.start(t, overSSE())
		for _, session := range []string{"user:a", "user:b"} {
			c := tool("a")
			c.Session = session
			wantOK(t, u, c)
		}
		ends := func(want string) {
			t.Helper()
			select {
			case got := <-closed:
				if got != want {
					t.Errorf("stream %s ended, want %s", got, want)
				}
			case <-time.After(patience):
				t.Fatalf("stream %s did not end", want)
			}
		}
		endSession(u, "user:a", true)
		ends("s1")
		shut(t, u)
		ends("s2")
	})
}

// A server whose streams end soon does not get new ones in a loop; one whose streams end
// after a while still gets new ones.
func TestSSEStreamsThatEnd(t *testing.T) {
	for _, tt := range []struct {
		name  string
		lives time.Duration
		most  int // streams within an hour
		least int
	}{
		{"soon", time.Second, 200, 60},
		{"when they are idle", 30 * time.Second, 130, 110},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newSSEFake(t, newBubbleFake)
				f.opened = func(s *sseStream) bool {
					s.welcome()
					time.Sleep(tt.lives)
					return true
				}
				u := f.start(t, overSSE())
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				for ctx.Err() == nil { // as the catalog does
					_, _ = u.Handle(ctx, &mcp.Call{Method: mcp.MethodListen,
						Params: mcp.Raw(`{"notifications":{"toolsListChanged":true}}`), Notify: func(mcp.Event) {}})
					time.Sleep(time.Second)
				}
				if n := len(f.requests(http.MethodGet)); n > tt.most || n < tt.least {
					t.Errorf("%d streams were opened, want %d to %d", n, tt.least, tt.most)
				}
			})
		})
	}
}

func TestSSEHugeEvent(t *testing.T) {
	f := newSSEFake(t, newFake)
	f.posted = func(s *sseStream, w http.ResponseWriter, r *http.Request, m rpc) bool {
		if m.Method != mcp.MethodToolsCall || s.id != "s1" {
			return false
		}
		w.WriteHeader(http.StatusAccepted)
		s.answer(m, `{"content":[{"type":"text","text":"`+strings.Repeat("x", 17<<20)+`"}]}`)
		return true
	}
	u := f.start(t, overSSE())
	_, err := do(t, u, tool("a"))
	wantError(t, err, mcp.CodeUpstreamBadAnswer, mcp.ExecutedUnknown)
	wantOK(t, u, tool("a"))
}

func TestSSEGarbageWithoutAnEnd(t *testing.T) {
	f := newSSEFake(t, newFake)
	f.posted = func(s *sseStream, w http.ResponseWriter, r *http.Request, m rpc) bool {
		if m.Method != mcp.MethodToolsCall || s.id != "s1" {
			return false
		}
		for range 200 {
			s.say("data: hello\n\n")
		}
		<-s.ctx.Done()
		return true
	}
	u := f.start(t, overSSE())
	_, err := do(t, u, tool("a"))
	wantError(t, err, mcp.CodeUpstreamBadAnswer, mcp.ExecutedUnknown)
	wantOK(t, u, tool("a"))
	if got := u.Status().Garbage; got < 100 {
		t.Errorf("garbage %d", got)
	}
}

func TestSSEBatches(t *testing.T) {
	f := newSSEFake(t, newFake)
	f.posted = func(s *sseStream, w http.ResponseWriter, r *http.Request, m rpc) bool {
		if m.Method == mcp.MethodToolsCall {
			s.say(`data: [{"jsonrpc":"2.0","method":"notifications/tools/list_changed"},{"jsonrpc":"2.0","id":` + string(m.ID) +
				`,"result":` + okResult + "}]\n\n")
		}
		return m.Method == mcp.MethodToolsCall
	}
	wantOK(t, f.start(t, overSSE()), tool("a"))
}

// A ping gets an answer, even if the server answers no POST before its next event
// was read.
func TestSSEPing(t *testing.T) {
	f := newSSEFake(t, newFake)
	pong := make(chan struct{})
	f.posted = func(s *sseStream, w http.ResponseWriter, r *http.Request, m rpc) bool {
		switch {
		case m.Method == mcp.MethodToolsCall:
			s.say("data: {\"jsonrpc\":\"2.0\",\"id\":\"p1\",\"method\":\"ping\"}\n\n")
			<-pong
			s.answer(m, okResult)
			return true
		case m.Method == "" && string(m.ID) == `"p1"`:
			close(pong)
			<-r.Context().Done() // it has nothing to say, ever
			return true
		}
		return false
	}
	wantOK(t, f.start(t, overSSE()), tool("a"))
	if got := f.awaitAnswer(t, "p1"); got != "{}" {
		t.Errorf("answered %s", got)
	}
}

// Each user's stream and messages carry the user's credential, and a
// refused credential is renewed.
func TestSSECredentials(t *testing.T) {
	issuer := newTokens(t)
	f := newSSEFake(t, newFake)
	f.opened = func(s *sseStream) bool {
		s.welcome()
		<-s.ctx.Done()
		return true
	}
	var refuse atomic.Bool
	f.posted = func(s *sseStream, w http.ResponseWriter, r *http.Request, m rpc) bool {
		if m.Method == mcp.MethodToolsCall && refuse.CompareAndSwap(true, false) {
			w.WriteHeader(http.StatusUnauthorized)
			return true
		}
		return false
	}
	cfg := overSSE()
	cfg.URL, cfg.Auth = f.URL+"/sse", issuer.exchange()
	u, log := startAuthorized(t, cfg)
	for _, name := range []string{"ann", "bob"} {
		wantOK(t, u, of(name, tool("a")))
	}
	refuse.Store(true)
	wantOK(t, u, of("ann", tool("a")))
	owner := map[string]string{} // of a stream
	for i, s := range f.requests("") {
		token := strings.TrimPrefix(authorizationOf(s), "Bearer exchanged-")
		who, _, ok := strings.Cut(token, "-")
		if !ok {
			t.Errorf("request %d (%s) has the credential %q", i, s.target, authorizationOf(s))
		}
		if _, stream, ok := strings.Cut(s.target, "session="); ok {
			if owner[stream] == "" {
				owner[stream] = who
			}
			if owner[stream] != who {
				t.Errorf("%s of %s came on the stream of %s", s.Method, who, owner[stream])
			}
		}
	}
	if len(owner) != 2 || len(f.requests(http.MethodGet)) != 2 {
		t.Errorf("streams of %v", owner)
	}
	if strings.Contains(log.String(), "inbound-") || strings.Contains(log.String(), "exchanged-") {
		t.Error("a token is in the log")
	}
}

// If a server accepts neither server/discover nor initialize by POST, the gateway
// asks it for an event stream.
func TestSSEIsFoundOut(t *testing.T) {
	for _, status := range []int{400, 404, 405} {
		for _, revision := range []string{"", "2024-11-05"} {
			t.Run(fmt.Sprint(status, " ", revision), func(t *testing.T) {
				f := newSSEFake(t, newFake)
				inner := f.handle
				f.handle = func(g *fake, w http.ResponseWriter, r *http.Request, m rpc) bool {
					if r.Method == http.MethodPost && r.URL.Path == "/sse" {
						w.WriteHeader(status)
						return true
					}
					return inner(g, w, r, m)
				}
				u := f.start(t, upstream.Config{Revision: revision})
				for _, session := range []string{"user:a", "user:b"} {
					c := tool("a")
					c.Session = session
					wantOK(t, u, c)
				}
				tried := 0
				for _, s := range f.requests(http.MethodPost) {
					if s.target == "/sse" {
						tried++
					}
				}
				if want := 2; revision == "" && tried != want || revision != "" && tried != 1 {
					t.Errorf("%d messages were tried by POST: it is to be remembered", tried)
				}
				if got := u.Status(); got.Transport != "sse" || got.Revision != "2024-11-05" || !got.Stateful {
					t.Errorf("status %+v", got)
				}
			})
		}
	}
	t.Run("not where the transport is named", func(t *testing.T) {
		f := newSSEFake(t, newFake)
		_, err := do(t, f.start(t, upstream.Config{Transport: "streamable"}), tool("a"))
		wantError(t, err, mcp.CodeUpstreamBadAnswer, mcp.ExecutedNo)
		if n := len(f.requests(http.MethodGet)); n != 0 {
			t.Errorf("%d streams were asked for", n)
		}
	})
	t.Run("trouble with the stream concludes nothing", func(t *testing.T) {
		f := newSSEFake(t, newFake)
		var trouble atomic.Int32
		inner := f.handle
		f.handle = func(g *fake, w http.ResponseWriter, r *http.Request, m rpc) bool {
			if status := trouble.Load(); r.Method == http.MethodGet && status != 0 {
				w.WriteHeader(int(status))
				return true
			}
			return inner(g, w, r, m)
		}
		u := f.start(t, upstream.Config{})
		for status, code := range map[int32]int{
			401: mcp.CodeUpstreamAuthFailed, 503: mcp.CodeUpstreamUnreachable, 404: mcp.CodeUpstreamBadAnswer,
		} {
			trouble.Store(status)
			_, err := do(t, u, tool("a"))
			wantError(t, err, code, mcp.ExecutedNo)
		}
		trouble.Store(0)
		wantOK(t, u, tool("a"))
	})
	t.Run("the server learns a newer transport", func(t *testing.T) {
		f := newSSEFake(t, newFake)
		var learned atomic.Bool
		inner := f.handle
		f.handle = func(g *fake, w http.ResponseWriter, r *http.Request, m rpc) bool {
			if !learned.Load() {
				return inner(g, w, r, m)
			}
			if r.URL.Path != "/sse" {
				w.WriteHeader(http.StatusNotFound)
				return true
			}
			return false
		}
		u := f.start(t, upstream.Config{})
		wantOK(t, u, tool("a"))
		learned.Store(true)
		wantOK(t, u, tool("a"))
		if got := u.Status().Transport; got != "streamable" {
			t.Errorf("transport %s", got)
		}
	})
}
