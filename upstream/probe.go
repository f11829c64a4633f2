package upstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/upstream/admit"
	"github.com/gatehouse-mcp/gatehouse/upstream/dialect"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport/sse"
)

// probeSilence is how long a stdio server may leave server/discover unanswered before it counts as
// unknown there. Few servers keep silent to unknown methods; many programs are slow to start.
const probeSilence = 15 * time.Second

// probe finds out which era a server speaks, once, and remembers it until it proves wrong.
// It remembers only clear answers.
type probe struct {
	known atomic.Pointer[dialect.Era] // nil if unknown; it changes under mu

	mu      sync.Mutex // guards the fields below
	patient bool       // silence was wrongly taken for an answer: the next probe waits longer
	running *probing
	trail   dialect.Probing
	spare   transport.Conn // of a stdio server: the process that was probed, for the first session
}

// probing is one probe that several callers wait for.
type probing struct {
	done  chan struct{}
	owner transport.Identity // the owner of the credential in use
	user  string             // the owner's key
	asked bool               // Probe has begun it
	era   *dialect.Era
	steps []dialect.Step
	err   error
}

// inEra runs f with the era of the server. If the remembered era proves wrong, it runs f
// once more with the new one.
func (u *Upstream) inEra(ctx context.Context, c *mcp.Call, f func(*dialect.Era) error) error {
	for again := false; ; again = true {
		e, err := u.era(ctx, &c.Caller)
		if err != nil {
			return err
		}
		if err = f(e); !errors.Is(err, dialect.ErrWrongEra) || u.cfg.pinned() != nil && !e.SSE {
			return err
		}
		u.forgetEra(e)
		if again {
			return err
		}
	}
}

// era returns the known era, or asks the server. Where each user has a credential, it asks
// with the caller's.
func (u *Upstream) era(ctx context.Context, caller *mcp.Caller) (*dialect.Era, error) {
	for {
		known, run := u.join(caller, false)
		if known != nil {
			return known, nil
		}
		select {
		case <-run.done:
			if run.user != u.env.User(caller) && aboutCredentials(run.err) {
				continue // the failure concerns another user, not this one
			}
			return run.era, run.err
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// join returns the known era, unless Probe asks, or the probe under way. It begins one if
// there is none.
func (u *Upstream) join(caller *mcp.Caller, asked bool) (known *dialect.Era, run *probing) {
	p := &u.probe
	p.mu.Lock()
	if known, run = p.known.Load(), p.running; known != nil && !asked || run != nil {
		p.mu.Unlock()
		return known, run
	}
	begun := &probing{done: make(chan struct{}), user: u.env.User(caller), asked: asked}
	if begun.user != "" {
		begun.owner.Meet(caller)
	}
	p.running = begun
	p.mu.Unlock()
	u.lives.spawn(func() { u.runProbe(begun) })
	return nil, begun
}

// pinned returns the era of a server that need not be probed, nil for none. HTTP+SSE always
// has sessions.
func (c Config) pinned() *dialect.Era {
	switch {
	case c.Revision != "":
		return &dialect.Era{Rev: wire.Lookup(c.Revision)}
	case c.Transport == transportSSE:
		return &dialect.Era{Rev: wire.NewestStateful()}
	}
	return nil
}

// ErrPerUser is the error of Probe where each user has a credential of their own: the gateway has
// none to ask with.
var ErrPerUser = errors.New("each user has a credential of their own there: the next call of a user shows how it is")

// Probe finds out again what the server speaks, and opens a session if it has any, which ends at
// once. Calls go on meanwhile; the next one is made even if earlier ones could not reach the server.
// It returns the steps, also of a probe that failed. Errors: ErrPerUser, those that a client may
// read, and the cause of ctx.
func (u *Upstream) Probe(ctx context.Context) ([]dialect.Step, error) {
	if u.PerUser() {
		return nil, ErrPerUser
	}
	var run *probing
	// A probe that a call began opens no session, so its success is not enough.
	for run == nil || !run.asked && run.err == nil {
		_, run = u.join(nil, true)
		select {
		case <-run.done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	u.admit.Trial()
	if run.err != nil {
		return run.steps, u.failure(ctx, run.err)
	}
	return run.steps, nil
}

// Probed returns the steps of the last probe, oldest first.
func (u *Upstream) Probed() []dialect.Step { return u.probe.trail.Steps() }

// runProbe runs independently of the callers, who may leave.
func (u *Upstream) runProbe(run *probing) {
	var spare transport.Conn
	var discover mcp.Raw
	stumbled := false
	u.probe.trail.Begin()
	if run.era = u.cfg.pinned(); run.era == nil || !run.era.Rev.Stateful {
		run.err = u.env.Connect(func(ctx context.Context) (err error) {
			run.era, discover, spare, err = u.discover(ctx, &run.owner)
			stumbled = u.cfg.pinned() == nil && u.stumbled(err)
			return err
		})
	}
	if stumbled {
		run.era, run.err = u.older(&run.owner, run.err)
	} else if run.asked && run.err == nil && run.era.Rev.Stateful {
		run.err = u.stateful.Try(run.era, &run.owner)
	}
	if run.err != nil {
		run.err = fmt.Errorf("%w: %w", dialect.ErrNotStarted, run.err)
	}
	if u.PerUser() {
		discover = nil // the next caller that wants it may be another user
	}
	u.stateless.Probed(discover)
	run.steps = u.probe.trail.Steps() // the next probe begins another trail
	p := &u.probe
	p.mu.Lock()
	p.running = nil
	before := p.known.Load()
	if run.err == nil && u.cfg.pinned() == nil && (before == nil || before.Rev.Stateful != run.era.Rev.Stateful) {
		p.known.Store(run.era)
	}
	other := before != nil && before != p.known.Load()
	if run.err == nil && u.base.Err() == nil && !run.asked { // otherwise Close has looked for it already
		p.spare, spare = spare, p.spare
	}
	p.mu.Unlock()
	if other {
		u.stateful.Reset()
		u.stateless.Reset()
	}
	if spare != nil {
		u.env.CloseConn(spare)
	}
	close(run.done)
	if run.err == nil {
		u.log.Info("upstream probed", "stateful", run.era.Rev.Stateful, "silent", run.era.Silent)
	}
}

// stumbled reports whether a server may be an older one that server/discover has upset: it got
// the request, and its answer is none.
func (u *Upstream) stumbled(err error) bool {
	status, refused := errors.AsType[*transport.StatusError](err)
	switch {
	case err == nil, u.env.Process, u.base.Err() != nil, refused && status.Status == http.StatusTooManyRequests:
		return false
	}
	return !errors.Is(err, transport.ErrNotSent) && !errors.Is(err, transport.ErrNoRoom)
}

// older tries initialize after server/discover failed. The server's era stays unknown unless
// it answers that.
func (u *Upstream) older(owner *transport.Identity, discover error) (*dialect.Era, error) {
	e := &dialect.Era{Rev: wire.NewestStateful()}
	switch err := u.stateful.Try(e, owner); {
	case err == nil:
		return e, nil
	case errors.Is(err, dialect.ErrWrongEra):
		return nil, &undecided{discover}
	default:
		return nil, &undecided{err}
	}
}

// undecided is the error of a probe that has not found out what a server speaks.
type undecided struct{ error }

func (e *undecided) Unwrap() error { return e.error }

// forgetEra makes the next call probe again, unless the era has already been replaced.
func (u *Upstream) forgetEra(e *dialect.Era) {
	u.probe.mu.Lock()
	if !u.probe.known.CompareAndSwap(e, u.cfg.pinned()) {
		u.probe.mu.Unlock()
		return
	}
	u.probe.patient = e.Silent
	u.probe.mu.Unlock()
	u.log.Info("upstream is probed again")
	if spare := u.takeSpare(); spare != nil {
		u.lives.spawn(func() { u.env.CloseConn(spare) })
	}
	u.stateful.Reset()
	u.stateless.Reset()
}

// learn implements dialect.Env.Learn.
func (p *probe) learn(old, new *dialect.Era) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known.CompareAndSwap(old, new)
}

// Keeps reports whether the server may keep something for a client from one call to the
// next: a session, a process, or a call that waits for its user. It reports true while the
// revision is unknown.
func (u *Upstream) Keeps() bool {
	e := u.probe.known.Load()
	return e == nil || e.Rev.Stateful
}

// dial implements dialect.Env.Dial. A server that was only assumed to have an event stream,
// and has none, is of another era.
func (u *Upstream) dial(ctx context.Context, owner *transport.Identity, e *dialect.Era) (transport.Conn, error) {
	if !e.SSE {
		if spare := u.takeSpare(); spare != nil && !dialect.Lost(spare) {
			return spare, nil
		}
		return u.transport.Dial(ctx, owner)
	}
	if u.sse == nil {
		return nil, dialect.ErrWrongEra
	}
	conn, err := u.sse.Dial(ctx, owner)
	status, refused := errors.AsType[*transport.StatusError](err)
	if refused && refusesVerb(status.Status) || errors.Is(err, sse.ErrNoStream) {
		return nil, dialect.ErrWrongEra
	}
	return conn, err
}

// takeSpare returns the probed process, once.
func (u *Upstream) takeSpare() transport.Conn {
	u.probe.mu.Lock()
	defer u.probe.mu.Unlock()
	conn := u.probe.spare
	u.probe.spare = nil
	return conn
}

// discover sends server/discover and judges the answer. It returns the result, if it
// belongs to the era that was found, and the process that was asked, if it still runs.
func (u *Upstream) discover(ctx context.Context, owner *transport.Identity) (e *dialect.Era, result mcp.Raw,
	conn transport.Conn, err error) {
	if u.base.Err() != nil {
		return nil, nil, nil, admit.ErrDraining
	}
	began := time.Now()
	var m wire.Message
	var asked error // why there is no answer
	defer func() { u.discovered(began, e, m, asked, err) }()
	if conn, err = u.transport.Dial(ctx, owner); err != nil {
		return nil, nil, nil, err
	}
	judge, silence := judgeHTTP, ctx
	if u.env.Process {
		var cancel context.CancelFunc
		silence, cancel = context.WithTimeoutCause(ctx, u.patience(), transport.ErrTimeout)
		defer cancel()
		judge = judgeStdio
	}
	m, asked = u.stateless.Exchange(silence, conn, wire.Stateless(), &mcp.Call{Method: mcp.MethodDiscover})
	if u.env.Process && ctx.Err() != nil {
		u.env.CloseConn(conn)
		return nil, nil, nil, context.Cause(ctx)
	}
	if e, err = judge(m, asked); e != nil {
		e.Silent = u.env.Process && errors.Is(asked, transport.ErrTimeout)
		if !e.Rev.Stateful {
			result = m.Result
		}
	}
	if !u.env.Process || dialect.Lost(conn) { // some servers end on an unexpected request
		u.env.CloseConn(conn)
		conn = nil
	}
	return e, result, conn, err
}

// discovered remembers how server/discover went: what was found, from an answer or an error of its
// own, or why nothing was found.
func (u *Upstream) discovered(began time.Time, e *dialect.Era, m wire.Message, asked, err error) {
	step := dialect.Step{At: began, Method: mcp.MethodDiscover, Revision: wire.Stateless().Name}
	status, refused := errors.AsType[*transport.StatusError](asked)
	switch {
	case err != nil:
	case !e.Rev.Stateful:
		step.Found = "it speaks " + e.Rev.Name
	case e.Silent:
		step.Found = "it kept silent, as servers of older revisions do"
	case refused:
		step.Found = fmt.Sprintf("HTTP %d, as of servers of older revisions", status.Status)
	case asked != nil:
		step.Found = "it ended, as some servers of older revisions do"
	case m.Error != nil:
		step.Found = fmt.Sprintf("error %d, as of servers of older revisions", wire.ReadError(m.Error).Code)
	default:
		step.Found = "it offers only older revisions"
	}
	u.step(step, err == nil && !e.Rev.Stateful, err)
}

// tried implements dialect.Env.Tried.
func (u *Upstream) tried(e *dialect.Era, agreed string, began time.Time, err error) {
	step := dialect.Step{At: began, Method: mcp.MethodInitialize, Revision: e.Rev.Name, SSE: e.SSE}
	last := err == nil
	if last {
		step.Found = "it speaks " + agreed
	} else if errors.Is(err, dialect.ErrWrongEra) && !e.SSE && u.sse != nil {
		step.Found, err = "refused: it may want HTTP+SSE", nil
	}
	u.step(step, last, err)
}

// step remembers a step that ends now, with what it found or why it failed. last says that the
// probe is over with it.
func (u *Upstream) step(s dialect.Step, last bool, err error) {
	s.Took = time.Since(s.At)
	if err != nil {
		told := u.failure(context.WithoutCancel(u.base), fmt.Errorf("%w: %w", dialect.ErrNotStarted, err))
		s.Error = told.Error()
		if e, ok := errors.AsType[*mcp.Error](told); ok {
			s.Failed, s.Error, s.Cause = e.Name, e.Message, e.Cause
		}
	}
	u.probe.trail.Add(s, last)
}

// patience returns how long silence on stdio means nothing yet. A program that has to be
// fetched first may take most of the time allowed.
func (u *Upstream) patience() time.Duration {
	u.probe.mu.Lock()
	defer u.probe.mu.Unlock()
	if u.probe.patient {
		return u.cfg.Timeout.Connect * 3 / 4
	}
	return min(probeSilence, u.cfg.Timeout.Connect/2)
}

// judgeHTTP concludes the era from the answer to server/discover over HTTP. An error says
// that nothing can be concluded. It relies on what the specification says servers of either
// era answer, and on what real servers were seen to answer (2026-07-28
// basic/transports/streamable-http#backward-compatibility).
func judgeHTTP(m wire.Message, err error) (*dialect.Era, error) {
	status, refused := errors.AsType[*transport.StatusError](err)
	if refused {
		m = status.Message
	}
	rev := modern(m)
	switch {
	case rev != nil:
	case err == nil, refused && refusesVerb(status.Status): // it offers only older revisions, or does not know the method
		rev = wire.NewestStateful()
	default: // credentials, overload, a broken server: these say nothing about the era
		return nil, err
	}
	return &dialect.Era{Rev: rev}, nil
}

// refusesVerb reports whether a status says that a server does not take requests of this
// HTTP method.
func refusesVerb(status int) bool {
	switch status {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotAcceptable,
		http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity, http.StatusConflict, http.StatusGone:
		return true
	}
	return false
}

// judgeStdio concludes the era from the answer to server/discover over stdio. Whatever is
// not clearly stateless is stateful, including silence and the end of the process
// (2026-07-28 basic/transports/stdio#backward-compatibility).
func judgeStdio(m wire.Message, err error) (*dialect.Era, error) {
	if errors.Is(err, transport.ErrNotSent) || errors.Is(err, dialect.ErrClosed) {
		return nil, err
	}
	return &dialect.Era{Rev: cmp.Or(modern(m), wire.NewestStateful())}, nil
}

// modern returns the stateless revision that an answer offers, or that has the code of its
// error; nil for none.
func modern(m wire.Message) *wire.Revision {
	if rev := dialect.Offered(m); rev != nil || m.Error == nil {
		return rev
	}
	switch wire.ReadError(m.Error).Code {
	case mcp.CodeHeaderMismatch, mcp.CodeMissingCapability:
		return wire.Stateless()
	}
	return nil
}
