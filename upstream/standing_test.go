package upstream_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// A server that closes its stream at once and wants it back at once gets it back a
// little later.
func TestStandingStreamIsNotReopenedInALoop(t *testing.T) {
	synctest.Test(t, testStandingStreamIsNotReopenedInALoop)
}

func testStandingStreamIsNotReopenedInALoop(t *testing.T) {
	opened := make(chan time.Time, 3)
	f := newBubbleFake(t, true, func(_ *fake, w http.ResponseWriter, r *http.Request, _ rpc) bool {
		if r.Method != http.MethodGet {
			return false
		}
		select {
		case opened <- time.Now():
			events(w, "id: e1\nretry: 1\ndata:\n\n")
		default:
			<-r.Context().Done()
		}
		return true
	})
	u := f.start(t, upstream.Config{})
	wantOK(t, u, asked("a"))
	f.await(t, http.MethodGet, 3)
	last := <-opened
	for range 2 {
		next := <-opened
		if pause := next.Sub(last); pause < 100*time.Millisecond {
			t.Errorf("opened again after %s", pause)
		}
		last = next
	}
}

// What changed before a slow server had opened its stream was told to nobody.
func TestP9_93_StandingStreamThatOpensLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBubbleFake(t, true, func(_ *fake, w http.ResponseWriter, r *http.Request, _ rpc) bool {
			if r.Method != http.MethodGet {
				return false
			}
			time.Sleep(time.Second)
			events(w, ": hello\n\n")
			<-r.Context().Done()
			return true
		})
		began := time.Now()
		end, got := listen(t, f.start(t, upstream.Config{}), `{"toolsListChanged":true}`, "")
		if e := <-got; e.Method != mcp.NoteAcknowledged || time.Since(began) >= time.Second {
			t.Errorf("event %s after %s", e.Method, time.Since(began))
		}
		if e := <-got; e.Method != mcp.NoteToolsListChanged || time.Since(began) != time.Second {
			t.Errorf("event %s after %s", e.Method, time.Since(began))
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(got) > 0 {
			t.Errorf("once more: %s", (<-got).Method)
		}
		end()
	})
}

// What is kept must not lie in memory that is used again, nor keep a large piece of
// it from being so.
func TestOnlyWhatIsPassedOnIsReleased(t *testing.T) {
	f := newFake(t, false, func(_ *fake, w http.ResponseWriter, _ *http.Request, m rpc) bool {
		switch m.Method {
		case mcp.MethodToolsList:
			result(w, m, `{"tools":[{"name":"a","inputSchema":{"type":"object"},"x":`+largeResult("l")+`}]}`)
		case mcp.MethodToolsCall:
			result(w, m, largeResult("c"))
		default:
			return false
		}
		return true
	})
	u := start(t, upstream.Config{URL: f.URL})
	list, err := do(t, u, &mcp.Call{Method: mcp.MethodToolsList, Notify: func(mcp.Event) {}})
	if err != nil {
		t.Fatal(err)
	}
	if list.Release != nil {
		t.Error("a list is released")
	}
	reply, err := do(t, u, tool("a"))
	if err != nil {
		t.Fatal(err)
	}
	if string(reply.Result) != largeResult("c") {
		t.Error("not the result")
	}
}
