package catalog

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

const (
	// coalesce is the shortest time between two takes of changes: those that follow the first are
	// gathered.
	coalesce = 250 * time.Millisecond
	// together is the time for which the first change waits for others that belong to it.
	together = 5 * time.Millisecond
)

// changes gathers which lists changed. It has one flag for each kind, so it takes the same
// memory for one change as for a million. Safe for concurrent use; only one goroutine may
// wait.
type changes struct {
	kinds atomic.Uint32
	wake  chan struct{} // holds one value: some flag is set
	taken time.Time     // when changes were last taken; for the goroutine that waits
}

func newChanges() *changes {
	return &changes{wake: make(chan struct{}, 1)}
}

// add sets flags.
func (c *changes) add(kinds kindSet) {
	if kinds == 0 {
		return
	}
	c.kinds.Or(uint32(kinds))
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// some returns a channel that is readable when there may be changes to take.
func (c *changes) some() <-chan struct{} { return c.wake }

// take waits until changes have had time to gather, and clears the flags. It returns none if ctx
// ends.
func (c *changes) take(ctx context.Context) kindSet {
	waitFor(ctx, max(time.Until(c.taken.Add(coalesce)), together))
	if ctx.Err() != nil {
		return 0
	}
	c.taken = time.Now()
	return c.now()
}

// now clears the flags and returns those that were set.
func (c *changes) now() kindSet { return kindSet(c.kinds.Swap(0)) }

// forget clears the flags.
func (c *changes) forget() { c.kinds.Store(0) }

// hub tells listeners which lists have changed. The zero value is ready to use.
type hub struct {
	mu        sync.Mutex // guards listeners
	listeners map[*listener]struct{}
}

// listener receives changes of the upstreams that it may know of, for its user.
type listener struct {
	*changes
	sees    visible
	user    string   // mcp.Caller.User
	session string   // Call.Session
	own     *changes // announced changes of the session's own lists, which are to be fetched

	mu     sync.Mutex      // guards notify
	notify func(mcp.Event) // Call.Notify; nil when it stops listening
}

// everyone stands for all users.
const everyone = ""

// join returns a new listener; pass it to forget when it stops listening.
func (h *hub) join(sees visible, call *mcp.Call) *listener {
	l := &listener{
		changes: newChanges(), sees: sees, user: call.Caller.User(), session: call.Session, own: newChanges(),
		notify: call.Notify,
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.listeners == nil {
		h.listeners = make(map[*listener]struct{})
	}
	h.listeners[l] = struct{}{}
	return l
}

func (h *hub) forget(l *listener) {
	h.mu.Lock()
	delete(h.listeners, l)
	h.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.notify = nil
}

// say passes an event of an upstream to a listener of a client's session.
func (h *hub) say(source int, session string, e mcp.Event) {
	var to *listener // a second one of the session takes the place of the first
	h.each(source, everyKind, func(l *listener) {
		if l.session == session {
			to = l
		}
	})
	if to == nil {
		return
	}
	to.mu.Lock()
	defer to.mu.Unlock()
	if to.notify != nil {
		to.notify(e)
	}
}

// announce reports that lists of an upstream have changed, for a user or for everyone.
func (h *hub) announce(source int, kinds kindSet, user string) {
	h.each(source, kinds, func(l *listener) {
		if user == everyone || user == l.user {
			l.add(kinds)
		}
	})
}

// announceTo reports that lists of an upstream look different to a client's session.
func (h *hub) announceTo(source int, kinds kindSet, session string) {
	h.each(source, kinds, func(l *listener) {
		if l.session == session {
			l.add(kinds)
		}
	})
}

// told reports that an upstream has announced changed lists in a client's own session there.
func (h *hub) told(source int, kinds kindSet, session string) {
	h.each(source, kinds, func(l *listener) {
		if l.session == session {
			l.own.add(kinds)
		}
	})
}

// each calls fn with the listeners that may know of an upstream, if there are any kinds.
func (h *hub) each(source int, kinds kindSet, fn func(*listener)) {
	if kinds == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for l := range h.listeners {
		if l.sees.has(source) {
			fn(l)
		}
	}
}

// publisher gathers the next state of each source. States that arrive while a snapshot is made are
// in the next one, so that many upstreams which answer at the same time cost few snapshots.
type publisher[S any] struct {
	wake chan struct{} // holds one value: there is a batch

	mu   sync.Mutex // guards next
	next *batch[S]  // nil for none
}

type batch[S any] struct {
	states map[int]S     // by index of the source
	done   chan struct{} // closed when they are published
}

func newPublisher[S any]() *publisher[S] { return &publisher[S]{wake: make(chan struct{}, 1)} }

// publish returns when the state has been published. showAll must not have ended.
func (p *publisher[S]) publish(source int, state S) {
	p.mu.Lock()
	if p.next == nil {
		p.next = &batch[S]{states: make(map[int]S), done: make(chan struct{})}
	}
	p.next.states[source] = state
	done := p.next.done
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default:
	}
	<-done
}

// showAll calls show with all that has arrived, one batch after the other, until stop is closed.
func (p *publisher[S]) showAll(stop <-chan struct{}, show func(map[int]S)) {
	for {
		select {
		case <-p.wake:
		case <-stop:
			return
		}
		p.mu.Lock()
		b := p.next
		p.next = nil
		p.mu.Unlock()
		if b != nil {
			show(b.states)
			close(b.done)
		}
	}
}
