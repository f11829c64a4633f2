package front

import (
	"sync"
	"time"
)

// guests are the stateless clients whose homes are here, by their derived sessions, as long as
// something of theirs is under way: requests, and calls that wait for answers. Their homes are
// not given up until then.
type guests struct {
	mu   sync.Mutex // guards the fields below
	here map[string]*guest
}

type guest struct {
	running int
	waiting map[string]*time.Timer // calls by their states; the timer ends the wait
}

// enter begins a request, which may bring back the state of a waiting call. With leaving it
// returns false if nothing is under way: another replica can have the home.
func (s *guests) enter(key, state string, leaving bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.here[key]
	if g == nil {
		if leaving {
			return false
		}
		g = &guest{}
		if s.here == nil {
			s.here = make(map[string]*guest)
		}
		s.here[key] = g
	}
	g.running++
	g.takeUp(state)
	return true
}

// exit ends a request.
func (s *guests) exit(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.here[key].running--
	s.forget(key)
}

// waits records that a call of a request waits for an answer, at most for limit.
func (s *guests) waits(key, state string, limit time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.here[key]
	if g == nil { // there are no other replicas
		return
	}
	g.takeUp(state)
	if g.waiting == nil {
		g.waiting = make(map[string]*time.Timer)
	}
	g.waiting[state] = time.AfterFunc(limit, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.here[key] == g {
			delete(g.waiting, state)
			s.forget(key)
		}
	})
}

// takeUp ends the wait of a call.
func (g *guest) takeUp(state string) {
	if timer := g.waiting[state]; timer != nil {
		timer.Stop()
		delete(g.waiting, state)
	}
}

// forget removes a guest if nothing of it is under way. The caller holds mu.
func (s *guests) forget(key string) {
	if g := s.here[key]; g != nil && g.running == 0 && len(g.waiting) == 0 {
		delete(s.here, key)
	}
}
