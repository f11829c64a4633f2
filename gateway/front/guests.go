package front

import (
	"sync"
	"time"
)

// guests are the stateless clients whose homes are here, by their derived sessions, as long as
// something of theirs is under way: requests, and calls that wait for answers. Their homes are
// not given up until then. A waiting call is counted like a running request, so that a replica
// that stops waits for the answer.
type guests struct {
	counted *lifecycle // counts the waiting calls

	mu   sync.Mutex // guards the fields below
	here map[string]*guest
}

type guest struct {
	running int
	waiting map[string]*time.Timer // calls by their states; the timer ends the wait
	left    chan struct{}          // closed when the home has been given up; nil unless it is being
}

// enter begins a request. With leave, it calls leave and returns false if nothing is under way:
// another replica can have the home. Until leave has returned, no other request begins. counted
// says that the request brings back the state of a waiting call: the request takes over the
// call's count.
func (s *guests) enter(key, state string, leave func()) (counted, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.here[key]
	for ; g != nil && g.left != nil; g = s.here[key] {
		s.mu.Unlock()
		<-g.left
		s.mu.Lock()
	}
	if g == nil {
		g = &guest{}
		if s.here == nil {
			s.here = make(map[string]*guest)
		}
		s.here[key] = g
		if leave != nil {
			g.left = make(chan struct{})
			s.mu.Unlock()
			leave()
			s.mu.Lock()
			delete(s.here, key)
			close(g.left)
			return false, false
		}
	}
	g.running++
	return g.takeUp(state), true
}

// exit ends a request.
func (s *guests) exit(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.here[key].running--
	s.forget(key)
}

// waits records that a call of a request, which still runs, waits for an answer, at most for
// limit.
func (s *guests) waits(key, state string, limit time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.here[key]
	if g == nil { // there are no other replicas
		return
	}
	if !g.takeUp(state) {
		s.counted.countMore()
	}
	if g.waiting == nil {
		g.waiting = make(map[string]*time.Timer)
	}
	g.waiting[state] = time.AfterFunc(limit, func() { s.giveUp(key, state) })
}

// giveUp ends the wait of a call for whose answer nobody comes any more.
func (s *guests) giveUp(key, state string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g := s.here[key]; g != nil && g.takeUp(state) {
		s.counted.done()
		s.forget(key)
	}
}

// giveUpAll ends the waits of all calls, and returns how many there were.
func (s *guests) giveUpAll() (calls int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, g := range s.here {
		for state := range g.waiting {
			g.takeUp(state)
			s.counted.done()
			calls++
		}
		s.forget(key)
	}
	return calls
}

// takeUp ends the wait of a call, and reports whether it waited.
func (g *guest) takeUp(state string) bool {
	timer := g.waiting[state]
	if timer == nil {
		return false
	}
	timer.Stop()
	delete(g.waiting, state)
	return true
}

// forget removes a guest if nothing of it is under way. The caller holds mu.
func (s *guests) forget(key string) {
	if g := s.here[key]; g != nil && g.left == nil && g.running == 0 && len(g.waiting) == 0 {
		delete(s.here, key)
	}
}
