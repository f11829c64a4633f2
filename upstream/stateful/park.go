package stateful

import (
	"errors"
	"sync"
	"time"
)

// Errors of parking.park.
var (
	errParkingClosed = errors.New("parking: closed")
	errParkingFull   = errors.New("parking: too many calls of the user wait")
)

// parking holds the calls that wait for answers of their users, by their handles. It bounds how many one
// user may have, and ends each after a time. Its timers run callbacks. It may be used concurrently.
type parking struct {
	giveUp func(call *exchange, reason string)

	mu     sync.Mutex // guards the fields below
	calls  map[string]*parked
	users  map[string]int
	closed bool
}

type parked struct {
	call  *exchange
	user  string
	timer *time.Timer
}

// newParking returns an empty one. giveUp ends a call that got no answer; it must not block.
func newParking(giveUp func(call *exchange, reason string)) *parking {
	return &parking{giveUp: giveUp, calls: make(map[string]*parked), users: make(map[string]int)}
}

// park returns the call at a handle, and restarts its time limit. If there is none, it
// parks the call that begin returns. most bounds how many calls the user may have parked.
// Errors are those of begin, errParkingClosed and errParkingFull.
//
// begin must not use p.
func (p *parking) park(
	handle, user string, most int, limit time.Duration, begin func() (*exchange, error),
) (call *exchange, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if found := p.calls[handle]; found != nil {
		found.timer.Reset(limit)
		return found.call, nil
	}
	switch {
	case p.closed:
		return call, errParkingClosed
	case p.users[user] >= most:
		return call, errParkingFull
	}
	if call, err = begin(); err != nil {
		return call, err
	}
	p.calls[handle] = &parked{call: call, user: user, timer: time.AfterFunc(limit, func() {
		if p.drop(handle, call) {
			p.giveUp(call, "nobody answered in time")
		}
	})}
	p.users[user]++
	return call, nil
}

// find returns the call at a handle; ok is false if there is none.
func (p *parking) find(handle string) (call *exchange, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if found := p.calls[handle]; found != nil {
		return found.call, true
	}
	return call, false
}

// take removes the call at a handle, if it fits; ok is false if there is none. Of several
// concurrent callers, only one gets the call.
func (p *parking) take(handle string, fits func(*exchange) bool) (call *exchange, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if found := p.calls[handle]; found != nil && fits(found.call) {
		p.remove(handle, found)
		return found.call, true
	}
	return call, false
}

// drop removes a call, and reports whether it was there.
func (p *parking) drop(handle string, call *exchange) bool {
	_, ok := p.take(handle, func(one *exchange) bool { return one == call })
	return ok
}

// remove is called with mu held.
func (p *parking) remove(handle string, call *parked) {
	delete(p.calls, handle)
	call.timer.Stop()
	if p.users[call.user]--; p.users[call.user] == 0 {
		delete(p.users, call.user)
	}
}

// dropAll ends all calls for which which reports true, for one reason.
func (p *parking) dropAll(reason string, which func(*exchange) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for handle, found := range p.calls {
		if which(found.call) {
			p.remove(handle, found)
			p.giveUp(found.call, reason)
		}
	}
}

// close ends all calls. No call can be parked afterwards.
func (p *parking) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.dropAll("the gateway is closing the server", func(*exchange) bool { return true })
}

// count returns how many calls are parked.
func (p *parking) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.calls)
}
