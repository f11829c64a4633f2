package stateful_test

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
	"github.com/gatehouse-mcp/gatehouse/upstream/upstreamtest/fake"
)

// inn is a server that knows the sessions that it has begun, and accepts one GET
// stream for each. It is in a bubble of synctest.
type inn struct {
	*fake.Server
	// calls handles requests beyond the usual ones; it returns false to do nothing.
	calls func(w http.ResponseWriter, r *http.Request, m fake.Message) bool

	mu    sync.Mutex // guards the fields below
	begun int
	open  map[string]chan string // what to say on the GET stream, by session
	stand map[string]bool
}

func newInn(t *testing.T) *inn {
	i := &inn{open: make(map[string]chan string), stand: make(map[string]bool)}
	i.Server = fake.NewBubble(t, true, i.handle)
	return i
}

func (i *inn) handle(f *fake.Server, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
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
		fake.Result(w, m, `{"protocolVersion":"`+f.Version+`","capabilities":`+f.Caps+
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
		fake.Events(w, ": hello\n\n")
		for ended := false; !ended; {
			select {
			case text := <-say:
				fake.Events(w, "data: "+text+"\n\n")
			case <-r.Context().Done():
				ended = true
			}
		}
		i.mu.Lock()
		delete(i.stand, id)
	case m.Method == mcp.MethodToolsCall:
		fake.Result(w, m, `{"content":[{"type":"text","text":"`+id+`"}]}`)
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

func (h *house) start(t *testing.T, cfg upstream.Config) *fake.Upstream {
	t.Helper()
	return startKept(t, h.Server, cfg, h.shelf)
}

func startKept(t *testing.T, f *fake.Server, cfg upstream.Config, keeper upstream.Keeper) *fake.Upstream {
	t.Helper()
	cfg.Name, cfg.URL = "inn", f.URL+f.Path
	transport := &http.Transport{MaxIdleConnsPerHost: 100, DialContext: f.Network.DialContext}
	t.Cleanup(transport.CloseIdleConnections)
	u, err := fake.NewUpstream(t, cfg, upstream.Deps{Log: slog.New(slog.DiscardHandler), HTTP: transport, Keeper: keeper})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { fake.Close(t, u) })
	return u
}

// wantEnded checks which sessions were ended at the server.
func (i *inn) wantEnded(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	got := make(map[string]bool)
	for _, s := range i.Requests(http.MethodDelete) {
		got[s.Header.Get("Mcp-Session-Id")] = true
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
func wantAt(t *testing.T, u *fake.Upstream, c *mcp.Call, want string) {
	t.Helper()
	if reply := fake.MustDo(t, u, c); !strings.Contains(string(reply.Result), `"text":"`+want+`"`) {
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
		other := fake.Tool("x")
		other.Session = "user:other"
		all := []struct {
			c    *mcp.Call
			want string
		}{{fake.Tool("x"), "s1"}, {ephemeral(fake.Tool("x")), "s2"}, {ephemeral(fake.Asked("x")), "s3"}, {other, "s4"}}
		for range 3 {
			u := h.start(t, upstream.Config{})
			for _, tt := range all {
				wantAt(t, u, tt.c, tt.want)
			}
			fake.Close(t, u)
		}
		h.wantEnded(t)
		account := upstream.Config{Headers: map[string]mcp.Secret{"X-Account": "other"}}
		wantAt(t, h.start(t, account), fake.Tool("x"), "s5")
		ids := make(map[string]bool)
		for _, s := range h.Requests(mcp.MethodToolsCall) {
			if ids[string(s.ID)] || len(s.ID) > 10 {
				t.Errorf("request id %s comes twice, or is long", s.ID)
			}
			ids[string(s.ID)] = true
			if s.Header.Get("Mcp-Protocol-Version") != h.Version {
				t.Errorf("revision %q", s.Header.Get("Mcp-Protocol-Version"))
			}
		}
	})
}

// A session that its server has forgotten meanwhile is opened anew, and the new one is
// kept. It runs in a bubble of synctest.
func TestResumedSessionIsGone(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		first := h.start(t, upstream.Config{})
		wantAt(t, first, fake.Tool("x"), "s1")
		fake.Close(t, first)
		h.forget()
		for range 2 {
			u := h.start(t, upstream.Config{})
			wantAt(t, u, fake.Tool("x"), "s2")
			fake.Close(t, u)
		}
		// If a server forgets each session at once, the attempts end.
		h.calls = func(w http.ResponseWriter, _ *http.Request, m fake.Message) bool {
			if m.Method == mcp.MethodToolsCall {
				w.WriteHeader(http.StatusNotFound)
			}
			return m.Method == mcp.MethodToolsCall
		}
		_, err := fake.Do(t, h.start(t, upstream.Config{}), fake.Tool("x"))
		fake.WantError(t, err, mcp.CodeUpstreamSessionLost, mcp.ExecutedNo)
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
			end, got := fake.Listen(t, u, `{"resourceSubscriptions":["a:b"]}`, "user:session")
			if e := <-got; e.Method != mcp.NoteAcknowledged {
				t.Fatalf("told %s", e.Method)
			}
			level := fake.Tool("x")
			level.LogLevel = "debug"
			wantAt(t, u, level, "s1")
			h.say(t, update)
			if e := <-got; e.Method != mcp.NoteResourceUpdated {
				t.Errorf("told %s", e.Method)
			}
			end()
			fake.Close(t, u)
			time.Sleep(time.Second) // the server sees that the stream has ended
		}
		for method, want := range map[string]int{mcp.MethodResourcesSubscribe: 2, mcp.MethodSetLevel: 2,
			mcp.MethodInitialize: 1} {
			if n := len(h.Requests(method)); n != want {
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
			wantAt(t, u, fake.Asked("x"), "s1")
			wantAt(t, u, fake.Asked("x"), "s1")
			if n := len(h.Requests(mcp.NoteRootsListChanged)); n != want {
				t.Errorf("told %d times, want %d", n, want)
			}
			fake.Close(t, u)
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
		wantAt(t, u, fake.Tool("x"), "s1")
		u.EndSession("user:session", true)
		h.wantEnded(t, "s1")
		wantAt(t, u, fake.Tool("x"), "s2")
		h.forget()
		h.calls = func(w http.ResponseWriter, _ *http.Request, m fake.Message) bool {
			if m.Method == mcp.MethodInitialize {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
			return m.Method == mcp.MethodInitialize
		}
		if _, err := fake.Do(t, u, fake.Tool("x")); err == nil {
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
		wantAt(t, u, ephemeral(fake.Tool("x")), "s1")
		wantAt(t, u, fake.Tool("x"), "s2")
		time.Sleep(time.Hour)
		h.wantEnded(t, "s1")
		if n := h.size(); n != 1 {
			t.Errorf("%d sessions are kept", n)
		}
		wantAt(t, u, ephemeral(fake.Tool("x")), "s3")
		small := h.start(t, upstream.Config{Limits: upstream.Limits{Sessions: 1}})
		wantAt(t, small, ephemeral(fake.Tool("x")), "s3")
		other := ephemeral(fake.Tool("x"))
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
		wantAt(t, u, ephemeral(fake.Tool("x")), "s1")
		h.setBroken(true)
		time.Sleep(time.Hour)
		if n := u.Status().Sessions; n != 0 {
			t.Errorf("%d sessions are open", n)
		}
		h.wantEnded(t)
		h.setBroken(false)
		wantAt(t, h.start(t, upstream.Config{}), ephemeral(fake.Tool("x")), "s1")
	})
}

// A client session that another process takes over is released: its calls are cancelled,
// and the other process resumes its session at the server. It runs in a bubble of synctest.
func TestDroppedSession(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		h.calls = func(w http.ResponseWriter, r *http.Request, m fake.Message) bool {
			name, _ := mcp.Raw(m.Params).Member("name")
			switch {
			case m.Method != mcp.MethodToolsCall:
				return false
			case name.Text() == "ask":
				fake.Events(w, "data: "+question+"\n\n")
			case name.Text() != "slow":
				return false
			}
			<-r.Context().Done()
			return true
		}
		a, b := h.start(t, upstream.Config{}), h.start(t, upstream.Config{})
		if reply := fake.MustDo(t, a, fake.Asked("ask")); reply.Ask == nil {
			t.Fatalf("nothing is asked: %+v", reply)
		}
		other := fake.Tool("x")
		other.Session = "user:other"
		wantAt(t, a, other, "s2")
		errs := make(chan error, 1)
		go func() {
			_, err := fake.Do(t, a, fake.Asked("slow"))
			errs <- err
		}()
		h.Await(t, mcp.MethodToolsCall, 3)
		a.EndSession("user:session", false)
		fake.WantError(t, <-errs, mcp.CodeUpstreamSessionLost, mcp.ExecutedUnknown)
		h.Await(t, mcp.NoteCancelled, 2)
		wantAt(t, b, fake.Asked("x"), "s1")
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
		wantAt(t, a, fake.Tool("x"), "s1")
		wantAt(t, b, fake.Tool("x"), "s2")
		wantAt(t, a, fake.Tool("x"), "s1")
		a.EndSession("user:session", false)
		h.wantEnded(t, "s1")
		fake.Close(t, b)
		h.wantEnded(t, "s1", "s2")
		h.setBroken(false)
		wantAt(t, a, fake.Tool("x"), "s3")
		for place := range h.kept {
			h.kept[place] = `{"revision":"2026-07-28","id":"s3"}`
		}
		wantAt(t, h.start(t, upstream.Config{}), fake.Tool("x"), "s4")
	})
}

// A session on HTTP+SSE is its stream: it ends with the Upstream, and when it is dropped.
func TestSessionsOnSSEAreNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, shelf := fake.NewSSE(t, fake.NewBubble), &shelf{kept: make(map[string]string)}
		f.Posted = func(s *fake.Stream, w http.ResponseWriter, _ *http.Request, m fake.Message) bool {
			if m.Method != mcp.MethodToolsCall {
				return false
			}
			w.WriteHeader(http.StatusAccepted)
			s.Answer(m, `{"content":[{"type":"text","text":"`+s.ID+`"}]}`)
			return true
		}
		cfg := upstream.Config{Transport: "auto"} // it finds out the transport when it opens a session
		a, b := startKept(t, f.Server, cfg, shelf), startKept(t, f.Server, cfg, shelf)
		wantAt(t, a, fake.Tool("x"), "s1")
		a.EndSession("user:session", false)
		synctest.Wait()
		f.Mu.Lock()
		open := len(f.Streams)
		f.Mu.Unlock()
		if open != 0 || shelf.size() != 0 {
			t.Errorf("%d streams are open, %d sessions are kept", open, shelf.size())
		}
		wantAt(t, b, fake.Tool("x"), "s2")
	})
}
