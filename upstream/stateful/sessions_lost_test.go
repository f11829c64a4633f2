package stateful_test

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream"
	"github.com/gatehouse-mcp/gatehouse/upstream/upstreamtest/fake"
)

// TestSessionsLostInOtherWords: a server may say otherwise than with 404 or 400 that it does not
// know a session any more.
func TestSessionsLostInOtherWords(t *testing.T) {
	const words = `{"code":-32001,"message":"Session not found"}`
	for _, tt := range []struct {
		status int
		words  string // "" for an empty body
		again  bool   // the call that found it is made again
	}{
		{401, words, true}, {403, "", true}, {410, words, true}, {410, "", true},
		{500, words, false}, {502, "", false}, {503, "", false}, {200, words, false},
	} {
		t.Run(fmt.Sprint(tt.status, tt.words != ""), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newForgetful(t, func(w http.ResponseWriter, m fake.Message) {
					if tt.words == "" {
						w.WriteHeader(tt.status)
					} else {
						fake.Failure(w, tt.status, m, tt.words)
					}
				})
				u := s.Upstream(t, upstream.Config{})
				fake.WantOK(t, u, fake.Tool("a"))
				for round := range 2 {
					s.forget()
					if _, err := fake.Do(t, u, fake.Tool("a")); (err == nil) != (tt.again && round == 0) {
						t.Errorf("round %d: error %v", round, err)
					}
					if _, err := fake.Do(t, u, fake.Tool("a")); (err == nil) != (round == 0) {
						t.Errorf("round %d, the next call: error %v", round, err)
					}
				}
				time.Sleep(time.Minute) // it was reopened not long ago
				_, _ = fake.Do(t, u, fake.Tool("a"))
				fake.WantOK(t, u, fake.Tool("a"))
			})
		})
	}
}

// TestSessionsThatAreNotLost: a session is kept where the server refuses one call, or everything.
func TestSessionsThatAreNotLost(t *testing.T) {
	for name, refuses := range map[string]func(m fake.Message) bool{
		"one tool":          func(m fake.Message) bool { return m.Method == mcp.MethodToolsCall },
		"sessions, new too": func(fake.Message) bool { return true },
	} {
		t.Run(name, func(t *testing.T) {
			var on atomic.Bool
			f := fake.New(t, true, func(_ *fake.Server, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
				refused := on.Load() && r.Method == http.MethodPost && refuses(m)
				if refused {
					w.WriteHeader(http.StatusServiceUnavailable)
				}
				return refused
			})
			u := f.Upstream(t, upstream.Config{})
			fake.WantOK(t, u, fake.Tool("a"))
			began := len(f.Requests(mcp.MethodInitialize))
			on.Store(true)
			for range 2 {
				_, err := fake.Do(t, u, fake.Tool("a"))
				fake.WantError(t, err, mcp.CodeUpstreamUnreachable, mcp.ExecutedUnknown)
			}
			if n := len(f.Requests(mcp.MethodPing)); n != 1 {
				t.Errorf("%d pings", n)
			}
			on.Store(false)
			fake.WantOK(t, u, fake.Tool("a"))
			if name == "one tool" && len(f.Requests(mcp.MethodInitialize)) != began || len(f.Requests(http.MethodDelete)) != 0 {
				t.Errorf("the session was given up")
			}
		})
	}
}

// forgetful is a server that can lose its sessions.
type forgetful struct {
	*fake.Server
	opened, lost atomic.Int64 // the numbers of its last session, and of the last that it has lost
}

func (s *forgetful) forget() { s.lost.Store(s.opened.Load()) }

// newForgetful makes a forgetful server, and says how it refuses what comes in a session that it lost.
func newForgetful(t *testing.T, refuse func(http.ResponseWriter, fake.Message)) *forgetful {
	s := &forgetful{}
	s.Server = fake.NewBubble(t, true, func(_ *fake.Server, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
		if m.Method == mcp.MethodInitialize {
			w.Header().Set("Mcp-Session-Id", fmt.Sprint(s.opened.Add(1)))
			fake.Result(w, m, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},`+
				`"serverInfo":{"name":"forgetful","version":"1"}}`)
			return true
		}
		var session int64
		_, err := fmt.Sscan(r.Header.Get("Mcp-Session-Id"), &session)
		if err != nil || session > s.lost.Load() || r.Method != http.MethodPost {
			return false
		}
		refuse(w, m)
		return true
	})
	return s
}
