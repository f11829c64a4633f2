package stateful_test

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
	"github.com/gatehouse-mcp/gatehouse/upstream/upstreamtest/fake"
)

// A subscription, too, may be what finds a session lost.
func TestSessionGoneBeforeASubscription(t *testing.T) {
	var sessions atomic.Int32
	f := fake.New(t, true, nil)
	f.Handle = func(f *fake.Server, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
		switch {
		case m.Method == mcp.MethodInitialize:
			f.Mu.Lock()
			f.Session = "s" + string(rune('0'+sessions.Add(1)))
			f.Mu.Unlock()
			return false
		case r.Header.Get("Mcp-Session-Id") == "s1" && sessions.Load() > 0 && len(f.Requests(mcp.MethodToolsCall)) > 0 &&
			m.Method != mcp.MethodToolsCall:
			fake.Failure(w, 404, fake.Message{ID: []byte("null")}, `{"code":-32001,"message":"Session not found"}`)
			return true
		case strings.Contains(m.Method, "subscribe"):
			fake.Result(w, m, `{}`)
			return true
		}
		return false
	}
	u := f.Upstream(t, upstream.Config{})
	fake.WantOK(t, u, fake.Tool("a"))
	end, got := fake.Listen(t, u, `{"resourceSubscriptions":["a:b","a:c"]}`, "user:session")
	if e := <-got; e.Method != mcp.NoteAcknowledged ||
		string(e.Params) != `{"notifications":{"resourceSubscriptions":["a:b","a:c"]}}` {
		t.Errorf("event %s %s", e.Method, e.Params)
	}
	var subscribed int
	for _, s := range f.Requests(mcp.MethodResourcesSubscribe) {
		if s.Header.Get("Mcp-Session-Id") == "s2" {
			subscribed++
		}
	}
	if subscribed != 2 || sessions.Load() != 2 {
		t.Errorf("%d subscriptions in the session after it, of %d", subscribed, sessions.Load())
	}
	end()
	f.Await(t, mcp.MethodResourcesUnsubscribe, 2)
}

// A caller that wants a resource to which another caller is just subscribing gets it only
// if that succeeds, and otherwise subscribes itself.
func TestSubscribedByTwo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		f := fake.NewBubble(t, true, func(_ *fake.Server, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
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
		u := f.Upstream(t, upstream.Config{})
		endFirst, first := fake.Listen(t, u, `{"resourceSubscriptions":["a:b"]}`, "user:session")
		time.Sleep(time.Second / 2)
		endSecond, second := fake.Listen(t, u, `{"resourceSubscriptions":["a:b"]}`, "user:session")
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
		endThird, third := fake.Listen(t, u, `{"resourceSubscriptions":["a:b"]}`, "user:session")
		if <-third; asked.Load() != 2 {
			t.Error("asked for once more, by who comes later")
		}
		endSecond()
		endThird()
		f.Await(t, mcp.MethodResourcesUnsubscribe, 1)
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
				f := fake.NewSSE(t, fake.NewBubble)
				f.Posted = func(s *fake.Stream, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
					if m.Method != mcp.MethodResourcesSubscribe || s.ID == "s1" || refused.Add(1) > 2 {
						return false
					}
					w.WriteHeader(status)
					return true
				}
				u := f.Upstream(t, fake.OverSSE())
				end, got := fake.Listen(t, u, `{"resourceSubscriptions":["a:b"]}`, "user:session")
				<-got
				f.Mu.Lock()
				s := f.Streams["s1"]
				f.Mu.Unlock()
				s.End()
				time.Sleep(time.Minute)
				synctest.Wait()
				for n := len(got); n > 1; n-- {
					<-got
				}
				f.Mu.Lock()
				s = f.Streams[fmt.Sprint("s", f.Count)]
				f.Mu.Unlock()
				var in []string
				for _, asked := range f.Requests(mcp.MethodResourcesSubscribe) {
					in = append(in, asked.Target)
				}
				if last := in[len(in)-1]; len(in) != 4 || s == nil || last != "/messages?session="+s.ID {
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
