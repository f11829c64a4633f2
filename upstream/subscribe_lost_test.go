package upstream_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// A session may be found lost by what is subscribed, too.
func TestP9_162_SessionGoneBeforeASubscription(t *testing.T) {
	var sessions atomic.Int32
	f := newFake(t, true, nil)
	f.handle = func(f *fake, w http.ResponseWriter, r *http.Request, m rpc) bool {
		switch {
		case m.Method == mcp.MethodInitialize:
			f.mu.Lock()
			f.session = "s" + string(rune('0'+sessions.Add(1)))
			f.mu.Unlock()
			return false
		case r.Header.Get("Mcp-Session-Id") == "s1" && sessions.Load() > 0 && len(f.requests(mcp.MethodToolsCall)) > 0 && m.Method != mcp.MethodToolsCall:
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
	if e := <-got; e.Method != mcp.NoteAcknowledged || string(e.Params) != `{"notifications":{"resourceSubscriptions":["a:b","a:c"]}}` {
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
