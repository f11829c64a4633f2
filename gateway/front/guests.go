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
	waiting map[string]*waiting // calls by their states
	left    chan struct{}       // closed when the home has been given up; nil unless it is being
}

// waiting is a call that waits for an answer.
type waiting struct {
	timer *time.Timer // ends the wait
	lost  bool        // another replica has taken the home over, and the call was given up: it does not count
}

// enter begins a request. With leave, it calls leave and returns false if nothing is under way:
// another replica can have the home. Until leave has returned, no other request begins. found is
// the waiting call whose state the request brings back: the request takes over its count.
func (s *guests) enter(key, state string, leave func()) (found waiting, ok bool) {
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
		s.here[key] = g
		if leave != nil {
			g.left = make(chan struct{})
			s.mu.Unlock()
			leave()
			s.mu.Lock()
			delete(s.here, key)
			close(g.left)
			return waiting{}, false
		}
	}
	g.running++
	return g.takeUp(state), true
}

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
	if !g.takeUp(state).counts() {
		s.counted.countMore()
	}
	if g.waiting == nil {
		g.waiting = make(map[string]*waiting)
	}
	g.waiting[state] = &waiting{timer: time.AfterFunc(limit, func() { s.giveUp(key, state) })}
}

// giveUp ends the wait of a call for whose answer nobody comes any more.
func (s *guests) giveUp(key, state string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g := s.here[key]; g != nil {
		if g.takeUp(state).counts() {
			s.counted.done()
		}
		s.forget(key)
	}
}

// lose records that another replica has taken a home over. Whoever brings an answer to a call that
// waited here is told that the call is lost.
func (s *guests) lose(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g := s.here[key]; g != nil {
		for _, w := range g.waiting {
			if w.counts() {
				w.lost = true
				s.counted.done()
			}
		}
	}
}

// giveUpAll ends the waits of all calls, and returns how many there were.
func (s *guests) giveUpAll() (calls int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, g := range s.here {
		for state := range g.waiting {
			if g.takeUp(state).counts() {
				s.counted.done()
				calls++
			}
		}
		s.forget(key)
	}
	return calls
}

// takeUp ends the wait of a call, and returns the call; the zero value if it did not wait.
func (g *guest) takeUp(state string) waiting {
	w := g.waiting[state]
	if w == nil {
		return waiting{}
	}
	w.timer.Stop()
	delete(g.waiting, state)
	return *w
}

// counts reports whether the call is counted like a running request.
func (w waiting) counts() bool { return w.timer != nil && !w.lost }

// forget removes a guest if nothing of it is under way. The caller holds mu.
func (s *guests) forget(key string) {
	if g := s.here[key]; g != nil && g.left == nil && g.running == 0 && len(g.waiting) == 0 {
		delete(s.here, key)
	}
}
