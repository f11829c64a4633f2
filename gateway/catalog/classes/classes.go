// Package classes holds the classes of clients for which the lists of an upstream are fetched.
//
// Some servers show some of their tools only to clients that can be asked, or that have an
// extension. All clients that declare the same are one class. The package owns what a class
// is, and when the look as one is due. It leaves the looks, and what is seen, to
// gateway/catalog. It starts no goroutine.
package classes

import (
	"sync"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

const (
	// Most bounds the classes of one upstream. Clients beyond that see what those see that
	// declare nothing.
	Most = 16
	// Idle is how long a class keeps its place without a call.
	Idle = 10 * time.Minute
	// Retry is how long an upstream that failed is not looked at again as a class.
	Retry = 10 * time.Second
)

// Nothing is the class of clients that declare nothing.
const Nothing = "{}"

// Of returns the class of a client with these capabilities, in the form of such
// capabilities. That its roots may change does not matter for lists.
func Of(caps mcp.Raw) string {
	declared := mcp.ReadDeclared(caps)
	declared.RootsChange = false
	return string(declared.Object())
}

// Table has the classes of clients as which one upstream is looked at; Nothing only as long as
// somebody waits for the first look as one that declares nothing. It is safe for concurrent use.
type Table struct {
	wake chan struct{} // see Wake

	mu  sync.Mutex // guards all
	all map[string]*look
}

// look is the look at a source as one class.
type look struct {
	seen  time.Time     // when a client of the class called last
	done  chan struct{} // closed when the look that callers wait for is over; nil for none
	late  bool          // some caller did not wait for it
	again time.Time     // not before, if it failed
}

// New returns an empty Table.
func New() *Table { return &Table{wake: make(chan struct{}, 1), all: make(map[string]*look)} }

// Wake is readable when there is a class to look at.
func (t *Table) Wake() <-chan struct{} { return t.wake }

// Want records that a client of a class calls. It returns what to wait for, nil for nothing.
// A caller does not wait for a look that was too slow for another caller.
func (t *Table) Want(class string, known bool) (done <-chan struct{}) {
	if class == Nothing && known {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	one, now := t.all[class], time.Now()
	if one == nil {
		if len(t.all) >= Most && !t.dropIdle() {
			return nil
		}
		one = &look{}
		t.all[class] = one
	}
	one.seen = now
	if one.done == nil && !known && !one.again.After(now) {
		one.done, one.late = make(chan struct{}), false
		select {
		case t.wake <- struct{}{}:
		default:
		}
	}
	if one.late {
		return nil
	}
	return one.done
}

// Room reports whether there is room for a class of which nobody is a client yet: half of the places
// are for clients that call.
func (t *Table) Room() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.all) < Most/2
}

// dropIdle drops the classes without a call for too long, and reports whether there were
// any. mu is held.
func (t *Table) dropIdle() (dropped bool) {
	for class, one := range t.all {
		if one.done == nil && time.Since(one.seen) >= Idle {
			delete(t.all, class)
			dropped = true
		}
	}
	return dropped
}

// Leave stops waiting for a look.
func (t *Table) Leave(class string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if one := t.all[class]; one != nil {
		one.late = true
	}
}

// Classes returns the classes to look at: those for which somebody waits, or all.
func (t *Table) Classes(all bool) (classes []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.dropIdle()
	for class, one := range t.all {
		if class != Nothing && (all || one.done != nil) {
			classes = append(classes, class)
		}
	}
	return classes
}

// Over records the end of a look.
func (t *Table) Over(class string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	one := t.all[class]
	if one == nil {
		return
	}
	if one.again = (time.Time{}); err != nil {
		one.again = time.Now().Add(Retry)
	}
	if one.done != nil {
		close(one.done)
		one.done = nil
	}
	if class == Nothing {
		delete(t.all, class)
	}
}

// Clear forgets all classes: all clients see the same.
func (t *Table) Clear() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for class, one := range t.all {
		if one.done != nil {
			close(one.done)
		}
		delete(t.all, class)
	}
}
