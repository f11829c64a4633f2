package upstream_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// inn is a server that knows the sessions that it has begun, and accepts one GET
// stream for each. It is in a bubble of synctest.
type inn struct {
	*fake
	// calls handles requests beyond the usual ones; it returns false to do nothing.
	calls func(w http.ResponseWriter, r *http.Request, m rpc) bool

	mu    sync.Mutex // guards the fields below
	begun int
	open  map[string]chan string // what to say on the GET stream, by session
	stand map[string]bool
}

func newInn(t *testing.T) *inn {
	i := &inn{open: make(map[string]chan string), stand: make(map[string]bool)}
	i.fake = newBubbleFake(t, true, i.handle)
	return i
}

func (i *inn) handle(f *fake, w http.ResponseWriter, r *http.Request, m rpc) bool {
	if m.Method == mcp.MethodDiscover || i.calls != nil && i.calls(w, r, m) {
		return m.Method != mcp.MethodDiscover
	}
	id := r.Header.Get("Mcp-Session-Id")
	i.mu.Lock()
	defer i.mu.Unlock()
	if m.Method == mcp.MethodInitialize {
		i.begun++
		id = fmt.Sprint("s", i.begun)
		i.open[id] = make(chan string, 10)
		w.Header().Set("Mcp-Session-Id", id)
		result(w, m, `{"protocolVersion":"`+f.version+`","capabilities":`+f.caps+
			`,"serverInfo":{"name":"inn","version":"1"}}`)
		return true
	}
	say := i.open[id]
	switch {
	case say == nil:
		w.WriteHeader(http.StatusNotFound)
	case r.Method == http.MethodDelete:
		delete(i.open, id)
	case r.Method == http.MethodGet && i.stand[id]:
		w.WriteHeader(http.StatusConflict)
	case r.Method == http.MethodGet:
		i.stand[id] = true
		i.mu.Unlock()
		events(w, ": hello\n\n")
		for ended := false; !ended; {
			select {
			case text := <-say:
				events(w, "data: "+text+"\n\n")
			case <-r.Context().Done():
				ended = true
			}
		}
		i.mu.Lock()
		delete(i.stand, id)
	case m.Method == mcp.MethodToolsCall:
		result(w, m, `{"content":[{"type":"text","text":"`+id+`"}]}`)
	default:
		return false
	}
	return true
}

// say says something on the GET stream of the only session.
func (i *inn) say(t *testing.T, text string) {
	t.Helper()
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.open) != 1 {
		t.Fatalf("%d sessions are open", len(i.open))
	}
	for _, say := range i.open {
		say <- text
	}
}

// forget simulates a restart.
func (i *inn) forget() {
	i.mu.Lock()
	defer i.mu.Unlock()
	clear(i.open)
}

// count returns how many sessions were ever begun, and how many are open.
func (i *inn) count() (begun, open int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.begun, len(i.open)
}

// shelf implements upstream.Keeper in memory.
type shelf struct {
	mu     sync.Mutex // guards the fields below
	kept   map[string]string
	broken bool
}

var errShelf = errors.New("the shelf is broken")

func (s *shelf) Load(_ context.Context, session, name string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken {
		return nil, errShelf
	}
	if value, ok := s.kept[session+" "+name]; ok {
		return []byte(value), nil
	}
	return nil, nil
}

func (s *shelf) Save(_ context.Context, session, name string, value []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.broken:
		return errShelf
	case value == nil:
		delete(s.kept, session+" "+name)
	default:
		s.kept[session+" "+name] = string(value)
	}
	return nil
}

func (s *shelf) size() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.kept)
}

func (s *shelf) setBroken(is bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = is
}

// house has an inn and a shelf, which outlive the Upstreams that it starts.
type house struct {
	*inn
	*shelf
}

// inHouse runs a test in a bubble of synctest.
func inHouse(t *testing.T, test func(t *testing.T, h *house)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(t, &house{newInn(t), &shelf{kept: make(map[string]string)}})
	})
}

func (h *house) start(t *testing.T, cfg upstream.Config) *upstream.Upstream {
	t.Helper()
	return startKept(t, h.fake, cfg, h.shelf)
}

func startKept(t *testing.T, f *fake, cfg upstream.Config, keeper upstream.Keeper) *upstream.Upstream {
	t.Helper()
	cfg.Name, cfg.URL = "inn", f.URL+f.path
	transport := &http.Transport{MaxIdleConnsPerHost: 100, DialContext: f.network.DialContext}
	t.Cleanup(transport.CloseIdleConnections)
	u, err := withHomes(t, cfg, upstream.Deps{Log: slog.New(slog.DiscardHandler), HTTP: transport, Keeper: keeper})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shut(t, u) })
	return u
}

// wantEnded checks which sessions were ended at the server.
func (i *inn) wantEnded(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	got := make(map[string]bool)
	for _, s := range i.requests(http.MethodDelete) {
		got[s.header.Get("Mcp-Session-Id")] = true
	}
	wanted := make(map[string]bool)
	for _, id := range want {
		wanted[id] = true
	}
	if !maps.Equal(got, wanted) {
		t.Errorf("ended at the server: %v, want %v", got, want)
	}
}

// wantAt checks in which session of the inn a call runs.
func wantAt(t *testing.T, u *upstream.Upstream, c *mcp.Call, want string) {
	t.Helper()
	if reply := mustDo(t, u, c); !strings.Contains(string(reply.Result), `"text":"`+want+`"`) {
		t.Errorf("result %s, want %s", reply.Result, want)
	}
}

// ephemeral makes a call one of a client without a session.
func ephemeral(c *mcp.Call) *mcp.Call {
	c.Session, c.Ephemeral = "user:~1", true
	return c
}

// A session is resumed by the Upstream that follows the one which opened it, but not
// for another user, other declared capabilities or another configuration. It runs in a
// bubble of synctest.
func TestSessionsAreResumed(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		other := tool("x")
		other.Session = "user:other"
		all := []struct {
			c    *mcp.Call
			want string
		}{{tool("x"), "s1"}, {ephemeral(tool("x")), "s2"}, {ephemeral(asked("x")), "s3"}, {other, "s4"}}
		for range 3 {
			u := h.start(t, upstream.Config{})
			for _, tt := range all {
				wantAt(t, u, tt.c, tt.want)
			}
			shut(t, u)
		}
		h.wantEnded(t)
		account := upstream.Config{Headers: map[string]mcp.Secret{"X-Account": "other"}}
		wantAt(t, h.start(t, account), tool("x"), "s5")
		ids := make(map[string]bool)
		for _, s := range h.requests(mcp.MethodToolsCall) {
			if ids[string(s.ID)] || len(s.ID) > 10 {
				t.Errorf("request id %s comes twice, or is long", s.ID)
			}
			ids[string(s.ID)] = true
			if s.header.Get("Mcp-Protocol-Version") != h.version {
				t.Errorf("revision %q", s.header.Get("Mcp-Protocol-Version"))
			}
		}
	})
}

// A session that its server has forgotten meanwhile is opened anew, and the new one is
// kept. It runs in a bubble of synctest.
func TestResumedSessionIsGone(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		first := h.start(t, upstream.Config{})
		wantAt(t, first, tool("x"), "s1")
		shut(t, first)
		h.forget()
		for range 2 {
			u := h.start(t, upstream.Config{})
			wantAt(t, u, tool("x"), "s2")
			shut(t, u)
		}
		// If a server forgets each session at once, the attempts end.
		h.calls = func(w http.ResponseWriter, _ *http.Request, m rpc) bool {
			if m.Method == mcp.MethodToolsCall {
				w.WriteHeader(http.StatusNotFound)
			}
			return m.Method == mcp.MethodToolsCall
		}
		_, err := do(t, h.start(t, upstream.Config{}), tool("x"))
		wantError(t, err, mcp.CodeUpstreamSessionLost, mcp.ExecutedNo)
		if begun, _ := h.count(); begun != 3 {
			t.Errorf("%d sessions were begun, want one more", begun)
		}
	})
}

// In a resumed session the log level is set and resources are subscribed when the client,
// or the gateway on its behalf, asks again; messages of the server arrive. It runs in a
// bubble of synctest.
func TestResumedSessionIsUsed(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		for range 2 {
			u := h.start(t, upstream.Config{})
			end, got := listen(t, u, `{"resourceSubscriptions":["a:b"]}`, "user:session")
			if e := <-got; e.Method != mcp.NoteAcknowledged {
				t.Fatalf("told %s", e.Method)
			}
			level := tool("x")
			level.LogLevel = "debug"
			wantAt(t, u, level, "s1")
			h.say(t, update)
			if e := <-got; e.Method != mcp.NoteResourceUpdated {
				t.Errorf("told %s", e.Method)
			}
			end()
			shut(t, u)
			time.Sleep(time.Second) // the server sees that the stream has ended
		}
		for method, want := range map[string]int{mcp.MethodResourcesSubscribe: 2, mcp.MethodSetLevel: 2,
			mcp.MethodInitialize: 1} {
			if n := len(h.requests(method)); n != want {
				t.Errorf("%d times %s, want %d", n, method, want)
			}
		}
	})
}

// The server of a resumed session is told that the roots may have changed. It runs in a
// bubble of synctest.
func TestResumedSessionHasOtherRoots(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		for want := range 2 {
			u := h.start(t, upstream.Config{})
			wantAt(t, u, asked("x"), "s1")
			wantAt(t, u, asked("x"), "s1")
			if n := len(h.requests(mcp.NoteRootsListChanged)); n != want {
				t.Errorf("told %d times, want %d", n, want)
			}
			shut(t, u)
			time.Sleep(time.Second)
		}
	})
}

// When its client's session ends, a session at a server ends and is forgotten. The same
// holds for a session that was lost and cannot be opened anew. It runs in a bubble of
// synctest.
func TestEndedSessionIsForgotten(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		u := h.start(t, upstream.Config{})
		wantAt(t, u, tool("x"), "s1")
		endSession(u, "user:session", true)
		h.wantEnded(t, "s1")
		wantAt(t, u, tool("x"), "s2")
		h.forget()
		h.calls = func(w http.ResponseWriter, _ *http.Request, m rpc) bool {
			if m.Method == mcp.MethodInitialize {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
			return m.Method == mcp.MethodInitialize
		}
		if _, err := do(t, u, tool("x")); err == nil {
			t.Error("a call without a session succeeds")
		}
		synctest.Wait()
		if n := h.size(); n != 0 {
			t.Errorf("%d sessions are kept", n)
		}
	})
}

// A session that is idle for too long, or that makes room, is also forgotten. It runs in a
// bubble of synctest.
func TestIdleSessionIsForgotten(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		u := h.start(t, upstream.Config{Timeout: upstream.Timeout{Idle: 10 * time.Minute}})
		wantAt(t, u, ephemeral(tool("x")), "s1")
		wantAt(t, u, tool("x"), "s2")
		time.Sleep(time.Hour)
		h.wantEnded(t, "s1")
		if n := h.size(); n != 1 {
			t.Errorf("%d sessions are kept", n)
		}
		wantAt(t, u, ephemeral(tool("x")), "s3")
		small := h.start(t, upstream.Config{Limits: upstream.Limits{Sessions: 1}})
		wantAt(t, small, ephemeral(tool("x")), "s3")
		other := ephemeral(tool("x"))
		other.Session = "user:~2"
		wantAt(t, small, other, "s4")
		h.wantEnded(t, "s1", "s3")
		if n := h.size(); n != 2 {
			t.Errorf("%d sessions are kept", n)
		}
	})
}

// A session that another process owns by now, so that this one may not forget it, does not
// end at the server. It runs in a bubble of synctest.
func TestSessionOfAnotherIsNotEnded(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		u := h.start(t, upstream.Config{Timeout: upstream.Timeout{Idle: 10 * time.Minute}})
		wantAt(t, u, ephemeral(tool("x")), "s1")
		h.setBroken(true)
		time.Sleep(time.Hour)
		if n := u.Status().Sessions; n != 0 {
			t.Errorf("%d sessions are open", n)
		}
		h.wantEnded(t)
		h.setBroken(false)
		wantAt(t, h.start(t, upstream.Config{}), ephemeral(tool("x")), "s1")
	})
}

// A client session that another process takes over is released: its calls are cancelled,
// and the other process resumes its session at the server. It runs in a bubble of synctest.
func TestDroppedSession(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		h.calls = func(w http.ResponseWriter, r *http.Request, m rpc) bool {
			name, _ := mcp.Raw(m.Params).Member("name")
			switch {
			case m.Method != mcp.MethodToolsCall:
				return false
			case name.Text() == "ask":
				events(w, "data: "+question+"\n\n")
			case name.Text() != "slow":
				return false
			}
			<-r.Context().Done()
			return true
		}
		a, b := h.start(t, upstream.Config{}), h.start(t, upstream.Config{})
		if reply := mustDo(t, a, asked("ask")); reply.Ask == nil {
			t.Fatalf("nothing is asked: %+v", reply)
		}
		other := tool("x")
		other.Session = "user:other"
		wantAt(t, a, other, "s2")
		errs := make(chan error, 1)
		go func() {
			_, err := do(t, a, asked("slow"))
			errs <- err
		}()
		h.await(t, mcp.MethodToolsCall, 3)
		endSession(a, "user:session", false)
		wantError(t, <-errs, mcp.CodeUpstreamSessionLost, mcp.ExecutedUnknown)
		h.await(t, mcp.NoteCancelled, 2)
		wantAt(t, b, asked("x"), "s1")
		h.wantEnded(t)
		if n := a.Status().Sessions; n != 1 {
			t.Errorf("%d sessions are open, want the other one", n)
		}
	})
}

const question = `{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}}}}`

// If its keeper fails, a client still gets a session, which ends with the Upstream. A kept
// session that cannot be read does not count. It runs in a bubble of synctest.
func TestKeeperThatFails(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		a, b := h.start(t, upstream.Config{}), h.start(t, upstream.Config{})
		h.setBroken(true)
		wantAt(t, a, tool("x"), "s1")
		wantAt(t, b, tool("x"), "s2")
		wantAt(t, a, tool("x"), "s1")
		endSession(a, "user:session", false)
		h.wantEnded(t, "s1")
		shut(t, b)
		h.wantEnded(t, "s1", "s2")
		h.setBroken(false)
		wantAt(t, a, tool("x"), "s3")
		for place := range h.kept {
			h.kept[place] = `{"revision":"2026-07-28","id":"s3"}`
		}
		wantAt(t, h.start(t, upstream.Config{}), tool("x"), "s4")
	})
}

// A session on HTTP+SSE is its stream: it ends with the Upstream, and when it is dropped.
func TestSessionsOnSSEAreNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, shelf := newSSEFake(t, newBubbleFake), &shelf{kept: make(map[string]string)}
		f.posted = func(s *sseStream, w http.ResponseWriter, _ *http.Request, m rpc) bool {
			if m.Method != mcp.MethodToolsCall {
				return false
			}
			w.WriteHeader(http.StatusAccepted)
			s.answer(m, `{"content":[{"type":"text","text":"`+s.id+`"}]}`)
			return true
		}
		cfg := upstream.Config{Transport: "auto"} // it finds out the transport when it opens a session
		a, b := startKept(t, f.fake, cfg, shelf), startKept(t, f.fake, cfg, shelf)
		wantAt(t, a, tool("x"), "s1")
		endSession(a, "user:session", false)
		synctest.Wait()
		f.mu.Lock()
		open := len(f.streams)
		f.mu.Unlock()
		if open != 0 || shelf.size() != 0 {
			t.Errorf("%d streams are open, %d sessions are kept", open, shelf.size())
		}
		wantAt(t, b, tool("x"), "s2")
	})
}
