package admit

import (
	"container/heap"
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// Errors of a Queue. A call that gets one has not run.
var (
	ErrOverloaded = errors.New("overloaded")               // too many wait, or one has waited too long
	ErrDraining   = errors.New("upstream is being closed") // by a reload or the end of the gateway
)

// Queue bounds how many calls run at a time, in all and of one user, so that a user whose
// calls take long does not keep all others from the server. Of those who wait, the user with
// the fewest running calls is next; of several, the one who has waited longest.
//
// Without authentication there is one user, "", who may have all places.
type Queue struct {
	places, share int             // calls that run, in all and of one user
	length        int             // calls that wait; one user has at most half of them
	patience      time.Duration   // how long a call waits; 0 for no limit
	closed        <-chan struct{} // ends all waiting

	mu      sync.Mutex // guards the fields below
	running int
	waiting int
	users   map[string]int   // running calls by user, without ""
	lines   map[string]*line // of those who wait
	next    lines            // the same, as a heap
	arrived uint64           // how many have ever waited
}

// line are the calls of one user that wait, in the order in which they came.
type line struct {
	user    string
	running int // of the user
	calls   []*waiter
	at      int // in Queue.next
}

// waiter is a call that waits for its turn.
type waiter struct {
	user string
	came uint64        // grows
	turn chan struct{} // closed, under the queue's mu, when it may run
}

// NewQueue returns a queue of so many places, of which one user has at most share, and of so
// many calls that wait, each for as long as patience; 0 is for no limit. All waiting ends
// when closed does.
func NewQueue(places, share, length int, patience time.Duration, closed <-chan struct{}) *Queue {
	return &Queue{
		places: places, share: share, length: length, patience: patience, closed: closed,
		users: make(map[string]int), lines: make(map[string]*line),
	}
}

// Enter waits for the turn of a user's call, which then has to Leave. It reports whether the
// call had to wait. Errors are ErrOverloaded, ErrDraining and the cause of ctx.
func (q *Queue) Enter(ctx context.Context, user string) (waited bool, err error) {
	w, ok := q.enter(user)
	switch {
	case !ok:
		return false, ErrOverloaded
	case w == nil:
		return false, nil
	}
	var over <-chan time.Time
	if q.patience > 0 {
		timer := time.NewTimer(q.patience)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-w.turn:
		return true, nil
	case <-over:
		err = ErrOverloaded
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-q.closed:
		err = ErrDraining
	}
	q.giveUp(w)
	return true, err
}

// enter begins a call, or has it wait; not ok when too many wait already. A nil waiter
// may run.
func (q *Queue) enter(user string) (w *waiter, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.admits(user, q.users[user]) {
		q.run(user, 1)
		return nil, true
	}
	l := q.lines[user]
	if q.waiting >= q.length || user != "" && l != nil && len(l.calls) >= (q.length+1)/2 {
		return nil, false
	}
	q.waiting++
	q.arrived++
	w = &waiter{user: user, came: q.arrived, turn: make(chan struct{})}
	if l != nil {
		l.calls = append(l.calls, w)
		return w, true
	}
	l = &line{user: user, running: q.users[user], calls: []*waiter{w}}
	q.lines[user] = l
	heap.Push(&q.next, l)
	return w, true
}

// Leave ends a call, and begins the next one.
func (q *Queue) Leave(user string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.run(user, -1)
	if len(q.next) == 0 {
		return
	}
	l := q.next[0]
	if !q.admits(l.user, l.running) {
		return
	}
	w := l.calls[0]
	q.remove(l, 0)
	q.run(w.user, 1)
	close(w.turn)
}

// giveUp ends the waiting of a call that will not run. Should its turn have come meanwhile,
// that is passed on.
func (q *Queue) giveUp(w *waiter) {
	q.mu.Lock()
	at, l := -1, q.lines[w.user]
	if l != nil {
		at = slices.Index(l.calls, w)
	}
	if at >= 0 {
		q.remove(l, at)
	}
	q.mu.Unlock()
	if at < 0 {
		q.Leave(w.user)
	}
}

// admits is called with mu held.
func (q *Queue) admits(user string, running int) bool {
	return q.running < q.places && (user == "" || running < q.share)
}

// run counts calls that run. It is called with mu held.
func (q *Queue) run(user string, n int) {
	q.running += n
	if user == "" {
		return
	}
	running := q.users[user] + n
	if running == 0 {
		delete(q.users, user)
	} else {
		q.users[user] = running
	}
	if q.waiting == 0 {
		return
	}
	if l := q.lines[user]; l != nil {
		l.running = running
		heap.Fix(&q.next, l.at)
	}
}

// remove takes a call out of a line. It is called with mu held.
func (q *Queue) remove(l *line, at int) {
	q.waiting--
	l.calls = slices.Delete(l.calls, at, at+1)
	if len(l.calls) > 0 {
		heap.Fix(&q.next, l.at)
		return
	}
	heap.Remove(&q.next, l.at)
	delete(q.lines, l.user)
}

// Size returns how many calls run and wait.
func (q *Queue) Size() (running, waiting int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.running, q.waiting
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
