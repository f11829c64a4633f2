package stateful_test

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/upstream"
	"github.com/gatehouse-mcp/gatehouse/upstream/upstreamtest/fake"
)

// guests is a server that counts its sessions, the current ones and the maximum.
type guests struct {
	*fake.Server
	sessions, most atomic.Int32
	hold           chan struct{} // nil, or closed to let calls end
	slow           chan struct{} // nil, or closed to let sessions end
}

func newGuests(t *testing.T) *guests {
	g := &guests{}
	g.Server = fake.New(t, true, func(f *fake.Server, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
		switch {
		case r.Method == http.MethodDelete:
			if g.slow != nil {
				<-g.slow
			}
			g.sessions.Add(-1)
		case m.Method == mcp.MethodInitialize:
			now := g.sessions.Add(1)
			for most := g.most.Load(); now > most && !g.most.CompareAndSwap(most, now); most = g.most.Load() {
			}
		case m.Method == mcp.MethodToolsCall && g.hold != nil:
			<-g.hold
		}
		return false
	})
	return g
}

// as makes a call of one of a user's clients.
func as(user, client string, ephemeral bool) *mcp.Call {
	c := fake.Tool("a")
	if user != "" {
		c.Caller = mcp.NewCaller(mcp.Caller{Issuer: "https://issuer", Subject: user})
	}
	c.Session, c.Ephemeral = c.Caller.User()+":~"+client, ephemeral
	return c
}

// TestMadeUpClientsTakeNotAllPlaces: a user who calls under the names of many clients gets
// half of the sessions at a server. The server never sees more sessions than the limit, and
// other users get theirs.
func TestMadeUpClientsTakeNotAllPlaces(t *testing.T) {
	const places = 16
	t.Run("idle", func(t *testing.T) {
		g := newGuests(t)
		u := g.Upstream(t, upstream.Config{Limits: upstream.Limits{Sessions: places}})
		var all sync.WaitGroup
		for i := range 4 * places {
			all.Go(func() {
				if _, err := fake.Do(t, u, as("alice", fmt.Sprint(i), true)); err != nil && !isOverloaded(err) {
					t.Error(err)
				}
			})
		}
		all.Wait()
		for i := range places {
			fake.WantOK(t, u, as("bob", fmt.Sprint(i), true))
			fake.WantOK(t, u, as(fmt.Sprint("user", i), "", true))
		}
		if most := g.most.Load(); most > places {
			t.Errorf("the server had %d sessions at a time, and may have %d", most, places)
		}
	})
	t.Run("in use", func(t *testing.T) {
		g := newGuests(t)
		g.hold = make(chan struct{})
		u := g.Upstream(t, upstream.Config{Limits: upstream.Limits{Sessions: places, Concurrent: 1000}})
		outcome := make(chan error, 4*places)
		for i := range 4 * places {
			go func() {
				_, err := fake.Do(t, u, as("alice", fmt.Sprint(i), true))
				outcome <- err
			}()
		}
		for range 4*places - places/2 {
			fake.WantError(t, <-outcome, mcp.CodeOverloaded, mcp.ExecutedNo)
		}
		bob := make(chan error, 1)
		go func() {
			_, err := fake.Do(t, u, as("bob", "", true))
			bob <- err
		}()
		g.Await(t, mcp.MethodToolsCall, places/2+1)
		close(g.hold)
		for range places / 2 {
			if err := <-outcome; err != nil {
				t.Error(err)
			}
		}
		if err := <-bob; err != nil {
			t.Errorf("bob: %v", err)
		}
	})
}

// TestIdleClientsMakeRoom: when all places are taken by clients with sessions of their own,
// idle sessions of those who have the most make room.
func TestIdleClientsMakeRoom(t *testing.T) {
	g := newGuests(t)
	u := g.Upstream(t, upstream.Config{Limits: upstream.Limits{Sessions: 8}})
	for _, user := range []string{"a", "a", "a", "a", "b", "b", "c", "d"} {
		fake.WantOK(t, u, as(user, fmt.Sprint(len(g.Requests(mcp.MethodInitialize))), false))
	}
	for i := range 4 {
		fake.WantOK(t, u, as(fmt.Sprint("user", i), "", false))
	}
	if _, err := fake.Do(t, u, as("user0", "another", false)); !isOverloaded(err) {
		t.Errorf("the second session of somebody who has as many as all others: %v", err)
	}
	if most := g.most.Load(); most > 8 {
		t.Errorf("the server had %d sessions at a time, and may have 8", most)
	}
}

// TestPlacesWithoutAuthentication: without authentication there is one user, who may have
// all places.
func TestPlacesWithoutAuthentication(t *testing.T) {
	u := newGuests(t).Upstream(t, upstream.Config{Limits: upstream.Limits{Sessions: 8}})
	for i := range 8 {
		fake.WantOK(t, u, as("", fmt.Sprint(i), false))
	}
	_, err := fake.Do(t, u, as("", "one more", false))
	fake.WantError(t, err, mcp.CodeOverloaded, mcp.ExecutedNo)
}

// TestAPlaceIsFreeWhenItsSessionHasEnded: a place becomes free when its session has ended
// at the server, not before.
func TestAPlaceIsFreeWhenItsSessionHasEnded(t *testing.T) {
	g := newGuests(t)
	g.slow = make(chan struct{})
	u := g.Upstream(t, upstream.Config{Limits: upstream.Limits{Sessions: 1}})
	fake.WantOK(t, u, as("alice", "1", true))
	second := make(chan error, 1)
	go func() {
		_, err := fake.Do(t, u, as("alice", "2", true))
		second <- err
	}()
	g.Await(t, http.MethodDelete, 1)
	close(g.slow)
	if err := <-second; err != nil {
		t.Error(err)
	}
	if most := g.most.Load(); most > 1 {
		t.Errorf("the server had %d sessions at a time, and may have one", most)
	}
}

// TestOneUserOpensNotAllSessions: sessions are opened a few at a time, and a user whose
// sessions are slow to open leaves room for others.
func TestOneUserOpensNotAllSessions(t *testing.T) {
	const atOnce = 10 // one user may open so many
	opening, held, begun := make(chan struct{}), make(chan struct{}, atOnce), make(chan struct{}, atOnce)
	open := sync.OnceFunc(func() { close(opening) })
	f := fake.New(t, true, nil)
	f.Handle = func(f *fake.Server, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
		if m.Method != mcp.MethodInitialize {
			return false
		}
		select {
		case held <- struct{}{}:
			begun <- struct{}{}
			<-opening
		default:
		}
		return false
	}
	t.Cleanup(open) // before the fake waits for its requests
	u := f.Upstream(t, upstream.Config{Revision: "2025-11-25"})
	outcome := make(chan error, 40)
	for i := range cap(outcome) {
		go func() {
			_, err := fake.Do(t, u, as("alice", fmt.Sprint(i), true))
			outcome <- err
		}()
	}
	f.Await(t, mcp.MethodInitialize, atOnce)
	for range atOnce { // bob's must not be one of those that are held
		<-begun
	}
	fake.WantOK(t, u, as("bob", "", true))
	if n := len(f.Requests(mcp.MethodInitialize)); n != 11 {
		t.Errorf("%d sessions were begun before those of alice were open, want 11", n)
	}
	open()
	for range cap(outcome) {
		if err := <-outcome; err != nil {
			t.Error(err)
		}
	}
}

func isOverloaded(err error) bool {
	e, ok := err.(*mcp.Error)
	return ok && e.Code == mcp.CodeOverloaded
}

// TestProcesses: each client has its own process, up to the limit, and an idle
// process is stopped.
func TestProcesses(t *testing.T) {
	mcptest.Long(t)
	t.Parallel()
	cfg := fake.Command(t, "sound")
	cfg.Limits.Sessions = 3
	u := fake.Start(t, cfg)
	echo := func(user string) *mcp.Call {
		c := as(user, "", true)
		c.Name = "echo"
		return c
	}
	for i, user := range []string{"alice", "bob", "carol"} {
		fake.MustDo(t, u, echo(user))
		if n := u.Status().Sessions; n != i+1 {
			t.Errorf("%d processes for %d clients", n, i+1)
		}
	}
	fake.MustDo(t, u, echo("dave")) // an idle process makes room
	if n := u.Status().Sessions; n != 3 {
		t.Errorf("%d processes, of which there may be 3", n)
	}
	cfg.Timeout.Idle = time.Second // too short to count processes in
	u = fake.Start(t, cfg)
	fake.MustDo(t, u, echo("alice"))
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for begun := time.Now(); u.Status().Sessions > 0; <-tick.C {
		if time.Since(begun) > fake.Patience {
			t.Fatal("a process that nobody uses is not stopped")
		}
	}
}
