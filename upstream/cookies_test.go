package upstream_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// TestCookiesOfASession: what a balancer sets when a session begins goes back with all requests of
// that session, whoever owns it next, and with no other.
func TestCookiesOfASession(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		begun := 0
		h.calls = func(w http.ResponseWriter, r *http.Request, m rpc) bool {
			cookie, session := r.Header.Get("Cookie"), r.Header.Get("Mcp-Session-Id")
			switch {
			case m.Method == mcp.MethodInitialize:
				begun++
				w.Header().Add("Set-Cookie",
					fmt.Sprintf("node=s%d; Path=/; Secure; HttpOnly; SameSite=None; Domain=example.com; Max-Age=60", begun))
				w.Header().Add("Set-Cookie", "bad name=1")
				w.Header().Add("Set-Cookie", "large="+strings.Repeat("x", 5000))
				if cookie != "" {
					t.Errorf("a session begins with the cookies %s", cookie)
				}
			case cookie != "node="+session:
				t.Errorf("%s %s in the session %s has the cookies %q", r.Method, m.Method, session, cookie)
			}
			return false
		}
		call := func(u *upstream.Upstream, client, want string) {
			t.Helper()
			c := asked("a")
			c.Session = client
			if reply := mustDo(t, u, c); !strings.Contains(string(reply.Result), `"`+want+`"`) {
				t.Errorf("%s is served in %s, want %s", client, reply.Result, want)
			}
		}
		u := h.start(t, upstream.Config{})
		call(u, "ann:1", "s1")
		call(u, "bob:1", "s2")
		call(u, "ann:1", "s1")
		endSession(u, "ann:1", false)
		endSession(u, "bob:1", true)
		next := h.start(t, upstream.Config{})
		call(next, "ann:1", "s1") // resumed
		call(next, "bob:1", "s3") // begun anew
		h.forget()
		call(next, "ann:1", "s4")
		synctest.Wait()
	})
}

// TestCookiesThatChange: each answer may set and end cookies, up to a bound.
func TestCookiesThatChange(t *testing.T) {
	sets := ""
	f := newFake(t, true, func(_ *fake, w http.ResponseWriter, _ *http.Request, m rpc) bool {
		if m.Method == mcp.MethodToolsCall && sets != "" {
			for set := range strings.SplitSeq(sets, "|") {
				w.Header().Add("Set-Cookie", set)
			}
		}
		return false
	})
	u := f.start(t, upstream.Config{})
	sent := func() string {
		wantOK(t, u, tool("a"))
		all := f.requests(mcp.MethodToolsCall)
		return all[len(all)-1].header.Get("Cookie")
	}
	full := strings.Repeat("x", 4000)
	for _, tt := range []struct{ sets, then string }{
		{"a=1", "a=1"},
		{"b=2; Max-Age=5|a=3", "b=2; a=3"},
		{`c="x y"`, `b=2; a=3; c="x y"`},
		{"b=; Max-Age=0|c=; Expires=Thu, 01 Jan 1970 00:00:00 GMT", "a=3"},
		{"d=" + full + "|e=" + full, "a=3; d=" + full},
		{"d=1; Max-Age=-1", "a=3"},
	} {
		sets = tt.sets
		sent()
		if sets = ""; sent() != tt.then {
			t.Errorf("after %.80s: %.80s, want %.80s", tt.sets, sent(), tt.then)
		}
	}
}

// TestCookiesOutsideOfSessions are not kept: users would share them.
func TestCookiesOutsideOfSessions(t *testing.T) {
	for _, stateful := range []bool{true, false} {
		f := newFake(t, stateful, func(_ *fake, w http.ResponseWriter, _ *http.Request, _ rpc) bool {
			w.Header().Set("Set-Cookie", "a=b")
			return false
		})
		f.session = ""
		u := f.start(t, upstream.Config{})
		wantOK(t, u, tool("a"))
		wantOK(t, u, tool("a"))
		for _, r := range f.requests("") {
			if got := r.header.Get("Cookie"); got != "" && r.Method != mcp.MethodInitialize {
				t.Errorf("stateful %v: %s %s has %s", stateful, r.verb, r.Method, got)
			}
		}
	}
}

// TestCookiesOverSSE: the stream is the session, and sets them.
func TestCookiesOverSSE(t *testing.T) {
	f := newSSEFake(t, newFake)
	f.opened = func(s *sseStream) bool {
		s.w.Header().Set("Set-Cookie", "node="+s.id)
		return false
	}
	f.posted = func(s *sseStream, _ http.ResponseWriter, r *http.Request, m rpc) bool {
		if got := r.Header.Get("Cookie"); got != "node="+s.id {
			t.Errorf("%s has the cookies %q, want those of %s", m.Method, got, s.id)
		}
		return false
	}
	u := f.fake.start(t, upstream.Config{Transport: "sse"})
	wantOK(t, u, tool("a"))
	other := tool("a")
	other.Session = "other:session"
	wantOK(t, u, other)
}
