package upstream_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

const rootsQuestion = `data: {"jsonrpc":"2.0","id":"ID","method":"roots/list"}` + "\n\n"

// rootsFake asks for roots on its GET stream when the test says so.
func rootsFake(t *testing.T) (f *fake, u *upstream.Upstream, ask func(id string)) {
	t.Helper()
	say := make(chan string)
	f = newBubbleFake(t, true, func(_ *fake, w http.ResponseWriter, r *http.Request, _ rpc) bool {
		if r.Method != http.MethodGet {
			return false
		}
		events(w, ": hello\n\n")
		for {
			select {
			case text := <-say:
				events(w, text)
			case <-r.Context().Done():
				return true
			}
		}
	})
	return f, f.start(t, upstream.Config{}), func(id string) {
		say <- strings.Replace(rootsQuestion, "ID", id, 1)
		synctest.Wait()
	}
}

// answered returns the answer that the server got, "" for none yet.
func (f *fake) answered(id string) string {
	for _, s := range f.requests("") {
		if s.verb == http.MethodPost && s.Method == "" && string(s.ID) == `"`+id+`"` {
			return string(s.Result) + string(s.Error)
		}
	}
	return ""
}

func withRoots(name string) *mcp.Call {
	c := tool(name)
	c.Caps = mcp.Raw(`{"roots":{"listChanged":true}}`)
	return c
}

const twoRoots = `{"roots":[{"uri":"file:///a"},{"uri":"file:///b"}]}`

func TestRootsOutsideOfACall(t *testing.T) { synctest.Test(t, testRootsOutsideOfACall) }

func testRootsOutsideOfACall(t *testing.T) {
	f, u, ask := rootsFake(t)
	wantOK(t, u, withRoots("first")) // opens the session
	ask("init")
	if got := f.answered("init"); got != "" {
		t.Fatalf("it was answered %s with nobody asked", got)
	}

	// The next call is asked first, and made once the server has the answer.
	c := withRoots("second")
	q := mustDo(t, u, c).Ask
	if q == nil || len(q.Requests) != 1 || q.Requests[0].Method != mcp.MethodRootsList || q.Expires.IsZero() {
		t.Fatalf("asked %+v, want for roots", q)
	}
	if n := len(f.requests(mcp.MethodToolsCall)); n != 1 {
		t.Errorf("%d calls were made", n)
	}
	wantOK(t, u, answerTo(c, q, twoRoots))
	if got := f.answered("init"); got != twoRoots {
		t.Errorf("it was answered %s", got)
	}

	// From then on the answer is known, until the roots change.
	ask("again")
	if got := f.answered("again"); got != twoRoots {
		t.Errorf("asked again it was answered %s", got)
	}
	u.RootsChanged("another:session")
	synctest.Wait()
	if n := len(f.requests(mcp.NoteRootsListChanged)); n != 0 {
		t.Error("the roots of another session changed, and this server was told")
	}
	u.RootsChanged(c.Session)
	synctest.Wait()
	if n := len(f.requests(mcp.NoteRootsListChanged)); n != 1 {
		t.Errorf("told %d times that roots changed", n)
	}
	ask("changed")
	if got := f.answered("changed"); got != "" {
		t.Errorf("it was answered %s, which is old", got)
	}
	// There is no call: what the server knows is better than nothing, and the next call
	// makes it ask again.
	<-time.After(3 * time.Second)
	if got := f.answered("changed"); !strings.Contains(got, "-32603") {
		t.Errorf("with no call it was answered %s", got)
	}
	wantOK(t, u, withRoots("third"))
	if n := len(f.requests(mcp.NoteRootsListChanged)); n != 2 {
		t.Errorf("told %d times that roots changed", n)
	}
}

func TestNobodyToAskForRoots(t *testing.T) { synctest.Test(t, testNobodyToAskForRoots) }

func testNobodyToAskForRoots(t *testing.T) {
	f, u, ask := rootsFake(t)
	c := withRoots("first")
	wantOK(t, u, c)
	ask("one")
	<-time.After(3 * time.Second)
	if got := f.answered("one"); got != `{"roots":[]}` {
		t.Errorf("it was answered %q", got)
	}
	wantOK(t, u, c) // nothing waits for it
	if n := len(f.requests(mcp.NoteRootsListChanged)); n != 1 {
		t.Errorf("told %d times that roots changed, want once: it could be answered now", n)
	}

	// The client refuses; the call is made nevertheless.
	ask("two")
	q := mustDo(t, u, c).Ask
	again := c.Clone()
	again.Round, again.Refused = q.Round, map[string]*mcp.Error{q.Requests[0].Key: mcp.Relayed(-1, "no", nil)}
	wantOK(t, u, again)
	if got := f.answered("two"); !strings.Contains(got, `"code":-1`) {
		t.Errorf("it was answered %q", got)
	}

	// The client goes away, and its session with it.
	ask("three")
	if mustDo(t, u, c).Ask == nil {
		t.Error("not asked")
	}
	endSession(u, c.Session, true)
	<-time.After(10 * time.Minute)
	if got := f.answered("three"); got != "" {
		t.Errorf("after its session it was answered %q", got)
	}

	// A stateless client declares everything with each call: nothing is remembered.
	c = withRoots("fourth")
	c.Session, c.Ephemeral, c.Caps = "user:~c", true, mcp.Raw(`{"roots":{}}`)
	wantOK(t, u, c)
	ask("four")
	wantOK(t, u, answerTo(c, mustDo(t, u, c).Ask, twoRoots))
	if got := f.answered("four"); got != twoRoots {
		t.Errorf("it was answered %q", got)
	}
	ask("five")
	if got := f.answered("five"); got != "" {
		t.Errorf("it was answered %q from what an earlier call said", got)
	}
}

// A server that asks more often than there is room for gets an answer at once.
func TestRootsAskedTooOften(t *testing.T) { synctest.Test(t, testRootsAskedTooOften) }

func testRootsAskedTooOften(t *testing.T) {
	f, u, ask := rootsFake(t)
	wantOK(t, u, withRoots("first"))
	for _, id := range []string{"a", "b", "c", "d", "e"} {
		ask(id)
	}
	if got := f.answered("d") + f.answered("e"); got != `{"roots":[]}` {
		t.Errorf("the fourth and fifth were answered %q", got)
	}
	c := withRoots("second")
	wantOK(t, u, answerTo(c, mustDo(t, u, c).Ask, twoRoots))
	if f.answered("a") != twoRoots || f.answered("d") != twoRoots {
		t.Error("those that waited were not answered")
	}
}

// The client's answer to a question during a call is kept for the next time, too.
func TestRootsOfACallAreKept(t *testing.T) { synctest.Test(t, testRootsOfACallAreKept) }

func testRootsOfACallAreKept(t *testing.T) {
	say := make(chan string, 1)
	done := make(chan struct{}, 1)
	f := newBubbleFake(t, true, func(_ *fake, w http.ResponseWriter, r *http.Request, m rpc) bool {
		switch {
		case r.Method == http.MethodGet:
			events(w, ": hello\n\n")
			for {
				select {
				case text := <-say:
					events(w, text)
				case <-r.Context().Done():
					return true
				}
			}
		case m.Method == "" && m.ID != nil:
			done <- struct{}{}
		case m.Method == mcp.MethodToolsCall:
			events(w, strings.Replace(rootsQuestion, "ID", "mid", 1))
			<-done
			events(w, event(m, "", okResult))
			return true
		}
		return false
	})
	u := f.start(t, upstream.Config{})
	c := withRoots("a")
	ask := mustDo(t, u, c).Ask
	u.RootsChanged(c.Session) // after the question, before its answer
	wantOK(t, u, answerTo(c, ask, twoRoots))
	say <- strings.Replace(rootsQuestion, "ID", "old", 1)
	synctest.Wait()
	if got := f.answered("old"); got != "" {
		t.Errorf("an answer from before the change was kept: %s", got)
	}
	<-time.After(3 * time.Second)
	<-done
	wantOK(t, u, answerTo(c, mustDo(t, u, c).Ask, twoRoots))
	say <- strings.Replace(rootsQuestion, "ID", "new", 1)
	synctest.Wait()
	if got := f.answered("new"); got != twoRoots {
		t.Errorf("the answer was not kept: %q", got)
	}
}
