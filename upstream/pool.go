package upstream

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream/admit"
	"github.com/gatehouse-mcp/gatehouse/upstream/dialect"
	"github.com/gatehouse-mcp/gatehouse/upstream/stateful/restore"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
)

// opensAtOnce bounds how many sessions are opened at a time, so that a server that
// comes back is not run over by all the sessions that it forgot.
const opensAtOnce = 20

// opensApart is the longest pause of a session that had to wait for its turn.
const opensApart = 25 * time.Millisecond

// poolKey says whose session it is. Without a session it is neutral: the gateway's own
// (Upstream.neutral) or, where each user has a credential, one of the user.
// Two client sessions never share one.
type poolKey struct {
	session string
	caps    string // what is declared, for clients whose capabilities change by request
	user    string // "" where no user has a credential of its own
}

// pool keeps one session for each key.
type pool struct {
	u     *Upstream
	opens *admit.Queue // of the sessions that are being opened

	mu      sync.Mutex // guards the fields below and those of slots; not held over I/O
	slots   map[poolKey]*slot
	ending  []chan struct{} // one for each session that ends and whose place nobody has taken yet; closed at its end
	sweeper *time.Timer     // runs as long as there are sessions that end by idle time
	closed  bool
}

// slot is the place of one session, which may end and be opened again.
type slot struct {
	key      poolKey
	user     string // whose it is among those who share the server; "" for the gateway's own, and without authentication
	owner    *transport.Identity
	declared dialect.Capabilities
	sweeps   bool           // it ends by idle time
	state    *restore.State // what is restored in a new session

	current  *session
	opening  *opening
	after    chan struct{} // what has to be closed before it may be opened; nil for nothing
	busy     int           // calls that use it
	idle     chan struct{} // closed when they are over; nil when nobody waits for that
	used     time.Time
	until    time.Time // it is not idle before that
	ended    bool
	forget   bool   // with ended: what is kept of its session is to be forgotten
	kept     string // the id at the server of the session that is kept for it; "" for none
	restarts restarts
}

// opening is one attempt that several callers wait for.
type opening struct {
	done    chan struct{}
	session *session
	err     error
}

func (p *pool) init(u *Upstream) {
	p.u = u
	p.opens = admit.NewQueue(opensAtOnce, opensAtOnce/2, 2*u.cfg.Limits.Sessions, 0, u.base.Done())
	p.slots = make(map[poolKey]*slot)
}

// acquire returns the session of the key for this caller, and opens it if need be. It
// must be released.
func (p *pool) acquire(ctx context.Context, key poolKey, caller *mcp.Caller, declared dialect.Capabilities, e *era, sweeps bool) (*session, error) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, admit.ErrDraining
	}
	if ctx.Err() != nil { // its session may have ended, and what is opened now would stay
		p.mu.Unlock()
		return nil, fmt.Errorf("%w: %w", errNotStarted, context.Cause(ctx))
	}
	sl := p.slots[key]
	if sl == nil {
		sl = &slot{key: key, owner: &transport.Identity{}, declared: declared, sweeps: sweeps, state: restore.New(key.session == "")}
		if key.session != "" || key.user != "" {
			sl.user = admit.User(caller)
			sl.owner.User = sl.user
		}
		if !p.makeRoom(sl) {
			p.mu.Unlock()
			return nil, admit.ErrOverloaded
		}
		p.slots[key] = sl
	}
	if key.user != "" {
		sl.owner.Meet(caller)
	}
	sl.busy++
	if s := sl.current; s != nil && !s.over() {
		p.mu.Unlock()
		return s, nil
	}
	open, first := sl.opening, false
	if open == nil {
		open, first = &opening{done: make(chan struct{})}, true
		sl.opening = open
	}
	p.mu.Unlock()
	if first {
		p.u.spawn(func() { p.open(sl, open, e) })
	}
	select {
	case <-open.done:
		if open.err == nil {
			return open.session, nil
		}
		p.leave(sl)
		return nil, open.err
	case <-ctx.Done():
		p.leave(sl)
		return nil, fmt.Errorf("%w: %w", errNotStarted, context.Cause(ctx))
	}
}

// hold takes a session once more that the caller has; it must be released once more.
func (p *pool) hold(s *session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.slot.busy++
}

// keepUntil keeps a slot although it may be idle.
func (p *pool) keepUntil(sl *slot, until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if until.After(sl.until) {
		sl.until = until
	}
}

// release gives a session back.
func (p *pool) release(s *session) { p.leave(s.slot) }

func (p *pool) leave(sl *slot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	sl.busy--
	if sl.busy == 0 && sl.idle != nil {
		close(sl.idle)
		sl.idle = nil
	}
	sl.used = time.Now()
	if sl.sweeps && p.sweeper == nil && !p.closed {
		p.sweeper = time.AfterFunc(p.u.cfg.Timeout.Idle, p.sweep)
	}
}

// open opens the session of a slot, apart from the callers, who may leave.
func (p *pool) open(sl *slot, open *opening, e *era) {
	u := p.u
	if open.err = p.turn(sl); open.err == nil {
		open.session, open.err = p.dial(sl, e)
		u.count.connect(open.err)
		p.opens.Leave(sl.user)
	}
	if open.err != nil && !errors.Is(open.err, errWrongEra) {
		open.err = fmt.Errorf("%w: %w", errNotStarted, open.err)
	}
	p.mu.Lock()
	sl.opening = nil
	unwanted := open.err == nil && (p.closed || sl.ended)
	switch {
	case unwanted:
		open.err = admit.ErrDraining
	case open.err == nil:
		sl.current = open.session
	case u.cfg.Transport != transportStdio && !errors.Is(open.err, errDown), errors.Is(open.err, admit.ErrOverloaded):
		p.drop(sl, true, nil) // the slot of a process, or of what is down, remembers why
	}
	p.mu.Unlock()
	if unwanted {
		p.bury(sl, open.session)
	}
	close(open.done)
}

// turn waits until the session of a slot may be opened; a nil error obliges to leave opens.
// Those that have to wait come at different times, also from several gateways.
func (p *pool) turn(sl *slot) error {
	if err := p.vacant(sl); err != nil {
		return err
	}
	waited, err := p.opens.Enter(context.Background(), sl.user) // which ends with the Upstream
	if err != nil || !waited {
		return err
	}
	if wait(p.u.base, rand.N(opensApart)) != nil {
		p.opens.Leave(sl.user)
		return admit.ErrDraining
	}
	return nil
}

func (p *pool) dial(sl *slot, e *era) (*session, error) {
	u := p.u
	if u.base.Err() != nil {
		return nil, admit.ErrDraining
	}
	p.mu.Lock()
	pause, down := sl.restarts.pause(time.Now())
	p.mu.Unlock()
	if down {
		return nil, errDown
	}
	if pause > 0 {
		if err := wait(u.base, pause); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeoutCause(u.base, u.cfg.Timeout.Connect, transport.ErrTimeout)
	defer cancel()
	s := u.resume(ctx, sl, e)
	if s != nil {
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

// crashed notes that the process of a slot ended by itself, or its event stream. What
// lies between ends streams that are idle, for which nobody has to wait.
func (p *pool) crashed(sl *slot, lived time.Duration) {
	p.u.health.restarts.Add(1)
	if p.u.cfg.Transport != transportStdio && lived >= steady {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	sl.restarts.crashed(time.Now(), lived)
}

// lose takes a session out that the server does not know any more. The next acquire
// opens another one.
func (p *pool) lose(s *session) {
	p.mu.Lock()
	if s.slot.current == s {
		s.slot.current = nil
		p.u.count.lost.Inc()
	}
	p.mu.Unlock()
	s.cancel()
	if piped(s.conn) {
		s.u.spawn(func() { closeConn(s.conn) })
	}
}

// drop ends a slot for good, and its session when idle is closed, nil for at once. At the
// server a session that is kept ends only if it is to be forgotten. p.mu is held.
func (p *pool) drop(sl *slot, forget bool, idle <-chan struct{}) {
	if p.slots[sl.key] == sl {
		delete(p.slots, sl.key)
	}
	s := sl.current
	sl.ended, sl.forget, sl.current = true, forget, nil
	if s == nil && (sl.kept == "" || !forget) {
		return
	}
	gone := p.leaves(s)
	p.u.spawn(func() {
		defer gone()
		if s != nil && idle != nil {
			s.windUp(idle)
		}
		p.bury(sl, s)
	})
}

// windUp cancels the calls of a session, and waits some time for it to be idle.
func (s *session) windUp(idle <-chan struct{}) {
	s.cancel()
	for _, x := range s.all() {
		if x.life.WaitedFor() { // parks and holds see to the others
			x.life.Cancel(errClosed)
		}
	}
	timer := time.NewTimer(goodbye)
	defer timer.Stop()
	select {
	case <-idle:
	case <-timer.C:
	}
}

// bury ends the session, nil for none, of a slot that has ended.
func (p *pool) bury(sl *slot, s *session) {
	p.mu.Lock()
	kept, forget := sl.kept, sl.forget
	p.mu.Unlock()
	if kept != "" && forget {
		p.u.forget(sl)
	}
	if s != nil {
		s.cancel()
		if forget || kept == "" || kept != s.id() {
			closeConn(s.conn)
		}
	}
}

// sweep closes what was idle for too long.
func (p *pool) sweep() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sweeper = nil
	idle, left := p.u.cfg.Timeout.Idle, false
	for _, sl := range p.slots {
		switch {
		case !sl.sweeps || p.closed:
		case sl.busy == 0 && time.Since(sl.used) >= idle && time.Now().After(sl.until):
			p.drop(sl, true, nil)
		default:
			left = true
		}
	}
	if left {
		p.sweeper = time.AfterFunc(max(idle/10, time.Second), p.sweep)
	}
}

// endSession ends what belongs to a client session. Its calls are cancelled, and their
// server hears of that first: for many servers the end of a session ends no call.
func (p *pool) endSession(session string, forget bool) {
	if session == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, sl := range p.slots {
		if key.session != session {
			continue
		}
		sl.state.End(transport.ErrEnded)
		idle := make(chan struct{})
		if sl.busy > 0 {
			sl.idle = idle
		} else {
			close(idle)
		}
		p.drop(sl, forget, idle)
	}
}

// reset closes all sessions: the server turned out to be another one.
func (p *pool) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, sl := range p.slots {
		p.drop(sl, true, nil)
	}
}

func (p *pool) endListens() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, sl := range p.slots {
		sl.state.End(errClosed)
	}
}

// close closes all sessions, on goroutines that the Upstream waits for.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.sweeper != nil {
		p.sweeper.Stop()
	}
	for _, sl := range p.slots {
		p.drop(sl, false, nil)
	}
	if spare := p.u.takeSpare(); spare != nil {
		p.u.spawn(func() { closeConn(spare) })
	}
}

// size is how many sessions are open.
func (p *pool) size() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, sl := range p.slots {
		if sl.current != nil && !sl.current.over() {
			n++
		}
	}
	return n
}
