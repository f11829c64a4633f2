package stateful_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream"
	"github.com/gatehouse-mcp/gatehouse/upstream/upstreamtest/fake"
)

// TestCookiesOfASession: what a balancer sets when a session begins goes back with all requests of
// that session, whoever owns it next, and with no other.
func TestCookiesOfASession(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		begun := 0
		h.calls = func(w http.ResponseWriter, r *http.Request, m fake.Message) bool {
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
		call := func(u *fake.Upstream, client, want string) {
			t.Helper()
			c := fake.Asked("a")
			c.Session = client
			if reply := fake.MustDo(t, u, c); !strings.Contains(string(reply.Result), `"`+want+`"`) {
				t.Errorf("%s is served in %s, want %s", client, reply.Result, want)
			}
		}
		u := h.start(t, upstream.Config{})
		call(u, "ann:1", "s1")
		call(u, "bob:1", "s2")
		call(u, "ann:1", "s1")
		u.EndSession("ann:1", false)
		u.EndSession("bob:1", true)
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
	f := fake.New(t, true, func(_ *fake.Server, w http.ResponseWriter, _ *http.Request, m fake.Message) bool {
		if m.Method == mcp.MethodToolsCall && sets != "" {
			for set := range strings.SplitSeq(sets, "|") {
				w.Header().Add("Set-Cookie", set)
			}
		}
		return false
	})
	u := f.Upstream(t, upstream.Config{})
	sent := func() string {
		fake.WantOK(t, u, fake.Tool("a"))
		all := f.Requests(mcp.MethodToolsCall)
		return all[len(all)-1].Header.Get("Cookie")
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
		f := fake.New(t, stateful, func(_ *fake.Server, w http.ResponseWriter, _ *http.Request, _ fake.Message) bool {
			w.Header().Set("Set-Cookie", "a=b")
			return false
		})
		f.Session = ""
		u := f.Upstream(t, upstream.Config{})
		fake.WantOK(t, u, fake.Tool("a"))
		fake.WantOK(t, u, fake.Tool("a"))
		for _, r := range f.Requests("") {
			if got := r.Header.Get("Cookie"); got != "" && r.Method != mcp.MethodInitialize {
				t.Errorf("stateful %v: %s %s has %s", stateful, r.Verb, r.Method, got)
			}
		}
	}
}

// TestCookiesOverSSE: the stream is the session, and sets them.
func TestCookiesOverSSE(t *testing.T) {
	f := fake.NewSSE(t, fake.New)
	f.Opened = func(s *fake.Stream) bool {
		s.W.Header().Set("Set-Cookie", "node="+s.ID)
		return false
	}
	f.Posted = func(s *fake.Stream, _ http.ResponseWriter, r *http.Request, m fake.Message) bool {
		if got := r.Header.Get("Cookie"); got != "node="+s.ID {
			t.Errorf("%s has the cookies %q, want those of %s", m.Method, got, s.ID)
		}
		return false
	}
	u := f.Server.Upstream(t, upstream.Config{Transport: "sse"})
	fake.WantOK(t, u, fake.Tool("a"))
	other := fake.Tool("a")
	other.Session = "other:session"
	fake.WantOK(t, u, other)
}
