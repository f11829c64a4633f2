package restore

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// MaxPending bounds how many events wait for a listener; maxPendingBytes bounds their size.
const (
	MaxPending      = 1000
	maxPendingBytes = 1 << 20
)

// ErrTooMany ends a listener that does not take its events in time.
var ErrTooMany = errors.New("restore: too many events")

// Listener is one subscriptions/listen. It must be closed.
type Listener struct {
	state *State
	tasks bool
	wake  chan struct{}

	want    mcp.Filter // guarded by the state's lock, as the fields below
	pending []mcp.Event
	bytes   int // of the events
	err     error
}

// Listen adds a listener. It receives nothing yet, except the events of all tasks if tasks
// is set.
func (s *State) Listen(tasks bool) *Listener {
	l := &Listener{state: s, tasks: tasks, wake: make(chan struct{}, 1)}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listeners[l] = struct{}{}
	return l
}

// Want sets which events the listener receives.
func (l *Listener) Want(want mcp.Filter) {
	l.state.mu.Lock()
	defer l.state.mu.Unlock()
	l.want = want
}

// Wake receives a value when Take has something to return.
func (l *Listener) Wake() <-chan struct{} { return l.wake }

// Take returns the waiting events, and an error once there will be no more.
func (l *Listener) Take() ([]mcp.Event, error) {
	l.state.mu.Lock()
	defer l.state.mu.Unlock()
	events := l.pending
	l.pending, l.bytes = nil, 0
	return events, l.err
}

// Close removes the listener, and returns the resources that it wanted.
func (l *Listener) Close() (uris []string) {
	l.state.mu.Lock()
	defer l.state.mu.Unlock()
	delete(l.state.listeners, l)
	return l.want.URIs
}

// wants reports whether the listener wants events of this kind, whatever their resource.
// The state's lock is held.
func (l *Listener) wants(e mcp.Event) bool {
	if e.Method == mcp.NoteTask {
		return l.tasks || slices.Contains(l.want.Tasks, mcp.TaskID(e.Params))
	}
	return l.want.Lets(e.Method)
}

func (l *Listener) subscribed(uri string) bool {
	return slices.ContainsFunc(l.want.URIs, func(own string) bool { return partOf(uri, own) })
}

// put queues an event, unless an equal one is already waiting. The state's lock is held.
func (l *Listener) put(e mcp.Event) {
	for _, waiting := range l.pending {
		if waiting.Method == e.Method && bytes.Equal(waiting.Params, e.Params) {
			return
		}
	}
	if len(l.pending) >= MaxPending || l.bytes+len(e.Params) > maxPendingBytes {
		l.err = ErrTooMany
	} else {
		l.pending = append(l.pending, e)
		l.bytes += len(e.Params)
	}
	l.signal()
}

func (l *Listener) signal() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// partOf reports whether a resource equals another one or, by its path, lies below it.
func partOf(uri, whole string) bool {
	rest, ok := strings.CutPrefix(uri, whole)
	return ok && (rest == "" || strings.HasSuffix(whole, "/") || strings.ContainsRune("/?#", rune(rest[0])))
}
