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

const (
	changed = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`
	theyAsk = `{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}}}}`
	theirs  = `{"jsonrpc":"2.0","id":"q","method":"roots/list"}`
)

func wantEvents(t *testing.T, who string, got chan mcp.Event, want ...string) {
	t.Helper()
	synctest.Wait()
	for _, method := range want {
		select {
		case e := <-got:
			if e.Method != method {
				t.Errorf("%s was told %s, want %s", who, e.Method, method)
			}
		default:
			t.Errorf("%s was not told %s", who, method)
		}
	}
	for len(got) > 0 {
		t.Errorf("%s was told %s, too", who, (<-got).Method)
	}
}

// A session has one standing stream; who listens at another replica hears what comes on
// it, once, and goes on when that replica stops.
// It runs in a bubble of synctest.
func TestReplicasHaveOneStandingStream(t *testing.T) {
	inReplicas(t, func(t *testing.T, i *inn, _ *gateways, a, b *upstream.Upstream) {
		wantAt(t, a, asked("x"), "s1")
		end, got := listen(t, b, `{"toolsListChanged":true}`, "user:session")
		wantEvents(t, "the other replica", got, mcp.NoteAcknowledged)
		i.say(t, changed)
		wantEvents(t, "the other replica", got, mcp.NoteToolsListChanged)
		time.Sleep(10 * time.Minute)
		if n := len(i.requests(http.MethodGet)); n != 1 {
			t.Errorf("%d standing streams were asked for", n)
		}
		shut(t, a)
		time.Sleep(5 * time.Second)                                    // the server may see late that the stream has ended, and take no other one until then
		wantEvents(t, "who stands now", got, mcp.NoteToolsListChanged) // what may have been missed
		i.say(t, changed)
		wantEvents(t, "who stands now", got, mcp.NoteToolsListChanged)
		end()
	})
}

// When the replica with the standing stream is killed another one has it as soon as that is
// known, and who listens is told that something may have been missed.
// It runs in a bubble of synctest.
func TestReplicasStandForTheDead(t *testing.T) {
	inReplicas(t, func(t *testing.T, i *inn, g *gateways, a, b *upstream.Upstream) {
		wantAt(t, a, asked("x"), "s1")
		end, got := listen(t, b, `{"toolsListChanged":true}`, "user:session")
		wantEvents(t, "the other replica", got, mcp.NoteAcknowledged)
		endThird, atThird := listen(t, g.join(t, i, upstream.Config{}), `{"toolsListChanged":true}`, "user:session")
		wantEvents(t, "the third replica", atThird, mcp.NoteAcknowledged)
		time.Sleep(lease * 2 / 3) // its place is kept longer than it lives from now on
		g.kill(a)
		time.Sleep(lease - time.Second)
		wantEvents(t, "who does not know yet", got)
		time.Sleep(2 * time.Second)
		for range 2 { // what may have been missed, and what comes
			wantEvents(t, "the other replica", got, mcp.NoteToolsListChanged)
			wantEvents(t, "the third replica", atThird, mcp.NoteToolsListChanged)
			i.say(t, changed)
		}
		synctest.Wait()
		end()
		endThird()
	})
}

// While nobody can tell whose the stream is the server decides.
// It runs in a bubble of synctest.
func TestReplicasStandWithoutRedis(t *testing.T) {
	inReplicas(t, func(t *testing.T, i *inn, g *gateways, a, b *upstream.Upstream) {
		endA, atA := listen(t, a, `{"toolsListChanged":true}`, "user:session")
		wantEvents(t, "a", atA, mcp.NoteAcknowledged)
		endB, atB := listen(t, b, `{"toolsListChanged":true}`, "user:session")
		wantEvents(t, "b", atB, mcp.NoteAcknowledged)
		g.Break(true)
		time.Sleep(time.Minute)
		i.say(t, changed)
		wantEvents(t, "a", atA, mcp.NoteToolsListChanged)
		wantEvents(t, "b", atB) // the server has taken no second stream
		g.Break(false)
		time.Sleep(time.Minute)
		wantEvents(t, "b", atB, mcp.NoteToolsListChanged)
		b.Rejoin() // as does what is lost on the way
		wantEvents(t, "b", atB, mcp.NoteToolsListChanged)
		i.say(t, changed)
		wantEvents(t, "a", atA, mcp.NoteToolsListChanged)
		wantEvents(t, "b", atB, mcp.NoteToolsListChanged)
		endA()
		endB()
	})
}

// A question that comes on one replica's stream is put to the call at another.
// It runs in a bubble of synctest.
func TestReplicasPassQuestionsOn(t *testing.T) {
	inReplicas(t, func(t *testing.T, i *inn, _ *gateways, a, b *upstream.Upstream) {
		wantAt(t, a, asked("x"), "s1")
		proceed := i.hold()
		replies := make(chan *mcp.Reply, 2)
		call := asked("x")
		go func() { replies <- mustDo(t, b, call) }()
		i.await(t, mcp.MethodToolsCall, 2)
		i.say(t, theyAsk)
		reply := next(t, replies)
		if reply.Ask == nil || len(reply.Ask.Requests) != 1 {
			t.Fatalf("no question: %+v", reply)
		}
		retry := asked("x")
		retry.State = reply.Ask.State
		retry.Answers = map[string]mcp.Raw{reply.Ask.Requests[0].Key: mcp.Raw(`{"action":"accept","content":{}}`)}
		go func() { replies <- mustDo(t, b, retry) }()
		if answer := i.awaitAnswer(t, "q"); !strings.Contains(answer, "accept") {
			t.Errorf("answer %s", answer)
		}
		close(proceed)
		if reply := next(t, replies); !strings.Contains(string(reply.Result), "ok") {
			t.Errorf("reply %+v", reply)
		}
		i.wantAnswers(t, 1)
	})
}

// A question for which there is no call anywhere is refused once.
// It runs in a bubble of synctest.
func TestReplicasRefuseStrayQuestions(t *testing.T) {
	inReplicas(t, func(t *testing.T, i *inn, _ *gateways, a, b *upstream.Upstream) {
		wantAt(t, a, asked("x"), "s1")
		wantAt(t, b, asked("x"), "s1")
		i.say(t, theyAsk)
		if answer := i.awaitAnswer(t, "q"); !strings.Contains(answer, "belongs to no call") {
			t.Errorf("answer %s", answer)
		}
		i.wantAnswers(t, 1)
	})
}

// Roots are asked for at the replica that has the next call, and answered once.
// It runs in a bubble of synctest.
func TestReplicasAnswerForRoots(t *testing.T) {
	inReplicas(t, func(t *testing.T, i *inn, _ *gateways, a, b *upstream.Upstream) {
		wantAt(t, a, asked("x"), "s1")
		wantAt(t, b, asked("x"), "s1")
		proceed := i.hold()
		replies := make(chan *mcp.Reply, 2)
		go func() { replies <- mustDo(t, b, asked("x")) }()
		i.await(t, mcp.MethodToolsCall, 3)
		i.say(t, theirs)
		reply := next(t, replies)
		if reply.Ask == nil || reply.Ask.Requests[0].Method != mcp.MethodRootsList {
			t.Fatalf("no question: %+v", reply)
		}
		retry := asked("x")
		retry.State = reply.Ask.State
		retry.Answers = map[string]mcp.Raw{reply.Ask.Requests[0].Key: mcp.Raw(`{"roots":[{"uri":"file:///b"}]}`)}
		go func() { replies <- mustDo(t, b, retry) }()
		if answer := i.awaitAnswer(t, "q"); !strings.Contains(answer, "file:///b") {
			t.Errorf("answer %s", answer)
		}
		close(proceed)
		next(t, replies)
		i.wantAnswers(t, 1)
		// Now they are known at b, and the stream is at a.
		i.say(t, strings.Replace(theirs, `"q"`, `"q2"`, 1))
		if answer := i.awaitAnswer(t, "q2"); !strings.Contains(answer, "file:///b") {
			t.Errorf("answer %s", answer)
		}
		i.wantAnswers(t, 2)
	})
}

// hold has calls of tools wait, after the beginning of their streams, until what it returns
// is closed.
func (i *inn) hold() (proceed chan struct{}) {
	proceed = make(chan struct{})
	i.calls = func(w http.ResponseWriter, r *http.Request, m rpc) bool {
		if m.Method != mcp.MethodToolsCall {
			return false
		}
		events(w, ": wait\n\n")
		select {
		case <-proceed:
			events(w, event(m, "", okResult))
		case <-r.Context().Done():
		}
		return true
	}
	return proceed
}

func next(t *testing.T, replies chan *mcp.Reply) *mcp.Reply {
	t.Helper()
	select {
	case reply := <-replies:
		return reply
	case <-time.After(patience):
		t.Fatal("there is no reply")
		return nil
	}
}

// wantAnswers checks how many answers the server got in all, some time later.
// It runs in a bubble of synctest.
func (i *inn) wantAnswers(t *testing.T, want int) {
	t.Helper()
	time.Sleep(time.Minute)
	n := 0
	for _, s := range i.requests("") {
		if s.verb == http.MethodPost && s.Method == "" {
			n++
		}
	}
	if n != want {
		t.Errorf("%d answers, want %d", n, want)
	}
}

// What one replica does not want any more stays subscribed for the others.
// It runs in a bubble of synctest.
func TestReplicasSubscribeForEachOther(t *testing.T) {
	inReplicas(t, func(t *testing.T, i *inn, _ *gateways, a, b *upstream.Upstream) {
		const want = `{"resourceSubscriptions":["a:b"]}`
		endA, atA := listen(t, a, want, "user:session")
		wantEvents(t, "a", atA, mcp.NoteAcknowledged)
		endB, atB := listen(t, b, want, "user:session")
		wantEvents(t, "b", atB, mcp.NoteAcknowledged)
		endA()
		time.Sleep(time.Second)
		if n := len(i.requests(mcp.MethodResourcesUnsubscribe)); n != 0 {
			t.Errorf("%d times unsubscribed while somebody listens", n)
		}
		wantEvents(t, "b", atB)
		i.say(t, update)
		wantEvents(t, "b", atB, mcp.NoteResourceUpdated)
		endA, atA = listen(t, a, want, "user:session")
		wantEvents(t, "a", atA, mcp.NoteAcknowledged)
		endB()
		time.Sleep(time.Second)
		endA()
		time.Sleep(time.Second)
		if n := len(i.requests(mcp.MethodResourcesUnsubscribe)); n != 1 {
			t.Errorf("%d times unsubscribed in the end", n)
		}
	})
}

// Of replicas whose last listeners leave at the same moment each leaves it to the others to
// unsubscribe: one of them does.
// It runs in a bubble of synctest.
func TestReplicasUnsubscribeTogether(t *testing.T) {
	inReplicas(t, func(t *testing.T, i *inn, g *gateways, a, b *upstream.Upstream) {
		all := []*upstream.Upstream{a, b, g.join(t, i, upstream.Config{})}
		for _, u := range all { // who has the session hears who subscribes
			wantAt(t, u, tool("x"), "s1")
		}
		for round := 1; round <= 3; round++ {
			var ends []func()
			for _, u := range all {
				end, got := listen(t, u, `{"resourceSubscriptions":["a:b"]}`, "user:session")
				wantEvents(t, "a listener", got, mcp.NoteAcknowledged)
				ends = append(ends, end)
			}
			g.slowly(100 * time.Millisecond)
			for _, end := range ends {
				end()
			}
			time.Sleep(time.Minute)
			g.slowly(0)
			if n := len(i.requests(mcp.MethodResourcesUnsubscribe)); n != round {
				t.Fatalf("%d times unsubscribed after round %d", n, round)
			}
		}
	})
}

// What a replica was subscribed to that was killed the last of the others unsubscribes.
// It runs in a bubble of synctest.
func TestReplicasUnsubscribeForTheDead(t *testing.T) {
	inReplicas(t, func(t *testing.T, i *inn, g *gateways, a, b *upstream.Upstream) {
		endA, atA := listen(t, a, `{"resourceSubscriptions":["a:b"]}`, "user:session")
		wantEvents(t, "a", atA, mcp.NoteAcknowledged)
		_, atB := listen(t, b, `{"resourceSubscriptions":["a:b"]}`, "user:session")
		wantEvents(t, "b", atB, mcp.NoteAcknowledged)
		g.kill(b)
		time.Sleep(lease + time.Second)
		endA()
		time.Sleep(time.Minute)
		if n := len(i.requests(mcp.MethodResourcesUnsubscribe)); n != 1 {
			t.Errorf("%d times unsubscribed", n)
		}
	})
}

// A log level that one replica has set another one sets again when it wants its own.
// It runs in a bubble of synctest.
func TestReplicasSetTheLogLevel(t *testing.T) {
	inReplicas(t, func(t *testing.T, i *inn, _ *gateways, a, b *upstream.Upstream) {
		at := func(u *upstream.Upstream, level string) {
			c := tool("x")
			c.LogLevel = level
			wantAt(t, u, c, "s1")
			synctest.Wait()
		}
		at(a, "debug")
		at(b, "debug")
		at(b, "error")
		at(a, "error")
		at(a, "debug")
		var levels []string
		for _, s := range i.requests(mcp.MethodSetLevel) {
			levels = append(levels, string(s.Params))
		}
		if got := strings.Join(levels, " "); got != `{"level":"debug"} {"level":"debug"} {"level":"error"} {"level":"debug"}` {
			t.Errorf("set: %s", got)
		}
	})
}
