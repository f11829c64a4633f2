package upstream

import (
	"container/heap"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// maxWaiting is how many calls wait when Limits.Concurrent run. Of one user it is at most
// half of them.
const maxWaiting = 4000

// gate bounds how much runs at a time, in all and of one user, so that a user whose calls
// take long does not keep all others from the server. Of those who wait, the user with the
// fewest running calls is next; of several, the one who has waited longest.
//
// Without authentication there is one user, "", who may have all places.
type gate struct {
	places, share int // that run, in all and of one user
	queue         int // that wait; one user has at most half of it

	mu      sync.Mutex // guards the fields below
	running int
	waiting int
	users   map[string]int   // how many run, of those who have any; not of ""
	lines   map[string]*line // of those who wait
	next    lines            // the same, as a heap
	arrived uint64           // how many have ever waited
}

// line are the calls of one user that wait, in the order in which they came.
type line struct {
	user    string
	running int // of the user
	calls   []*waiter
	at      int // in gate.next
}

// waiter is a call that waits for its turn.
type waiter struct {
	user string
	came uint64        // grows
	turn chan struct{} // closed, under the gate's mu, when it may run
}

func newGate(places, share, queue int) *gate {
	return &gate{places: places, share: share, queue: queue, users: make(map[string]int), lines: make(map[string]*line)}
}

// userOf is whose share a call is taken from.
func userOf(c *mcp.Call) string { return sharer(&c.Caller) }

// sharer is the user among those who share a server, "" without authentication.
func sharer(c *mcp.Caller) string {
	if c.Issuer == "" {
		return ""
	}
	return c.User()
}

// enter begins a call, or has it wait; not ok when too many wait already. A nil waiter
// may run. Each call that runs has to leave.
func (g *gate) enter(user string) (w *waiter, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.admits(user, g.users[user]) {
		g.run(user, 1)
		return nil, true
	}
	l := g.lines[user]
	if g.waiting >= g.queue || user != "" && l != nil && len(l.calls) >= (g.queue+1)/2 {
		return nil, false
	}
	g.waiting++
	g.arrived++
	w = &waiter{user: user, came: g.arrived, turn: make(chan struct{})}
	if l != nil {
		l.calls = append(l.calls, w)
		return w, true
	}
	l = &line{user: user, running: g.users[user], calls: []*waiter{w}}
	g.lines[user] = l
	heap.Push(&g.next, l)
	return w, true
}

// leave ends a call, and begins the next one.
func (g *gate) leave(user string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.run(user, -1)
	if len(g.next) == 0 {
		return
	}
	l := g.next[0]
	if !g.admits(l.user, l.running) {
		return
	}
	w := l.calls[0]
	g.remove(l, 0)
	g.run(w.user, 1)
	close(w.turn)
}

// giveUp ends the waiting of a call that will not run. Should its turn have come meanwhile,
// that is passed on.
func (g *gate) giveUp(w *waiter) {
	g.mu.Lock()
	at, l := -1, g.lines[w.user]
	if l != nil {
		at = slices.Index(l.calls, w)
	}
	if at >= 0 {
		g.remove(l, at)
	}
	g.mu.Unlock()
	if at < 0 {
		g.leave(w.user)
	}
}

// admits is called with mu held.
func (g *gate) admits(user string, running int) bool {
	return g.running < g.places && (user == "" || running < g.share)
}

// run counts calls that run. It is called with mu held.
func (g *gate) run(user string, n int) {
	g.running += n
	if user == "" {
		return
	}
	running := g.users[user] + n
	if running == 0 {
		delete(g.users, user)
	} else {
		g.users[user] = running
	}
	if g.waiting == 0 {
		return
	}
	if l := g.lines[user]; l != nil {
		l.running = running
		heap.Fix(&g.next, l.at)
	}
}

// remove takes a call out of a line. It is called with mu held.
func (g *gate) remove(l *line, at int) {
	g.waiting--
	l.calls = slices.Delete(l.calls, at, at+1)
	if len(l.calls) > 0 {
		heap.Fix(&g.next, l.at)
		return
	}
	heap.Remove(&g.next, l.at)
	delete(g.lines, l.user)
}

// size returns how many calls run and wait.
func (g *gate) size() (running, waiting int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.running, g.waiting
}

// lines are a heap: whose turn it is next stands first.
type lines []*line

// Len is for container/heap, as are the others.
func (l lines) Len() int { return len(l) }

func (l lines) Less(i, j int) bool {
	if l[i].running != l[j].running {
		return l[i].running < l[j].running
	}
	return l[i].calls[0].came < l[j].calls[0].came
}

func (l lines) Swap(i, j int) {
	l[i], l[j] = l[j], l[i]
	l[i].at, l[j].at = i, j
}

// Push adds a line.
func (l *lines) Push(x any) {
	added := x.(*line)
	added.at = len(*l)
	*l = append(*l, added)
}

// Pop takes the last line out.
func (l *lines) Pop() any {
	last := len(*l) - 1
	out := (*l)[last]
	(*l)[last] = nil
	*l = (*l)[:last]
	return out
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
