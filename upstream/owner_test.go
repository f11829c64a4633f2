package upstream_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/session"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// of returns the replica of a name, nil for none, with what it is of upstream.Shared.
func (g *gateways) of(name string) (*together, *upstream.Upstream) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for self, u := range g.all {
		if self.Self() == name {
			return self, u
		}
	}
	return nil, nil
}

// shared is that of an upstream.
func (g *gateways) shared(u *upstream.Upstream) *together {
	g.mu.Lock()
	defer g.mu.Unlock()
	for self, other := range g.all {
		if other == u {
			return self
		}
	}
	return nil
}

// Present is upstream.Peers.Present, of replicas in one process.
func (g *together) Present(_ context.Context, replica string) bool {
	other, _ := g.all.of(replica)
	if other == nil || other.unseen.Load() {
		return false
	}
	select {
	case <-other.dead:
		return false
	default:
		return true
	}
}

// Forward is upstream.Peers.Forward. What a replica does that is killed ends nobody's wait
// before its lease is over.
func (g *together) Forward(ctx context.Context, replica, tag string, c *mcp.Call) (*mcp.Reply, error) {
	other, u := g.all.of(replica)
	if other == nil || other.unseen.Load() {
		return nil, upstream.ErrNotThere
	}
	if _, err := g.MemoryReplica.Claim(ctx, session.Place{}, "to forward"); err != nil {
		return nil, upstream.ErrUnheard
	}
	select {
	case <-other.cut:
		<-other.dead
		return nil, upstream.ErrNotThere
	default:
	}
	type made struct {
		reply *mcp.Reply
		err   error
	}
	done := make(chan made, 1)
	go func() {
		reply, err := u.Serve(ctx, tag, c)
		done <- made{reply, err}
	}()
	select {
	case m := <-done:
		select {
		case <-other.cut: // nobody hears of that any more
		default:
			return m.reply, m.err
		}
	case <-other.cut:
	}
	<-other.dead
	return nil, upstream.ErrLost
}

// inOwners runs a test in a bubble with two replicas in front of a server over HTTP+SSE,
// whose tools tell in which of its streams they are called.
func inOwners(t *testing.T, cfg upstream.Config, test func(t *testing.T, f *sseFake, g *gateways, a, b *upstream.Upstream)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f, g := newSSEFake(t, newBubbleFake), newGateways()
		f.posted = func(s *sseStream, w http.ResponseWriter, _ *http.Request, m rpc) bool {
			if m.Method != mcp.MethodToolsCall {
				return false
			}
			w.WriteHeader(http.StatusAccepted)
			switch params := string(m.Params); {
			case strings.Contains(params, `"slow"`):
			case strings.Contains(params, `"ask"`):
				s.say("event: message\ndata: " + theyAsk + "\n\n")
			default:
				s.answer(m, `{"content":[{"type":"text","text":"`+s.id+`"}]}`)
			}
			return true
		}
		cfg.Transport = "sse"
		test(t, f, g, g.joinAt(t, f.fake, cfg), g.joinAt(t, f.fake, cfg))
	})
}

func (f *sseFake) open() int {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.streams)
}

// It runs in a bubble of synctest.
func TestOneReplicaOwnsASession(t *testing.T) {
	inOwners(t, upstream.Config{}, func(t *testing.T, f *sseFake, g *gateways, a, b *upstream.Upstream) {
		for _, u := range []*upstream.Upstream{a, b, b, a} {
			wantAt(t, u, tool("x"), "s1")
		}
		wantAt(t, b, ephemeral(tool("x")), "s2")
		wantAt(t, a, ephemeral(tool("x")), "s2")
		other := tool("x")
		other.Session = "user:other"
		wantAt(t, a, other, "s3")
		if a.Status().Sessions != 2 || b.Status().Sessions != 1 {
			t.Errorf("%d and %d sessions", a.Status().Sessions, b.Status().Sessions)
		}
		for range 10 { // what others do with it is use
			time.Sleep(8 * time.Minute)
			wantAt(t, a, ephemeral(tool("x")), "s2")
		}
		time.Sleep(2 * time.Hour)
		wantAt(t, a, ephemeral(tool("x")), "s4")
		wantAt(t, b, tool("x"), "s1")
		a.EndSession("user:session")
		b.EndSession("user:session")
		if n := f.open(); n != 2 {
			t.Errorf("%d streams are open after the end of a client's session", n)
		}
		if _, err := do(t, b, tool("x")); err == nil {
			t.Error("a session that has ended is begun anew")
		}
	})
}

// It runs in a bubble of synctest.
func TestOwnersThatStop(t *testing.T) {
	inOwners(t, upstream.Config{}, func(t *testing.T, f *sseFake, g *gateways, a, b *upstream.Upstream) {
		wantAt(t, a, tool("x"), "s1")
		wantAt(t, b, tool("x"), "s1")
		a.Yield()
		wantAt(t, b, tool("x"), "s2")
		shut(t, a)
		wantAt(t, b, tool("x"), "s2")
		wantAt(t, g.joinAt(t, f.fake, upstream.Config{Transport: "sse"}), tool("x"), "s2")
		if n := f.open(); n != 1 {
			t.Errorf("%d streams are open", n)
		}
	})
}

// It runs in a bubble of synctest.
func TestOwnersThatAreKilled(t *testing.T) {
	inOwners(t, upstream.Config{}, func(t *testing.T, f *sseFake, g *gateways, a, b *upstream.Upstream) {
		wantAt(t, a, tool("x"), "s1")
		errs := make(chan error, 1)
		go func() {
			_, err := do(t, b, tool("slow"))
			errs <- err
		}()
		f.await(t, mcp.MethodToolsCall, 2)
		g.kill(a)
		wantAt(t, b, tool("x"), "s2")
		wantError(t, <-errs, mcp.CodeUpstreamSessionLost, mcp.ExecutedUnknown)
	})
}

// Replicas that could not reach Redis, or that others took to have gone, have one session
// again afterwards: that which the others know.
// It runs in a bubble of synctest.
func TestOwnersThatWereAway(t *testing.T) {
	inOwners(t, upstream.Config{}, func(t *testing.T, f *sseFake, g *gateways, a, b *upstream.Upstream) {
		wantAt(t, a, tool("x"), "s1")
		wantAt(t, b, tool("x"), "s1")
		g.Break(true)
		wantAt(t, a, tool("x"), "s1")
		wantAt(t, b, tool("x"), "s2") // for itself
		g.Break(false)
		time.Sleep(time.Minute)
		wantAt(t, b, tool("x"), "s1")
		if n := f.open(); n != 1 {
			t.Errorf("%d streams are open", n)
		}
		g.shared(a).unseen.Store(true)
		wantAt(t, b, tool("x"), "s3")
		g.shared(a).unseen.Store(false)
		a.Rejoin()
		synctest.Wait()
		wantAt(t, a, tool("x"), "s3")
		if n := f.open(); n != 1 {
			t.Errorf("%d streams are open", n)
		}
		g.Forget() // a Redis that begins empty
		b.Rejoin()
		synctest.Wait()
		wantAt(t, g.joinAt(t, f.fake, upstream.Config{Transport: "sse"}), tool("x"), "s3")
	})
}

// Sessions at other replicas do not count for the bound of this one.
// It runs in a bubble of synctest.
func TestOwnersLimits(t *testing.T) {
	inOwners(t, upstream.Config{Limits: upstream.Limits{Sessions: 1}}, func(t *testing.T, _ *sseFake, _ *gateways, a, b *upstream.Upstream) {
		of := func(client string) *mcp.Call {
			c := tool("x")
			c.Session = client
			return c
		}
		wantAt(t, a, of("user:1"), "s1")
		wantAt(t, b, of("user:1"), "s1")
		wantAt(t, b, of("user:2"), "s2")
		wantAt(t, a, of("user:2"), "s2")
		for _, u := range []*upstream.Upstream{a, b} {
			_, err := do(t, u, of("user:3"))
			wantError(t, err, mcp.CodeOverloaded, mcp.ExecutedNo)
		}
		b.EndSession("user:2")
		synctest.Wait()
		wantAt(t, b, of("user:3"), "s3")
		wantAt(t, a, of("user:3"), "s3")
	})
}

// The answer to a question goes to the replica where the call is parked, from any other.
// It runs in a bubble of synctest.
func TestOwnersAsk(t *testing.T) {
	inOwners(t, upstream.Config{}, func(t *testing.T, f *sseFake, g *gateways, a, b *upstream.Upstream) {
		c := g.joinAt(t, f.fake, upstream.Config{Transport: "sse"})
		wantAt(t, a, asked("x"), "s1")
		question := func() *mcp.Call {
			t.Helper()
			reply := mustDo(t, b, asked("ask"))
			if reply.Ask == nil || !reply.Ask.Here || !reply.Ask.Routed {
				t.Fatalf("a question: %+v", reply.Ask)
			}
			retry := asked("ask")
			retry.State = reply.Ask.State
			retry.Answers = map[string]mcp.Raw{reply.Ask.Requests[0].Key: mcp.Raw(`{"action":"accept","content":{}}`)}
			return retry
		}
		retry := question()
		errs := make(chan error, 1)
		go func() {
			_, err := do(t, c, retry)
			errs <- err
		}()
		if answer := f.awaitAnswer(t, "q"); !strings.Contains(answer, "accept") {
			t.Errorf("answer %s", answer)
		}
		a.EndSession("user:session")
		if err := <-errs; err == nil {
			t.Error("the call goes on without its session")
		}
		_, err := do(t, b, retry)
		wantError(t, err, mcp.CodeUpstreamSessionLost, mcp.ExecutedUnknown)
		forged := asked("ask")
		forged.State = "at:" + g.shared(a).Self()
		if _, err := do(t, b, forged); err == nil {
			t.Error("a State that is none is taken")
		}
	})
}
