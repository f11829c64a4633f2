package admit

import (
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

// Queue bounds how many calls run at a time, in all and for one user, so that a user with long
// calls does not keep all others from the server. Of those who wait, the user with the fewest
// running calls is next; of several, the one who has waited longest.
//
// Without authentication there is one user, "", who may have all places.
type Queue struct {
	places, share int             // calls that run, in all and for one user
	length        int             // calls that wait; one user has at most half of them
	patience      time.Duration   // how long a call waits; 0 for no limit
	closed        <-chan struct{} // ends all waiting

	mu      sync.Mutex // guards the fields below
	running int
	users   map[string]*load // of those who run or wait
	waiting []*waiter        // in the order in which they came
}

// load is how many calls of one user run and wait.
type load struct{ running, waiting int }

// waiter is a call that waits for its turn.
type waiter struct {
	user string
	of   *load
	turn chan struct{} // closed, under the queue's mu, when it may run
}

// NewQueue returns a queue with so many places, at most share of them for one user, and with room
// for so many calls that wait, each as long as patience; 0 means no limit. All waiting ends when
// closed does.
func NewQueue(places, share, length int, patience time.Duration, closed <-chan struct{}) *Queue {
	return &Queue{places: places, share: share, length: length, patience: patience, closed: closed,
		users: make(map[string]*load)}
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
		over = time.After(q.patience)
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
	q.drop(w)
	return true, err
}

// enter begins a call, or has it wait; not ok when too many wait already. A nil waiter
// may run.
func (q *Queue) enter(user string) (w *waiter, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	of := q.users[user]
	if of == nil {
		of = new(load)
	}
	switch {
	case q.admits(user, of):
		q.running++
		of.running++
	case len(q.waiting) >= q.length, user != "" && of.waiting >= (q.length+1)/2:
		return nil, false
	default:
		of.waiting++
		w = &waiter{user: user, of: of, turn: make(chan struct{})}
		q.waiting = append(q.waiting, w)
	}
	q.users[user] = of
	return w, true
}

// Release ends a call, and begins the next one.
func (q *Queue) Release(user string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	of := q.users[user]
	q.running--
	of.running--
	q.forget(user, of)
	next := -1
	for i, w := range q.waiting {
		if q.admits(w.user, w.of) && (next < 0 || w.of.running < q.waiting[next].of.running) {
			next = i
		}
	}
	if next < 0 {
		return
	}
	w := q.waiting[next]
	q.remove(next)
	q.running++
	w.of.running++
	close(w.turn)
}

// drop ends the waiting of a call that will not run. If its turn has come by then, it is passed on.
func (q *Queue) drop(w *waiter) {
	q.mu.Lock()
	at := slices.Index(q.waiting, w)
	if at >= 0 {
		q.remove(at)
		q.forget(w.user, w.of)
	}
	q.mu.Unlock()
	if at < 0 {
		q.Release(w.user)
	}
}

// admits reports whether a call of a user may run. q.mu is held.
func (q *Queue) admits(user string, of *load) bool {
	return q.running < q.places && (user == "" || of.running < q.share)
}

// remove ends the waiting of a call. q.mu is held.
func (q *Queue) remove(at int) {
	q.waiting[at].of.waiting--
	q.waiting = slices.Delete(q.waiting, at, at+1)
}

// forget drops what is known of a user who has no calls any more. q.mu is held.
func (q *Queue) forget(user string, of *load) {
	if *of == (load{}) {
		delete(q.users, user)
	}
}

// Size returns how many calls run and wait.
func (q *Queue) Size() (running, waiting int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.running, len(q.waiting)
}
