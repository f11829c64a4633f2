package upstream_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// presume has the others take a replica to have gone that has not.
func (g *gateways) presume(u *upstream.Upstream) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for self, other := range g.all {
		if other == u {
			close(self.dead)
		}
	}
}

// asks has calls of the tool "ask" ask the questions, and hang then until they are cancelled.
func (i *inn) asks(questions ...string) {
	i.calls = func(w http.ResponseWriter, r *http.Request, m rpc) bool {
		name, _ := mcp.Raw(m.Params).Member("name")
		if m.Method != mcp.MethodToolsCall || name.Text() != "ask" {
			return false
		}
		for _, q := range questions {
			events(w, "data: "+q+"\n\n")
		}
		<-r.Context().Done()
		return true
	}
}

// wantLetGo checks that the question was answered with an error, once, and the call in whose
// course it was asked was cancelled.
func (i *inn) wantLetGo(t *testing.T, id string) {
	t.Helper()
	if answer := i.awaitAnswer(t, id); !strings.Contains(answer, "the client has gone") || !strings.Contains(answer, "-32603") {
		t.Errorf("%s is answered with %s", id, answer)
	}
	i.wantAnswers(t, 1)
	call := ""
	for _, s := range i.requests(mcp.MethodToolsCall) {
		if name, _ := mcp.Raw(s.Params).Member("name"); name.Text() == "ask" {
			call = string(s.ID)
		}
	}
	cancelled := i.requests(mcp.NoteCancelled)
	if len(cancelled) != 1 {
		t.Fatalf("%d calls were cancelled", len(cancelled))
	}
	if id, _ := mcp.Raw(cancelled[0].Params).Member("requestId"); string(id) != call {
		t.Errorf("the call %s was cancelled, not %s", id, call)
	}
}

// put makes a call of the tool "ask" at a replica, and returns its reply, which asks.
// It runs in a bubble of synctest.
func put(t *testing.T, u *upstream.Upstream) *mcp.Reply {
	t.Helper()
	reply := mustDo(t, u, asked("ask"))
	if reply.Ask == nil {
		t.Fatalf("nothing is asked: %+v", reply)
	}
	synctest.Wait() // all replicas know of it
	return reply
}

// answering makes the call anew, with an answer.
func answering(reply *mcp.Reply) *mcp.Call {
	c := asked("ask")
	c.State = reply.Ask.State
	c.Answers = map[string]mcp.Raw{reply.Ask.Requests[0].Key: mcp.Raw(`{"action":"accept","content":{}}`)}
	return c
}

// A question whose replica was killed is answered by another one that has the session.
// It runs in a bubble of synctest.
func TestReplicaGoneWithAQuestion(t *testing.T) {
	inReplicas(t, func(t *testing.T, i *inn, g *gateways, a, b *upstream.Upstream) {
		c := g.join(t, i, upstream.Config{})
		for _, u := range []*upstream.Upstream{a, b, c} {
			wantAt(t, u, asked("x"), "s1")
		}
		i.asks(theyAsk)
		put(t, a)
		g.kill(a)
		time.Sleep(lease - time.Second)
		if n := len(i.requests(mcp.NoteCancelled)); n > 0 {
			t.Error("a replica is taken to have gone before its time")
		}
		i.wantLetGo(t, "q")
	})
}

// Several questions of one call are all answered, and the call is cancelled once.
// It runs in a bubble of synctest.
func TestReplicaGoneWithQuestions(t *testing.T) {
	inReplicas(t, func(t *testing.T, i *inn, g *gateways, a, b *upstream.Upstream) {
		wantAt(t, a, asked("x"), "s1")
		wantAt(t, b, asked("x"), "s1")
		i.asks(theyAsk, strings.Replace(theyAsk, `"q"`, `7`, 1), strings.Replace(theirs, `"q"`, `"r"`, 1))
		if reply := put(t, a); len(reply.Ask.Requests) != 3 {
			t.Errorf("asked %+v", reply.Ask.Requests)
		}
		g.kill(a)
		i.awaitAnswer(t, "r")
		i.wantAnswers(t, 3)
		if n := len(i.requests(mcp.NoteCancelled)); n != 1 {
			t.Errorf("%d times cancelled", n)
		}
	})
}

// Where no other replica has the session, the next one that takes it up answers.
// It runs in a bubble of synctest.
func TestReplicaGoneFromTheOnlySession(t *testing.T) {
	inReplicas(t, func(t *testing.T, i *inn, g *gateways, a, b *upstream.Upstream) {
		wantAt(t, a, asked("x"), "s1")
		i.asks(theyAsk)
		put(t, a)
		g.kill(a)
		time.Sleep(time.Minute)
		i.wantAnswers(t, 0)
		wantAt(t, b, asked("x"), "s1")
		i.wantLetGo(t, "q")
	})
}

// What was answered is not answered again, whatever becomes of its replica.
// It runs in a bubble of synctest.
func TestReplicaGoneWithoutAQuestion(t *testing.T) {
	inReplicas(t, func(t *testing.T, i *inn, g *gateways, a, b *upstream.Upstream) {
		wantAt(t, a, asked("x"), "s1")
		wantAt(t, b, asked("x"), "s1")
		i.asks(theyAsk)
		retry := answering(put(t, a))
		go func() { _, _ = do(t, a, retry) }() // it is cut off
		if answer := i.awaitAnswer(t, "q"); !strings.Contains(answer, "accept") {
			t.Errorf("answered with %s", answer)
		}
		g.kill(a)
		i.wantAnswers(t, 1)
	})
}

// A replica that is only taken to have gone does not answer what another one has.
// It runs in a bubble of synctest.
func TestH_192_ReplicaThatComesBackToAQuestion(t *testing.T) {
	inReplicas(t, func(t *testing.T, i *inn, g *gateways, a, b *upstream.Upstream) {
		wantAt(t, a, asked("x"), "s1")
		wantAt(t, b, asked("x"), "s1")
		i.asks(theyAsk)
		answered := put(t, a)
		i.asks(strings.Replace(theyAsk, `"q"`, `"p"`, 1))
		put(t, a)
		g.presume(a)
		i.awaitAnswer(t, "q")
		i.awaitAnswer(t, "p")
		_, err := do(t, a, answering(answered))
		wantError(t, err, mcp.CodeUpstreamSessionLost, mcp.ExecutedUnknown)
		time.Sleep(10 * time.Minute) // nobody comes back for the other one
		i.wantAnswers(t, 2)
		if n := len(i.requests(mcp.NoteCancelled)); n != 2 {
			t.Errorf("%d times cancelled", n)
		}
	})
}

// A replica that stops in good order answers what waits there itself.
// It runs in a bubble of synctest.
func TestReplicaLetsGoOfQuestions(t *testing.T) {
	inReplicas(t, func(t *testing.T, i *inn, g *gateways, a, b *upstream.Upstream) {
		wantAt(t, a, asked("x"), "s1")
		wantAt(t, b, asked("x"), "s1")
		i.asks(theyAsk)
		put(t, a)
		began := time.Now()
		a.LetGo(t.Context())
		if took := time.Since(began); took > time.Second {
			t.Errorf("it took %s", took)
		}
		if answer := i.awaitAnswer(t, "q"); !strings.Contains(answer, `"cancel"`) {
			t.Errorf("answered with %s", answer)
		}
		i.await(t, mcp.NoteCancelled, 1)
		g.kill(a)
		i.wantAnswers(t, 1)
		if n := len(i.requests(mcp.NoteCancelled)); n != 1 {
			t.Errorf("%d calls were cancelled", n)
		}
	})
}

// What is not known for a while is made up for.
// It runs in a bubble of synctest.
func TestReplicaGoneWhileRedisIsAway(t *testing.T) {
	inReplicas(t, func(t *testing.T, i *inn, g *gateways, a, b *upstream.Upstream) {
		wantAt(t, a, asked("x"), "s1")
		wantAt(t, b, asked("x"), "s1")
		i.asks(theyAsk)
		put(t, a)
		g.Break(true)
		g.kill(a)
		time.Sleep(time.Minute)
		i.wantAnswers(t, 0)
		g.Break(false)
		i.wantLetGo(t, "q")
	})
}

// While replicas know nothing of each other each one answers for itself.
// It runs in a bubble of synctest.
func TestReplicaAnswersWithoutRedis(t *testing.T) {
	inReplicas(t, func(t *testing.T, i *inn, g *gateways, a, b *upstream.Upstream) {
		wantAt(t, a, asked("x"), "s1")
		wantAt(t, b, asked("x"), "s1")
		i.asks(theyAsk)
		kept := put(t, a)
		g.Break(true)
		for _, reply := range []*mcp.Reply{kept, put(t, a)} {
			retry := answering(reply)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				_, _ = a.Handle(ctx, retry)
			}()
			i.awaitAnswer(t, "q")
			cancel()
			<-done
		}
		i.wantAnswers(t, 2)
	})
}

// A server that has forgotten a session is not told of its questions.
// It runs in a bubble of synctest.
func TestReplicaGoneWithASessionThatIsLost(t *testing.T) {
	inReplicas(t, func(t *testing.T, i *inn, g *gateways, a, b *upstream.Upstream) {
		wantAt(t, a, asked("x"), "s1")
		i.asks(theyAsk)
		put(t, a)
		g.kill(a)
		i.forget()
		wantAt(t, b, asked("x"), "s2")
		wantAt(t, g.join(t, i, upstream.Config{}), asked("x"), "s2") // which has no other one of its own
		i.wantAnswers(t, 0)
	})
}
