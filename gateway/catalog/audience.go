package catalog

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// audience is a group of clients with lists of their own: a class, a user's, or a session. These lie
// over what others see, in this order. It remembers what it saw last, so that equal lists are not made
// again.
type audience struct {
	mu        sync.Mutex // guards the fields below
	base      *snapshot  // what others saw then; nil when the audience sees something new
	seen      *snapshot
	strangers *audience // see unknown
}

// over returns the snapshot of the audience; others see base. own returns what upstreams show it,
// by source; the rest of the state is that of base.
func (a *audience) over(base *snapshot, own func() map[int]sourceState) *snapshot {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.base != base {
		a.base, a.seen = base, base.seeing(own(), a.seen)
	}
	return a.seen
}

// renew records that own would return something new.
func (a *audience) renew() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.base = nil
}

// unknown returns the audience of users about which per-user upstreams have said nothing.
func (a *audience) unknown() *audience {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.strangers == nil {
		a.strangers = &audience{}
	}
	return a.strangers
}

const (
	// maxDeclared bounds the spellings of capabilities that are remembered.
	maxDeclared = 256
	// maxClasses bounds the classes of clients that see something else.
	maxClasses = 256
)

// classAudiences are the audiences of classes of clients.
type classAudiences struct {
	everyone audience // for clients that all see the same

	mu  sync.Mutex                        // guards all
	all *simplelru.LRU[string, *audience] // by declared.sees
}

// newLRU returns an LRU of a constant size.
func newLRU[K comparable, V any](most int) *simplelru.LRU[K, V] {
	all, err := simplelru.NewLRU[K, V](most, nil)
	if err != nil {
		panic(err) // the size is positive
	}
	return all
}

// of returns the snapshot of clients with these capabilities, and their audience.
func (c *classAudiences) of(s *snapshot, caps mcp.Raw) (*snapshot, *audience) {
	if !s.varies {
		return s, &c.everyone
	}
	d := s.declares(caps)
	if d.sees == "" {
		return s, &c.everyone
	}
	c.mu.Lock()
	a, ok := c.all.Get(d.sees)
	if !ok {
		a = &audience{}
		c.all.Add(d.sees, a)
	}
	c.mu.Unlock()
	return a.over(s, func() map[int]sourceState { return s.shownTo(d.class) }), a
}

// declared is the class of clients with some capabilities in a snapshot.
type declared struct {
	class string
	sees  string // the same for all classes that see the same; "" for those that see what all see
	// settled is the time when all upstreams last heard of such a client. All of them had been
	// looked at as its class.
	settled time.Time
}

// declares returns the class of clients with these capabilities. Only its field settled changes; mu guards that.
func (s *snapshot) declares(caps mcp.Raw) *declared {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, ok := s.declared[string(caps)]
	if ok {
		return d
	}
	d = &declared{class: classOf(caps)}
	var sees strings.Builder
	for i := range s.states {
		state := &s.states[i]
		own := state.seenBy(d.class)
		for _, class := range slices.Sorted(maps.Keys(state.classes)) {
			if state.classes[class] == own {
				fmt.Fprintln(&sees, i, class)
				break
			}
		}
	}
	d.sees = sees.String()
	if s.declared == nil || len(s.declared) >= maxDeclared {
		s.declared = make(map[string]*declared)
	}
	s.declared[string(caps)] = d
	return d
}

// shownTo returns what upstreams show to a class, by source.
func (s *snapshot) shownTo(class string) map[int]sourceState {
	shown := make(map[int]sourceState)
	for i, state := range s.states {
		if own := state.seenBy(class); state.classes != nil {
			state.offers, state.instructions = own.offers, own.instructions
			state.lists, state.plainSkills = own.lists, own.plainSkills
			shown[i] = state
		}
	}
	return shown
}

// settled reports whether upstreams have recently heard of a client with these capabilities, so
// that its lists need no wait.
func (s *snapshot) settled(caps mcp.Raw) bool {
	d := s.declares(caps)
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(d.settled) < classIdle/10
}

// settle records that all upstreams have been looked at as the class of clients with these
// capabilities, and know that there is one.
func (s *snapshot) settle(caps mcp.Raw) {
	d := s.declares(caps)
	s.mu.Lock()
	defer s.mu.Unlock()
	d.settled = time.Now()
}

const (
	// maxLooks bounds the classes of one upstream. Clients beyond that see the lists of clients
	// that declare nothing.
	maxLooks = 16
	// classIdle is the time after which a class without a call loses its place.
	classIdle = 10 * time.Minute
	// classRetry is the wait before an upstream that failed is looked at again as a class.
	classRetry = 10 * time.Second
)

// declaresNothing is the class of clients that declare nothing.
const declaresNothing = "{}"

// classOf returns the class of a client with these capabilities, in the form of such
// capabilities. That its roots may change does not matter for lists.
func classOf(caps mcp.Raw) string {
	declared := mcp.ReadDeclared(caps)
	declared.RootsChange = false
	return string(declared.Object())
}

// classTable has the classes of clients as which one upstream is looked at. It has declaresNothing only as
// long as a caller waits for the first look as such a client. It is safe for concurrent use.
type classTable struct {
	wake chan struct{} // holds one value: there is a class to look at

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

// newClassTable returns an empty classTable.
func newClassTable() *classTable {
	return &classTable{wake: make(chan struct{}, 1), all: make(map[string]*look)}
}

// want records a call of a client of a class. It returns what to wait for, nil for nothing. A
// caller does not wait for a look that was too slow for another caller.
func (t *classTable) want(class string, known bool) (done <-chan struct{}) {
	if class == declaresNothing && known {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	one, now := t.all[class], time.Now()
	if one == nil {
		if len(t.all) >= maxLooks && !t.dropIdle() {
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

// hasRoom reports whether there is room for a class without a client yet: half of the places
// are for clients that call.
func (t *classTable) hasRoom() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.all) < maxLooks/2
}

// dropIdle drops the classes without a call for too long, and reports whether there were
// any. mu is held.
func (t *classTable) dropIdle() (dropped bool) {
	for class, one := range t.all {
		if one.done == nil && time.Since(one.seen) >= classIdle {
			delete(t.all, class)
			dropped = true
		}
	}
	return dropped
}

// stopWaiting stops waiting for a look.
func (t *classTable) stopWaiting(class string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if one := t.all[class]; one != nil {
		one.late = true
	}
}

// toLookAt returns the classes to look at: those for which a caller waits, or all.
func (t *classTable) toLookAt(all bool) (classes []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.dropIdle()
	for class, one := range t.all {
		if class != declaresNothing && (all || one.done != nil) {
			classes = append(classes, class)
		}
	}
	return classes
}

// over records the end of a look.
func (t *classTable) over(class string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	one := t.all[class]
	if one == nil {
		return
	}
	if one.again = (time.Time{}); err != nil {
		one.again = time.Now().Add(classRetry)
	}
	if one.done != nil {
		close(one.done)
		one.done = nil
	}
	if class == declaresNothing {
		delete(t.all, class)
	}
}

// clear forgets all classes: all clients see the same.
func (t *classTable) clear() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for class, one := range t.all {
		if one.done != nil {
			close(one.done)
		}
		delete(t.all, class)
	}
}
