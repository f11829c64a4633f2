package upstream_test

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream"
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
				s := newForgetful(t, func(w http.ResponseWriter, m rpc) {
					if tt.words == "" {
						w.WriteHeader(tt.status)
					} else {
						failure(w, tt.status, m, tt.words)
					}
				})
				u := s.start(t, upstream.Config{})
				wantOK(t, u, tool("a"))
				for round := range 2 {
					s.forget()
					if _, err := do(t, u, tool("a")); (err == nil) != (tt.again && round == 0) {
						t.Errorf("round %d: error %v", round, err)
					}
					if _, err := do(t, u, tool("a")); (err == nil) != (round == 0) {
						t.Errorf("round %d, the next call: error %v", round, err)
					}
				}
				time.Sleep(time.Minute) // it was reopened not long ago
				_, _ = do(t, u, tool("a"))
				wantOK(t, u, tool("a"))
			})
		})
	}
}

// TestSessionsThatAreNotLost: a session is kept where the server refuses one call, or everything.
func TestSessionsThatAreNotLost(t *testing.T) {
	for name, refuses := range map[string]func(m rpc) bool{
		"one tool":          func(m rpc) bool { return m.Method == mcp.MethodToolsCall },
		"sessions, new too": func(rpc) bool { return true },
	} {
		t.Run(name, func(t *testing.T) {
			var on atomic.Bool
			f := newFake(t, true, func(_ *fake, w http.ResponseWriter, r *http.Request, m rpc) bool {
				refused := on.Load() && r.Method == http.MethodPost && refuses(m)
				if refused {
					w.WriteHeader(http.StatusServiceUnavailable)
				}
				return refused
			})
			u := f.start(t, upstream.Config{})
			wantOK(t, u, tool("a"))
			began := len(f.requests(mcp.MethodInitialize))
			on.Store(true)
			for range 2 {
				_, err := do(t, u, tool("a"))
				wantError(t, err, mcp.CodeUpstreamUnreachable, mcp.ExecutedUnknown)
			}
			if n := len(f.requests(mcp.MethodPing)); n != 1 {
				t.Errorf("%d pings", n)
			}
			on.Store(false)
			wantOK(t, u, tool("a"))
			if name == "one tool" && len(f.requests(mcp.MethodInitialize)) != began || len(f.requests(http.MethodDelete)) != 0 {
				t.Errorf("the session was given up")
			}
		})
	}
}

// forgetful is a server that can lose its sessions.
type forgetful struct {
	*fake
	opened, lost atomic.Int64 // the numbers of its last session, and of the last that it has lost
}

func (s *forgetful) forget() { s.lost.Store(s.opened.Load()) }

// newForgetful makes a forgetful server, and says how it refuses what comes in a session that it lost.
func newForgetful(t *testing.T, refuse func(http.ResponseWriter, rpc)) *forgetful {
	s := &forgetful{}
	s.fake = newBubbleFake(t, true, func(_ *fake, w http.ResponseWriter, r *http.Request, m rpc) bool {
		if m.Method == mcp.MethodInitialize {
			w.Header().Set("Mcp-Session-Id", fmt.Sprint(s.opened.Add(1)))
			result(w, m, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"forgetful","version":"1"}}`)
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
