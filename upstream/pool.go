package upstream

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream/admit"
	"github.com/gatehouse-mcp/gatehouse/upstream/dialect"
	"github.com/gatehouse-mcp/gatehouse/upstream/pool"
	"github.com/gatehouse-mcp/gatehouse/upstream/stateful/restore"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
)

// steady is how long an event stream lives that does not count as one that fails.
const steady = 10 * time.Second

// poolKey says whose session it is. Without a session it is neutral: the gateway's own
// (Upstream.neutral) or, where each user has a credential, one of the user.
// Two client sessions never share one.
type poolKey struct {
	session string
	caps    string // what is declared, for clients whose capabilities change by request
	user    string // "" where no user has a credential of its own
}

// sessionPool keeps one session for each key.
type sessionPool struct {
	*pool.Pool[poolKey, *slot, *session]
	u *Upstream
}

// slot is what is kept beside a session, and outlives it.
type slot struct {
	*entry
	owner    *transport.Identity
	declared dialect.Capabilities
	state    *restore.State         // what is restored in a new session
	kept     atomic.Pointer[string] // the id at the server of the session that is kept for it; nil for none
}

type entry = pool.Entry[poolKey, *slot, *session]

func (p *sessionPool) init(u *Upstream) {
	p.u = u
	p.Pool = pool.New(pool.Config[poolKey, *slot, *session]{
		Places: u.cfg.Limits.Sessions, Idle: u.cfg.Timeout.Idle, Base: u.base, Spawn: u.spawn,
		Over: (*session).over, Opened: u.count.connect, Keeps: p.keeps, End: p.bury,
	})
}

// acquire returns the session of the key for this caller, and opens it if need be. It
// must be released.
func (p *sessionPool) acquire(ctx context.Context, key poolKey, caller *mcp.Caller, declared dialect.Capabilities, e *era, sweeps bool) (*session, error) {
	s, err := p.Acquire(ctx, key, func(at *entry, fresh bool) {
		if fresh {
			at.Data = &slot{entry: at, owner: &transport.Identity{}, declared: declared, state: restore.New(key.session == "")}
			at.Sweeps = sweeps
			if key.session != "" || key.user != "" {
				at.User = admit.User(caller)
				at.Data.owner.User = at.User
			}
		}
		if key.user != "" {
			at.Data.owner.Meet(caller)
		}
	}, func(at *entry) (*session, error) { return p.open(at.Data, e) })
	if err != nil && !errors.Is(err, dialect.ErrWrongEra) {
		err = fmt.Errorf("%w: %w", dialect.ErrNotStarted, err)
	}
	return s, err
}

// open opens the session of a slot, or goes on with one that is kept.
func (p *sessionPool) open(sl *slot, e *era) (*session, error) {
	u := p.u
	ctx, cancel := context.WithTimeoutCause(u.base, u.cfg.Timeout.Connect, transport.ErrTimeout)
	defer cancel()
	if s := u.resume(ctx, sl, e); s != nil {
		return s, nil
	}
	s, err := u.openSession(ctx, sl, e)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w: %w", transport.ErrNotSent, context.Cause(ctx), err)
	}
	if err != nil && u.cfg.Transport == transportStdio {
		p.crashed(sl, 0)
	}
	return s, err
}

// keeps reports whether the slot of a session that could not be opened stays: that of a
// process, or of what is down, remembers why.
func (p *sessionPool) keeps(err error) bool {
	return !errors.Is(err, admit.ErrOverloaded) && (p.u.cfg.Transport == transportStdio || errors.Is(err, pool.ErrDown))
}

// hold takes a session once more that the caller has; it must be released once more.
func (p *sessionPool) hold(s *session) { p.Hold(s.slot.entry) }

// release gives a session back.
func (p *sessionPool) release(s *session) { p.Release(s.slot.entry) }

// crashed notes that the process of a slot ended by itself, or its event stream. What
// lies between ends streams that are idle, for which nobody has to wait.
func (p *sessionPool) crashed(sl *slot, lived time.Duration) {
	p.u.health.restarts.Add(1)
	if p.u.cfg.Transport == transportStdio || lived < steady {
		p.Crashed(sl.entry, lived)
	}
}

// lose takes a session out that the server does not know any more. The next acquire
// opens another one.
func (p *sessionPool) lose(s *session) {
	if p.Lose(s.slot.entry, s) {
		p.u.count.lost.Inc()
	}
	s.cancel()
	if piped(s.conn) {
		s.u.spawn(func() { closeConn(s.conn) })
	}
}

// bury ends the session, nil for none, of a slot that has ended. At the server one that is
// kept ends only if it is to be forgotten.
func (p *sessionPool) bury(at *entry, s *session, forget bool, idle <-chan struct{}) {
	if s != nil && idle != nil {
		s.windUp(idle)
	}
	kept := at.Data.kept.Load()
	if kept != nil && forget {
		p.u.forget(at.Data)
	}
	if s != nil {
		s.cancel()
		if forget || kept == nil || *kept != s.id() {
			closeConn(s.conn)
		}
	}
}

// windUp cancels the calls of a session, and waits some time for it to be idle.
func (s *session) windUp(idle <-chan struct{}) {
	s.cancel()
	for _, x := range s.all() {
		if x.life.WaitedFor() { // parks and holds see to the others
			x.life.Cancel(dialect.ErrClosed)
		}
	}
	timer := time.NewTimer(dialect.Goodbye)
	defer timer.Stop()
	select {
	case <-idle:
	case <-timer.C:
	}
}

// endSession ends what belongs to a client session. Its calls are cancelled, and their
// server hears of that first: for many servers the end of a session ends no call.
func (p *sessionPool) endSession(session string, forget bool) {
	if session == "" {
		return
	}
	p.End(forget, func(at *entry) bool {
		if at.Key.session != session {
			return false
		}
		at.Data.state.End(transport.ErrEnded)
		return true
	})
}

func (p *sessionPool) endListens() {
	for at := range p.All() {
		at.Data.state.End(dialect.ErrClosed)
	}
}

// close closes all sessions, on goroutines that the Upstream waits for.
func (p *sessionPool) close() {
	p.Close()
	if spare := p.u.takeSpare(); spare != nil {
		p.u.spawn(func() { closeConn(spare) })
	}
}
