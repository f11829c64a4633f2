package stateful_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream"
	"github.com/gatehouse-mcp/gatehouse/upstream/upstreamtest/fake"
)

const rootsQuestion = `data: {"jsonrpc":"2.0","id":"ID","method":"roots/list"}` + "\n\n"

// rootsFake asks for roots on its GET stream when the test says so.
func rootsFake(t *testing.T) (f *fake.Server, u *fake.Upstream, ask func(id string)) {
	t.Helper()
	say := make(chan string)
	f = fake.NewBubble(t, true, func(_ *fake.Server, w http.ResponseWriter, r *http.Request, _ fake.Message) bool {
		if r.Method != http.MethodGet {
			return false
		}
		fake.Events(w, ": hello\n\n")
		for {
			select {
			case text := <-say:
				fake.Events(w, text)
			case <-r.Context().Done():
				return true
			}
		}
	})
	return f, f.Upstream(t, upstream.Config{}), func(id string) {
		say <- strings.Replace(rootsQuestion, "ID", id, 1)
		synctest.Wait()
	}
}

// answerOf returns the answer that the server got, "" for none yet.
func answerOf(f *fake.Server, id string) string {
	for _, s := range f.Requests("") {
		if s.Verb == http.MethodPost && s.Method == "" && string(s.ID) == `"`+id+`"` {
			return string(s.Result) + string(s.Error)
		}
	}
	return ""
}

func withRoots(name string) *mcp.Call {
	c := fake.Tool(name)
	c.Caps = mcp.Raw(`{"roots":{"listChanged":true}}`)
	return c
}

const twoRoots = `{"roots":[{"uri":"file:///a"},{"uri":"file:///b"}]}`

func TestRootsOutsideOfACall(t *testing.T) { synctest.Test(t, testRootsOutsideOfACall) }

func testRootsOutsideOfACall(t *testing.T) {
	f, u, ask := rootsFake(t)
	fake.WantOK(t, u, withRoots("first")) // opens the session
	ask("init")
	if got := answerOf(f, "init"); got != "" {
		t.Fatalf("it was answered %s with nobody asked", got)
	}

	// The next call is asked first, and made once the server has the answer.
	c := withRoots("second")
	q := fake.MustDo(t, u, c).Ask
	if q == nil || len(q.Requests) != 1 || q.Requests[0].Method != mcp.MethodRootsList || q.Expires.IsZero() {
		t.Fatalf("asked %+v, want for roots", q)
	}
	if n := len(f.Requests(mcp.MethodToolsCall)); n != 1 {
		t.Errorf("%d calls were made", n)
	}
	fake.WantOK(t, u, answerTo(c, q, twoRoots))
	if got := answerOf(f, "init"); got != twoRoots {
		t.Errorf("it was answered %s", got)
	}

	// From then on the answer is known, until the roots change.
	ask("again")
	if got := answerOf(f, "again"); got != twoRoots {
		t.Errorf("asked again it was answered %s", got)
	}
	u.RootsChanged("another:session")
	synctest.Wait()
	if n := len(f.Requests(mcp.NoteRootsListChanged)); n != 0 {
		t.Error("the roots of another session changed, and this server was told")
	}
	u.RootsChanged(c.Session)
	synctest.Wait()
	if n := len(f.Requests(mcp.NoteRootsListChanged)); n != 1 {
		t.Errorf("told %d times that roots changed", n)
	}
	ask("changed")
	if got := answerOf(f, "changed"); got != "" {
		t.Errorf("it was answered %s, which is old", got)
	}
	// There is no call: what the server knows is better than nothing, and the next call
	// makes it ask again.
	<-time.After(3 * time.Second)
	if got := answerOf(f, "changed"); !strings.Contains(got, "-32603") {
		t.Errorf("with no call it was answered %s", got)
	}
	fake.WantOK(t, u, withRoots("third"))
	if n := len(f.Requests(mcp.NoteRootsListChanged)); n != 2 {
		t.Errorf("told %d times that roots changed", n)
	}
}

func TestNobodyToAskForRoots(t *testing.T) { synctest.Test(t, testNobodyToAskForRoots) }

func testNobodyToAskForRoots(t *testing.T) {
	f, u, ask := rootsFake(t)
	c := withRoots("first")
	fake.WantOK(t, u, c)
	ask("one")
	<-time.After(3 * time.Second)
	if got := answerOf(f, "one"); got != `{"roots":[]}` {
		t.Errorf("it was answered %q", got)
	}
	fake.WantOK(t, u, c) // nothing waits for it
	if n := len(f.Requests(mcp.NoteRootsListChanged)); n != 1 {
		t.Errorf("told %d times that roots changed, want once: it could be answered now", n)
	}

	// The client refuses; the call is made nevertheless.
	ask("two")
	q := fake.MustDo(t, u, c).Ask
	again := c.Clone()
	again.Round, again.Refused = q.Round, map[string]*mcp.Error{q.Requests[0].Key: mcp.Relayed(-1, "no", nil)}
	fake.WantOK(t, u, again)
	if got := answerOf(f, "two"); !strings.Contains(got, `"code":-1`) {
		t.Errorf("it was answered %q", got)
	}

	// The client goes away, and its session with it.
	ask("three")
	if fake.MustDo(t, u, c).Ask == nil {
		t.Error("not asked")
	}
	u.EndSession(c.Session, true)
	<-time.After(10 * time.Minute)
	if got := answerOf(f, "three"); got != "" {
		t.Errorf("after its session it was answered %q", got)
	}

	// A stateless client declares everything with each call: nothing is remembered.
	c = withRoots("fourth")
	c.Session, c.Ephemeral, c.Caps = "user:~c", true, mcp.Raw(`{"roots":{}}`)
	fake.WantOK(t, u, c)
	ask("four")
	fake.WantOK(t, u, answerTo(c, fake.MustDo(t, u, c).Ask, twoRoots))
	if got := answerOf(f, "four"); got != twoRoots {
		t.Errorf("it was answered %q", got)
	}
	ask("five")
	if got := answerOf(f, "five"); got != "" {
		t.Errorf("it was answered %q from what an earlier call said", got)
	}
}

// A server that asks more often than there is room for gets an answer at once.
func TestRootsAskedTooOften(t *testing.T) { synctest.Test(t, testRootsAskedTooOften) }

func testRootsAskedTooOften(t *testing.T) {
	f, u, ask := rootsFake(t)
	fake.WantOK(t, u, withRoots("first"))
	for _, id := range []string{"a", "b", "c", "d", "e"} {
		ask(id)
	}
	if got := answerOf(f, "d") + answerOf(f, "e"); got != `{"roots":[]}` {
		t.Errorf("the fourth and fifth were answered %q", got)
	}
	c := withRoots("second")
	fake.WantOK(t, u, answerTo(c, fake.MustDo(t, u, c).Ask, twoRoots))
	if answerOf(f, "a") != twoRoots || answerOf(f, "d") != twoRoots {
		t.Error("those that waited were not answered")
	}
}

// The client's answer to a question during a call is kept for the next time, too.
func TestRootsOfACallAreKept(t *testing.T) { synctest.Test(t, testRootsOfACallAreKept) }

func testRootsOfACallAreKept(t *testing.T) {
	say := make(chan string, 1)
	done := make(chan struct{}, 1)
	f := fake.NewBubble(t, true, func(_ *fake.Server, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
		switch {
		case r.Method == http.MethodGet:
			fake.Events(w, ": hello\n\n")
			for {
				select {
				case text := <-say:
					fake.Events(w, text)
				case <-r.Context().Done():
					return true
				}
			}
		case m.Method == "" && m.ID != nil:
			done <- struct{}{}
		case m.Method == mcp.MethodToolsCall:
			fake.Events(w, strings.Replace(rootsQuestion, "ID", "mid", 1))
			<-done
			fake.Events(w, fake.Event(m, "", fake.OK))
			return true
		}
		return false
	})
	u := f.Upstream(t, upstream.Config{})
	c := withRoots("a")
	ask := fake.MustDo(t, u, c).Ask
	u.RootsChanged(c.Session) // after the question, before its answer
	fake.WantOK(t, u, answerTo(c, ask, twoRoots))
	say <- strings.Replace(rootsQuestion, "ID", "old", 1)
	synctest.Wait()
	if got := answerOf(f, "old"); got != "" {
		t.Errorf("an answer from before the change was kept: %s", got)
	}
	<-time.After(3 * time.Second)
	<-done
	fake.WantOK(t, u, answerTo(c, fake.MustDo(t, u, c).Ask, twoRoots))
	say <- strings.Replace(rootsQuestion, "ID", "new", 1)
	synctest.Wait()
	if got := answerOf(f, "new"); got != twoRoots {
		t.Errorf("the answer was not kept: %q", got)
	}
}
