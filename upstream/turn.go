package upstream

import (
	"context"
	"time"
)

// turn is a replica's wait for the standing stream of a session, of which one has it at a
// time.
type turn struct {
	s      *session
	stands string          // the replica that has it
	gone   <-chan struct{} // closed when that has gone
	stop   func()          // ends the watching of it; nil for none
	lost   string          // a replica that has gone with the stream
}

// comes reports whether the standing stream is to be opened here.
func (t *turn) comes() bool {
	s := t.s
	if s.bound == nil {
		return true
	}
	stands, err := s.u.pool.keep(s.base, s, standLease, t.lost)
	t.lost = ""
	if err != nil && s.base.Err() == nil { // the server decides whose it is
		s.u.pool.mu.Lock()
		s.bound.stands, stands = true, s.u.shared.Self()
		s.u.pool.mu.Unlock()
	}
	if stands != t.stands {
		t.over()
		t.stands = stands
		if stands != "" && stands != s.u.shared.Self() {
			t.gone, t.stop = s.u.shared.Watch(stands)
		}
	}
	return stands == s.u.shared.Self()
}

// wait waits until the replica that has the stream may have it no more, or the session
// ends. That it has given it up may be told in vain: some time later it is looked.
func (t *turn) wait() error {
	timer := time.NewTimer(standLook)
	defer timer.Stop()
	select {
	case <-t.gone:
		t.lost = t.stands
	case <-t.s.freed:
	case <-timer.C:
	case <-t.s.base.Done():
		return context.Cause(t.s.base)
	}
	return nil
}

// over ends the watching.
func (t *turn) over() {
	if t.stop != nil {
		t.stop()
	}
	t.gone, t.stop, t.stands = nil, nil, ""
}
