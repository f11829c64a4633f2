package upstream

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// maxWaiting is how many calls wait when Limits.Concurrent run. Of one user it is at most
// half of them.
const maxWaiting = 100

// gate bounds how many calls run at a time, in all and of one user, so that a user whose
// calls take long does not keep all others from the server. Of those who wait, the user
// with the fewest running calls is next; of several, the one who has waited longest.
//
// Without authentication there is one user, "", who may have all places.
type gate struct {
	places, share int // running calls, in all and of one user; set once

	mu      sync.Mutex // guards the fields below
	running int
	waiting []*waiter        // in the order in which they came
	users   map[string]usage // of those who have any; not of ""
}

// usage is what one user has of a gate.
type usage struct{ running, waiting int }

// waiter is a call that waits for its turn.
type waiter struct {
	user string
	turn chan struct{} // closed, under the gate's mu, when it may run
}

func newGate(places, share int) *gate {
	return &gate{places: places, share: share, users: make(map[string]usage)}
}

// userOf is whose share a call is taken from.
func userOf(c *mcp.Call) string {
	if c.Caller.Issuer == "" {
		return ""
	}
	return c.Caller.User()
}

// enter begins a call, or has it wait; not ok when too many wait already. A nil waiter
// may run. Each call that runs has to leave.
func (g *gate) enter(user string) (w *waiter, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.admits(user) {
		g.change(user, 1, 0)
		return nil, true
	}
	if len(g.waiting) >= maxWaiting || g.users[user].waiting >= maxWaiting/2 {
		return nil, false
	}
	w = &waiter{user: user, turn: make(chan struct{})}
	g.waiting = append(g.waiting, w)
	g.change(user, 0, 1)
	return w, true
}

// leave ends a call, and begins the next one.
func (g *gate) leave(user string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.change(user, -1, 0)
	next := -1
	for i, w := range g.waiting { // at most maxWaiting, and mostly none
		if g.admits(w.user) && (next < 0 || g.users[w.user].running < g.users[g.waiting[next].user].running) {
			next = i
		}
	}
	if next < 0 {
		return
	}
	w := g.waiting[next]
	g.waiting = slices.Delete(g.waiting, next, next+1)
	g.change(w.user, 1, -1)
	close(w.turn)
}

// giveUp ends the waiting of a call that will not run. Should its turn have come meanwhile,
// that is passed on.
func (g *gate) giveUp(w *waiter) {
	g.mu.Lock()
	at := slices.Index(g.waiting, w)
	if at >= 0 {
		g.waiting = slices.Delete(g.waiting, at, at+1)
		g.change(w.user, 0, -1)
	}
	g.mu.Unlock()
	if at < 0 {
		g.leave(w.user)
	}
}

// admits is called with mu held.
func (g *gate) admits(user string) bool {
	return g.running < g.places && (user == "" || g.users[user].running < g.share)
}

// change is called with mu held.
func (g *gate) change(user string, running, waiting int) {
	g.running += running
	if user == "" {
		return
	}
	u := g.users[user]
	u.running += running
	u.waiting += waiting
	if u == (usage{}) {
		delete(g.users, user)
	} else {
		g.users[user] = u
	}
}

// size returns how many calls run and wait.
func (g *gate) size() (running, waiting int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.running, len(g.waiting)
}

// enter waits for a call's turn; a nil error obliges to leave the gate.
func (u *Upstream) enter(ctx context.Context, user string) (err error) {
	w, ok := u.gate.enter(user)
	switch {
	case !ok:
		return errOverloaded
	case w == nil:
		return nil
	}
	timer := time.NewTimer(u.cfg.Timeout.Call)
	defer timer.Stop()
	select {
	case <-w.turn:
		return nil
	case <-timer.C:
		err = errOverloaded
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-u.base.Done():
		err = errDraining
	}
	u.gate.giveUp(w)
	return err
}
