package upstream

import (
	"errors"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/upstream/admit"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
)

// leastPause is how soon a standing stream is opened again, however short a time its
// server asks for.
const leastPause = 100 * time.Millisecond

// stand opens the session's standing stream, once, and waits a moment for it to be open,
// so that what the server says from now on is heard. So does who comes meanwhile.
func (s *session) stand() {
	if piped(s.conn) || s.base.Err() != nil {
		return
	}
	s.mu.Lock()
	first := s.opened == nil
	if first {
		s.opened, s.asked = make(chan struct{}), time.Now()
	}
	opened, left := s.opened, standingWait-time.Since(s.asked)
	s.mu.Unlock()
	if first {
		s.u.spawn(func() { s.listen(opened) })
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-opened:
	case <-timer.C:
	}
}

// listen reads the standing stream until the session ends, and opens it again when it
// breaks. opened is closed when the first attempt is over.
func (s *session) listen(opened chan struct{}) {
	pauses := admit.NewBackoff()
	lastID := ""
	// Until it is known that there is no such stream, questions may come on it.
	s.setStanding(true)
	for first := true; s.base.Err() == nil; first = false {
		stream, err := s.conn.Standing(s.base, lastID, nil)
		if first && errors.Is(err, transport.ErrNoStanding) {
			s.setStanding(false)
		}
		if err == nil && lastID == "" { // also the first time: it may be later than it was waited for
			s.slot.state.Missed()
		}
		if first { // after that: who waited has missed nothing
			close(opened)
		}
		switch {
		case errors.Is(err, transport.ErrNoStanding):
			return
		case errors.Is(err, transport.ErrSessionGone):
			s.u.pool.lose(s)
			return
		case err == nil:
			var pause time.Duration
			var why error
			lastID, pause, why = s.drain(stream)
			if errors.Is(why, transport.ErrNoRoom) || errors.Is(why, transport.ErrTooLarge) {
				s.u.log.Warn("server sent a large event outside of a call, its stream is closed", "cause", why)
				pause = 0 // the next one may be no better
			} else {
				pauses.Reset()
			}
			if pause > 0 {
				if wait(s.base, max(pause, leastPause)) != nil {
					return
				}
				continue
			}
		default:
			if status, ok := errors.AsType[*transport.StatusError](err); ok && lastID != "" && status.Status/100 == 4 {
				lastID = "" // it cannot be gone on with
			}
		}
		if wait(s.base, pauses.NextBackOff()) != nil {
			return
		}
	}
}

// drain reads a standing stream to its end, and returns where and when to go on, and why it
// has ended.
func (s *session) drain(stream transport.Stream) (lastID string, pause time.Duration, why error) {
	defer stream.Close()
	for {
		m, err := stream.Next()
		if errors.Is(err, transport.ErrGarbage) {
			s.u.health.garbage.Add(1)
			continue
		}
		if err != nil {
			lastID, pause = stream.Resumption()
			return lastID, pause, err
		}
		if m.Kind != wire.Response {
			s.deliver(m)
		}
	}
}

func (s *session) setStanding(is bool) {
	s.mu.Lock()
	s.standing = is
	s.mu.Unlock()
}
