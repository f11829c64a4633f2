package sse_test

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
	"github.com/gatehouse-mcp/gatehouse/upstream/upstreamtest/fake"
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
			f := fake.NewSSE(t, fake.New)
			var sound atomic.Bool
			f.Posted = func(s *fake.Stream, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
				if m.Method != mcp.MethodToolsCall || sound.Load() {
					return false
				}
				w.Header().Set("Location", "http://127.0.0.1:1/")
				http.Error(w, tt.body, tt.status)
				return true
			}
			u := f.Upstream(t, fake.OverSSE())
			_, err := fake.Do(t, u, fake.Tool("a"))
			fake.WantError(t, err, tt.code, tt.executed)
			if n := f.Calls(); n != tt.calls {
				t.Errorf("sent %d times, want %d", n, tt.calls)
			}
			sound.Store(true)
			fake.WantOK(t, u, fake.Tool("a"))
		})
	}
}

// A lost session is made anew, once, and messages that did not arrive are sent again.
func TestSSESessionGone(t *testing.T) {
	f := fake.NewSSE(t, fake.New)
	u := f.Upstream(t, fake.OverSSE())
	fake.WantOK(t, u, fake.Tool("a"))
	f.Mu.Lock()
	old := f.Streams["s1"]
	delete(f.Streams, "s1")
	f.Mu.Unlock()
	fake.WantOK(t, u, fake.Tool("a"))
	calls := f.Requests(mcp.MethodToolsCall)
	if len(calls) != 3 || calls[2].Target != "/messages?session=s2" || string(calls[1].ID) == string(calls[2].ID) {
		t.Errorf("calls %v", calls)
	}
	select { // the stream of the lost session is not left open
	case <-old.Ctx.Done():
	case <-time.After(fake.Patience):
		t.Error("the old stream is still open")
	}
}

func TestSSEStreamEnds(t *testing.T) {
	t.Parallel()
	t.Run("a call that was sent is not sent again", func(t *testing.T) {
		f := fake.NewSSE(t, fake.New)
		var ended atomic.Bool
		f.Posted = func(s *fake.Stream, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
			if m.Method == mcp.MethodToolsCall && ended.CompareAndSwap(false, true) {
				s.End()
				return true
			}
			return false
		}
		u := f.Upstream(t, fake.OverSSE())
		_, err := fake.Do(t, u, fake.Tool("a"))
		fake.WantError(t, err, mcp.CodeUpstreamBadAnswer, mcp.ExecutedUnknown)
		fake.WantOK(t, u, fake.Tool("a"))
		if n := f.Calls(); n != 2 {
			t.Errorf("%d calls", n)
		}
	})
	t.Run("its server goes, and comes back", func(t *testing.T) {
		f := fake.NewSSE(t, fake.New)
		var gone atomic.Bool
		f.Posted = func(s *fake.Stream, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
			if m.Method != mcp.MethodToolsCall || !gone.Load() {
				return false
			}
			s.End()
			return true
		}
		f.Opened = func(*fake.Stream) bool { return gone.Load() } // ends the stream without a message
		u := f.Upstream(t, fake.OverSSE())
		fake.WantOK(t, u, fake.Tool("a"))
		gone.Store(true)
		for range 3 { // only the second of them finds the session lost
			if _, err := fake.Do(t, u, fake.Tool("a")); err == nil {
				t.Error("answered by nobody")
			}
		}
		gone.Store(false)
		fake.WantOK(t, u, fake.Tool("a"))
	})
	t.Run("what listens goes on", func(t *testing.T) {
		f := fake.NewSSE(t, fake.New)
		u := f.Upstream(t, fake.OverSSE())
		c := fake.Tool("a")
		c.LogLevel = "warning"
		fake.WantOK(t, u, c)
		end, events := fake.Listen(t, u, `{"toolsListChanged":true,"resourceSubscriptions":["a:b"]}`, "user:session")
		next := func(want string) {
			t.Helper()
			select {
			case e := <-events:
				if e.Method != want {
					t.Errorf("event %s, want %s", e.Method, want)
				}
			case <-time.After(fake.Patience):
				t.Fatalf("no %s", want)
			}
		}
		next(mcp.NoteAcknowledged)
		f.Mu.Lock()
		s := f.Streams["s1"]
		f.Mu.Unlock()
		s.Say("data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n")
		next(mcp.NoteToolsListChanged)
		s.End()
		next(mcp.NoteToolsListChanged) // something may have been missed
		next(mcp.NoteResourceUpdated)
		for _, method := range []string{mcp.MethodSetLevel, mcp.MethodResourcesSubscribe} {
			got := f.Requests(method)
			if len(got) != 2 || got[1].Target != "/messages?session=s2" {
				t.Errorf("%s: %v, want it in both sessions", method, got)
			}
		}
		end()
	})
	t.Run("EndSession and Close end it", func(t *testing.T) {
		f := fake.NewSSE(t, fake.New)
		closed := make(chan string, 10)
		f.Opened = func(s *fake.Stream) bool {
			s.Welcome()
			<-s.Ctx.Done()
			closed <- s.ID
			return true
		}
		u := f.Upstream(t, fake.OverSSE())
		for _, session := range []string{"user:a", "user:b"} {
			c := fake.Tool("a")
			c.Session = session
			fake.WantOK(t, u, c)
		}
		ends := func(want string) {
			t.Helper()
			select {
			case got := <-closed:
				if got != want {
					t.Errorf("stream %s ended, want %s", got, want)
				}
			case <-time.After(fake.Patience):
				t.Fatalf("stream %s did not end", want)
			}
		}
		u.EndSession("user:a", true)
		ends("s1")
		fake.Close(t, u)
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
				f := fake.NewSSE(t, fake.NewBubble)
				f.Opened = func(s *fake.Stream) bool {
					s.Welcome()
					time.Sleep(tt.lives)
					return true
				}
				u := f.Upstream(t, fake.OverSSE())
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				for ctx.Err() == nil { // as the catalog does
					_, _ = u.Handle(ctx, &mcp.Call{Method: mcp.MethodListen,
						Params: mcp.Raw(`{"notifications":{"toolsListChanged":true}}`), Notify: func(mcp.Event) {}})
					time.Sleep(time.Second)
				}
				if n := len(f.Requests(http.MethodGet)); n > tt.most || n < tt.least {
					t.Errorf("%d streams were opened, want %d to %d", n, tt.least, tt.most)
				}
			})
		})
	}
}

func TestSSEHugeEvent(t *testing.T) {
	f := fake.NewSSE(t, fake.New)
	f.Posted = func(s *fake.Stream, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
		if m.Method != mcp.MethodToolsCall || s.ID != "s1" {
			return false
		}
		w.WriteHeader(http.StatusAccepted)
		s.Answer(m, `{"content":[{"type":"text","text":"`+strings.Repeat("x", 17<<20)+`"}]}`)
		return true
	}
	u := f.Upstream(t, fake.OverSSE())
	_, err := fake.Do(t, u, fake.Tool("a"))
	fake.WantError(t, err, mcp.CodeUpstreamBadAnswer, mcp.ExecutedUnknown)
	fake.WantOK(t, u, fake.Tool("a"))
}

func TestSSEGarbageWithoutAnEnd(t *testing.T) {
	f := fake.NewSSE(t, fake.New)
	f.Posted = func(s *fake.Stream, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
		if m.Method != mcp.MethodToolsCall || s.ID != "s1" {
			return false
		}
		for range 200 {
			s.Say("data: hello\n\n")
		}
		<-s.Ctx.Done()
		return true
	}
	u := f.Upstream(t, fake.OverSSE())
	_, err := fake.Do(t, u, fake.Tool("a"))
	fake.WantError(t, err, mcp.CodeUpstreamBadAnswer, mcp.ExecutedUnknown)
	fake.WantOK(t, u, fake.Tool("a"))
	if got := u.Status().Garbage; got < 100 {
		t.Errorf("garbage %d", got)
	}
}

func TestSSEBatches(t *testing.T) {
	f := fake.NewSSE(t, fake.New)
	f.Posted = func(s *fake.Stream, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
		if m.Method == mcp.MethodToolsCall {
			s.Say(`data: [{"jsonrpc":"2.0","method":"notifications/tools/list_changed"},{"jsonrpc":"2.0","id":` + string(m.ID) +
				`,"result":` + fake.OK + "}]\n\n")
		}
		return m.Method == mcp.MethodToolsCall
	}
	fake.WantOK(t, f.Upstream(t, fake.OverSSE()), fake.Tool("a"))
}

// A ping gets an answer, even if the server answers no POST before its next event
// was read.
func TestSSEPing(t *testing.T) {
	f := fake.NewSSE(t, fake.New)
	pong := make(chan struct{})
	f.Posted = func(s *fake.Stream, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
		switch {
		case m.Method == mcp.MethodToolsCall:
			s.Say("data: {\"jsonrpc\":\"2.0\",\"id\":\"p1\",\"method\":\"ping\"}\n\n")
			<-pong
			s.Answer(m, fake.OK)
			return true
		case m.Method == "" && string(m.ID) == `"p1"`:
			close(pong)
			<-r.Context().Done() // it has nothing to say, ever
			return true
		}
		return false
	}
	fake.WantOK(t, f.Upstream(t, fake.OverSSE()), fake.Tool("a"))
	if got := f.AwaitAnswer(t, "p1"); got != "{}" {
		t.Errorf("answered %s", got)
	}
}

// Each user's stream and messages carry the user's credential, and a
// refused credential is renewed.
func TestSSECredentials(t *testing.T) {
	issuer := fake.NewTokens(t)
	f := fake.NewSSE(t, fake.New)
	f.Opened = func(s *fake.Stream) bool {
		s.Welcome()
		<-s.Ctx.Done()
		return true
	}
	var refuse atomic.Bool
	f.Posted = func(s *fake.Stream, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
		if m.Method == mcp.MethodToolsCall && refuse.CompareAndSwap(true, false) {
			w.WriteHeader(http.StatusUnauthorized)
			return true
		}
		return false
	}
	cfg := fake.OverSSE()
	cfg.URL, cfg.Auth = f.URL+"/sse", issuer.Exchange()
	u, log := fake.StartAuthorized(t, cfg)
	for _, name := range []string{"ann", "bob"} {
		fake.WantOK(t, u, fake.Of(name, fake.Tool("a")))
	}
	refuse.Store(true)
	fake.WantOK(t, u, fake.Of("ann", fake.Tool("a")))
	owner := map[string]string{} // of a stream
	for i, s := range f.Requests("") {
		token := strings.TrimPrefix(fake.AuthorizationOf(s), "Bearer exchanged-")
		who, _, ok := strings.Cut(token, "-")
		if !ok {
			t.Errorf("request %d (%s) has the credential %q", i, s.Target, fake.AuthorizationOf(s))
		}
		if _, stream, ok := strings.Cut(s.Target, "session="); ok {
			if owner[stream] == "" {
				owner[stream] = who
			}
			if owner[stream] != who {
				t.Errorf("%s of %s came on the stream of %s", s.Method, who, owner[stream])
			}
		}
	}
	if len(owner) != 2 || len(f.Requests(http.MethodGet)) != 2 {
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
				f := fake.NewSSE(t, fake.New)
				inner := f.Handle
				f.Handle = func(g *fake.Server, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
					if r.Method == http.MethodPost && r.URL.Path == "/sse" {
						w.WriteHeader(status)
						return true
					}
					return inner(g, w, r, m)
				}
				u := f.Upstream(t, upstream.Config{Revision: revision})
				for _, session := range []string{"user:a", "user:b"} {
					c := fake.Tool("a")
					c.Session = session
					fake.WantOK(t, u, c)
				}
				tried := 0
				for _, s := range f.Requests(http.MethodPost) {
					if s.Target == "/sse" {
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
		f := fake.NewSSE(t, fake.New)
		_, err := fake.Do(t, f.Upstream(t, upstream.Config{Transport: "streamable"}), fake.Tool("a"))
		fake.WantError(t, err, mcp.CodeUpstreamBadAnswer, mcp.ExecutedNo)
		if n := len(f.Requests(http.MethodGet)); n != 0 {
			t.Errorf("%d streams were asked for", n)
		}
	})
	t.Run("trouble with the stream concludes nothing", func(t *testing.T) {
		f := fake.NewSSE(t, fake.New)
		var trouble atomic.Int32
		inner := f.Handle
		f.Handle = func(g *fake.Server, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
			if status := trouble.Load(); r.Method == http.MethodGet && status != 0 {
				w.WriteHeader(int(status))
				return true
			}
			return inner(g, w, r, m)
		}
		u := f.Upstream(t, upstream.Config{})
		for status, code := range map[int32]int{
			401: mcp.CodeUpstreamAuthFailed, 503: mcp.CodeUpstreamUnreachable, 404: mcp.CodeUpstreamBadAnswer,
		} {
			trouble.Store(status)
			_, err := fake.Do(t, u, fake.Tool("a"))
			fake.WantError(t, err, code, mcp.ExecutedNo)
		}
		trouble.Store(0)
		fake.WantOK(t, u, fake.Tool("a"))
	})
	t.Run("the server learns a newer transport", func(t *testing.T) {
		f := fake.NewSSE(t, fake.New)
		var learned atomic.Bool
		inner := f.Handle
		f.Handle = func(g *fake.Server, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
			if !learned.Load() {
				return inner(g, w, r, m)
			}
			if r.URL.Path != "/sse" {
				w.WriteHeader(http.StatusNotFound)
				return true
			}
			return false
		}
		u := f.Upstream(t, upstream.Config{})
		fake.WantOK(t, u, fake.Tool("a"))
		learned.Store(true)
		fake.WantOK(t, u, fake.Tool("a"))
		if got := u.Status().Transport; got != "streamable" {
			t.Errorf("transport %s", got)
		}
	})
}
