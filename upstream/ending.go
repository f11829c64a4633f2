package upstream

import (
	"context"
	"time"
)

// overlap is how long a session is left for what other replicas still have to say in it
// when its client's has ended: that calls are cancelled.
const overlap = time.Second

// end ends what the session does on its own; the server, which knows, is not told.
func (s *session) end() {
	s.cancel()
	if piped(s.conn) {
		s.u.spawn(func() { closeConn(s.conn) })
	}
}

// close ends the session, at the server too, unless other replicas go on with it.
func (s *session) close() {
	s.cancel()
	if s.u.pool.only(s) {
		closeConn(s.conn)
	}
}

// expire ends a session that nobody has used for long. At the server it ends only if no
// replica has.
func (s *session) expire() {
	s.cancel()
	if s.u.pool.only(s) || s.bound.at.Idle > 0 && s.farewell() != FarewellNone {
		closeConn(s.conn)
	}
}

// closeAfter ends the session of a client that has ended its own, once for all replicas,
// but that the server may be told something first.
func (s *session) closeAfter(said <-chan struct{}) {
	s.cancel()
	timer := time.NewTimer(goodbye)
	defer timer.Stop()
	select {
	case <-said:
	case <-timer.C:
	}
	if !s.u.pool.only(s) {
		switch s.farewell() {
		case FarewellNone:
			return
		case FarewellLast:
			_ = wait(s.u.base, overlap)
		}
	}
	closeConn(s.conn)
}

// farewell asks whether to end a session that replicas have in common. Where nobody can
// tell, that of a client who has ended its own is: twice does no harm.
func (s *session) farewell() Farewell {
	ctx, cancel := context.WithTimeout(context.Background(), goodbye) // after the session's own end
	defer cancel()
	f, err := s.u.shared.End(ctx, s.bound.at, s.bound.kept.Tag)
	if err != nil && s.bound.at.Idle == 0 {
		return FarewellAlone
	}
	return f
}
