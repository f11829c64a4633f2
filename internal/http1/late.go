package http1

import (
	"container/list"
	"sync"
	"time"
)

// watchAfter is how long a request runs before its connection is watched. Most requests end
// earlier, and save the cost of another goroutine.
const watchAfter = 20 * time.Millisecond

// late has connections watched if their requests run for long. It has one timer for all: one for
// each request would wake a thread for each.
type late struct {
	mu      sync.Mutex // guards the fields below
	running list.List  // of *serving, by the beginning of their requests; only those that are not watched
	timer   *time.Timer
	armed   bool // whether timer will fire
}

// begin says that a request runs on a connection. cancel ends it.
func (l *late) begin(c *serving, cancel func()) {
	c.began, c.cancel = time.Now(), cancel
	l.mu.Lock()
	defer l.mu.Unlock()
	c.turn = l.running.PushBack(c)
	switch {
	case l.armed:
		return
	case l.timer == nil:
		l.timer = time.AfterFunc(watchAfter, l.fire)
	default:
		l.timer.Reset(watchAfter)
	}
	l.armed = true
}

// end says that the request has ended. It returns false if the connection is watched.
func (l *late) end(c *serving) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.turn == nil {
		return false
	}
	l.running.Remove(c.turn)
	c.cancel = nil
	return true
}

func (l *late) fire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for first := l.running.Front(); first != nil; first = l.running.Front() {
		c := first.Value.(*serving)
		if left := watchAfter - time.Since(c.began); left > 0 {
			l.timer.Reset(left)
			return
		}
		l.running.Remove(first)
		c.turn = nil
		go c.watch(c.cancel) // until the next request comes or the connection ends; answer waits for it
	}
	l.armed = false
}
