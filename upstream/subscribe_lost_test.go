package upstream_test

import (
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

// A subscription, too, may be what finds a session lost.
func TestSessionGoneBeforeASubscription(t *testing.T) {
	var sessions atomic.Int32
	f := newFake(t, true, nil)
	f.handle = func(f *fake, w http.ResponseWriter, r *http.Request, m rpc) bool {
		switch {
		case m.Method == mcp.MethodInitialize:
			f.mu.Lock()
			f.session = "s" + string(rune('0'+sessions.Add(1)))
			f.mu.Unlock()
			return false
		case r.Header.Get("Mcp-Session-Id") == "s1" && sessions.Load() > 0 && len(f.requests(mcp.MethodToolsCall)) > 0 &&
			m.Method != mcp.MethodToolsCall:
			failure(w, 404, rpc{ID: []byte("null")}, `{"code":-32001,"message":"Session not found"}`)
			return true
		case strings.Contains(m.Method, "subscribe"):
			result(w, m, `{}`)
			return true
		}
		return false
	}
	u := f.start(t, upstream.Config{})
	wantOK(t, u, tool("a"))
	end, got := listen(t, u, `{"resourceSubscriptions":["a:b","a:c"]}`, "user:session")
	if e := <-got; e.Method != mcp.NoteAcknowledged ||
		string(e.Params) != `{"notifications":{"resourceSubscriptions":["a:b","a:c"]}}` {
		t.Errorf("event %s %s", e.Method, e.Params)
	}
	var subscribed int
	for _, s := range f.requests(mcp.MethodResourcesSubscribe) {
		if s.header.Get("Mcp-Session-Id") == "s2" {
			subscribed++
		}
	}
	if subscribed != 2 || sessions.Load() != 2 {
		t.Errorf("%d subscriptions in the session after it, of %d", subscribed, sessions.Load())
	}
	end()
	f.await(t, mcp.MethodResourcesUnsubscribe, 2)
}

// A caller that wants a resource to which another caller is just subscribing gets it only
// if that succeeds, and otherwise subscribes itself.
func TestSubscribedByTwo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		f := newBubbleFake(t, true, func(_ *fake, w http.ResponseWriter, r *http.Request, m rpc) bool {
			if m.Method != mcp.MethodResourcesSubscribe {
				return false
			}
			time.Sleep(time.Second)
			if asked.Add(1) == 1 {
				w.WriteHeader(http.StatusServiceUnavailable)
				return true
			}
			return false
		})
		u := f.start(t, upstream.Config{})
		endFirst, first := listen(t, u, `{"resourceSubscriptions":["a:b"]}`, "user:session")
		time.Sleep(time.Second / 2)
		endSecond, second := listen(t, u, `{"resourceSubscriptions":["a:b"]}`, "user:session")
		for _, l := range []struct {
			got  chan mcp.Event
			want string
		}{{first, `{"notifications":{}}`}, {second, `{"notifications":{"resourceSubscriptions":["a:b"]}}`}} {
			if e := <-l.got; string(e.Params) != l.want {
				t.Errorf("acknowledged %s, want %s", e.Params, l.want)
			}
		}
		if n := asked.Load(); n != 2 {
			t.Errorf("asked for %d times", n)
		}
		endFirst()
		endThird, third := listen(t, u, `{"resourceSubscriptions":["a:b"]}`, "user:session")
		if <-third; asked.Load() != 2 {
			t.Error("asked for once more, by who comes later")
		}
		endSecond()
		endThird()
		f.await(t, mcp.MethodResourcesUnsubscribe, 1)
	})
}

// A resource that cannot be subscribed to in the session after a lost one is subscribed to
// later, and counts as changed. Nobody waits in a session that turns out to be lost.
func TestSubscriptionsAreMended(t *testing.T) {
	for name, status := range map[string]int{"the server is busy": http.StatusServiceUnavailable,
		"the session is lost again": http.StatusNotFound} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var refused atomic.Int32
				f := newSSEFake(t, newBubbleFake)
				f.posted = func(s *sseStream, w http.ResponseWriter, r *http.Request, m rpc) bool {
					if m.Method != mcp.MethodResourcesSubscribe || s.id == "s1" || refused.Add(1) > 2 {
						return false
					}
					w.WriteHeader(status)
					return true
				}
				u := f.start(t, overSSE())
				end, got := listen(t, u, `{"resourceSubscriptions":["a:b"]}`, "user:session")
				<-got
				f.mu.Lock()
				s := f.streams["s1"]
				f.mu.Unlock()
				s.end()
				time.Sleep(time.Minute)
				synctest.Wait()
				for n := len(got); n > 1; n-- {
					<-got
				}
				f.mu.Lock()
				s = f.streams[fmt.Sprint("s", f.count)]
				f.mu.Unlock()
				var in []string
				for _, asked := range f.requests(mcp.MethodResourcesSubscribe) {
					in = append(in, asked.target)
				}
				if last := in[len(in)-1]; len(in) != 4 || s == nil || last != "/messages?session="+s.id {
					t.Errorf("subscribed to in %v, the last session is %v", in, s)
				}
				if e := <-got; e.Method != mcp.NoteResourceUpdated {
					t.Errorf("told %s", e.Method)
				}
				end()
			})
		})
	}
}
