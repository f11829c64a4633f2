package catalog

import (
	"sync"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// In 2025-11-25 clients do not subscribe to tasks: a server may notify a session of any of its
// tasks (basic/utilities/tasks#task-status-notification), by the server's own id. The gateway seals
// the ids that it gives and stores none. So, for a listening session, ids are recorded when its
// client gets or uses them; a notification of any other task is dropped.

// maxFollowed bounds the followed tasks of one session; the oldest are dropped first.
const maxFollowed = 1000

// taskFollowers finds the listeners of sessions. The zero value is ready to use.
type taskFollowers struct {
	mu        sync.Mutex // guards followers
	followers map[string]map[*taskFollower]struct{}
}

// taskFollower is a subscriptions/listen call of a session that knows tasks of 2025-11-25.
type taskFollower struct {
	wake chan struct{} // holds one value: fresh is not empty

	mu      sync.Mutex // guards the fields below
	known   map[followed]string
	order   []followed // of known, oldest first
	sources map[int]bool
	fresh   []int // sources that the follower does not listen to yet
}

// followed is a task, by its upstream and its id there.
type followed struct {
	source int
	native string
}

// join returns the follower of a call; pass it to forget when it stops listening. It returns nil
// for a call that does not follow tasks like this.
func (t *taskFollowers) join(call *mcp.Call) *taskFollower {
	if call.Tasks != mcp.CoreTasks || call.Session == "" {
		return nil
	}
	f := &taskFollower{wake: make(chan struct{}, 1), known: make(map[followed]string), sources: make(map[int]bool)}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.followers == nil {
		t.followers = make(map[string]map[*taskFollower]struct{})
	}
	if t.followers[call.Session] == nil {
		t.followers[call.Session] = make(map[*taskFollower]struct{})
	}
	t.followers[call.Session][f] = struct{}{}
	return f
}

func (t *taskFollowers) forget(call *mcp.Call, f *taskFollower) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.followers[call.Session], f)
	if len(t.followers[call.Session]) == 0 {
		delete(t.followers, call.Session)
	}
}

// saw records the id by which the client of a call knows a task.
func (t *taskFollowers) saw(call *mcp.Call, source int, native, public string) {
	if call.Tasks != mcp.CoreTasks {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for f := range t.followers[call.Session] {
		f.add(followed{source, native}, public)
	}
}

func (f *taskFollower) add(task followed, public string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.known[task]; !ok {
		if len(f.order) == maxFollowed {
			delete(f.known, f.order[0])
			f.order = append(f.order[:0:0], f.order[1:]...)
		}
		f.order = append(f.order, task)
	}
	f.known[task] = public
	if !f.sources[task.source] {
		f.sources[task.source] = true
		f.fresh = append(f.fresh, task.source)
		select {
		case f.wake <- struct{}{}:
		default:
		}
	}
}

// some returns a channel that is readable when there are sources to take; for a nil follower it never is.
func (f *taskFollower) some() <-chan struct{} {
	if f == nil {
		return nil
	}
	return f.wake
}

func (f *taskFollower) take() []int {
	f.mu.Lock()
	defer f.mu.Unlock()
	fresh := f.fresh
	f.fresh = nil
	return fresh
}

func (f *taskFollower) public(task followed) (id string, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	id, ok = f.known[task]
	return id, ok
}
