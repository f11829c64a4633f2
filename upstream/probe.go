package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/upstream/admit"
	"github.com/gatehouse-mcp/gatehouse/upstream/dialect"
	"github.com/gatehouse-mcp/gatehouse/upstream/stateless"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport/sse"
)

// probeSilence is how long a stdio server may keep silent to server/discover before
// it counts as one that does not know it. Servers that keep silent to what they do not
// know are few, and programs that take their time to start are many.
const probeSilence = 15 * time.Second

// era is what the probe found: rev is the revision to speak to a stateless server, or
// to offer to a stateful one.
type era struct {
	rev *wire.Revision
	// sse says that the server speaks HTTP+SSE although nobody said so.
	sse bool
	// discover is the result of server/discover that told so, nil for none. It is used
	// for the first answer only.
	discover mcp.Raw
	// silent says that nothing told so: the server had not answered in time.
	silent bool
}

// probe finds out which era a server speaks, once, and remembers it until it proves
// wrong. Only clear answers are remembered.
type probe struct {
	mu      sync.Mutex // guards the fields below, and era.discover
	known   *era
	patient bool // silence was taken wrongly for an answer: the next probe waits longer
	running *probing
	spare   transport.Conn // of a stdio server: the process that was probed, for the first session
}

// probing is one probe that several callers wait for.
type probing struct {
	done  chan struct{}
	owner transport.Identity // whose credential is used
	user  string             // the owner's key
	era   *era
	err   error
}

// inEra runs f with the era of the server; once more with a new one, if the era that
// was remembered proves wrong.
func (u *Upstream) inEra(ctx context.Context, c *mcp.Call, f func(*era) error) error {
	for again := false; ; again = true {
		e, err := u.era(ctx, &c.Caller)
		if err != nil {
			return err
		}
		if err = f(e); !errors.Is(err, dialect.ErrWrongEra) || u.pinned() != nil && !e.sse {
			return err
		}
		u.forgetEra(e)
		if again {
			return err
		}
	}
}

// era returns what is known, or asks the server: where each user has a credential, with
// that of the caller.
func (u *Upstream) era(ctx context.Context, caller *mcp.Caller) (*era, error) {
	for {
		known, run := u.joinProbe(caller)
		if known != nil {
			return known, nil
		}
		select {
		case <-run.done:
			if run.user != u.userOf(caller) && aboutCredentials(run.err) {
				continue // another user's, which says nothing about this one
			}
			return run.era, run.err
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// joinProbe returns what is known, or else the probe that finds out.
func (u *Upstream) joinProbe(caller *mcp.Caller) (*era, *probing) {
	p := &u.probe
	p.mu.Lock()
	if rev := u.pinned(); p.known == nil && rev != nil {
		p.known = &era{rev: rev}
	}
	if p.known != nil {
		defer p.mu.Unlock()
		return p.known, nil
	}
	run, first := p.running, false
	if run == nil {
		run, first = &probing{done: make(chan struct{}), user: u.userOf(caller)}, true
		if run.user != "" {
			run.owner.Meet(caller)
		}
		p.running = run
	}
	p.mu.Unlock()
	if first {
		u.spawn(func() { u.runProbe(run) })
	}
	return nil, run
}

// pinned returns the revision to speak or to offer to a server that need not be probed,
// nil for none: HTTP+SSE has sessions, always.
func (u *Upstream) pinned() *wire.Revision {
	switch {
	case u.cfg.Revision != "":
		return wire.Lookup(u.cfg.Revision)
	case u.cfg.Transport == transportSSE:
		return wire.NewestStateful()
	}
	return nil
}

// runProbe runs apart from the callers, who may leave.
func (u *Upstream) runProbe(run *probing) {
	ctx, cancel := context.WithTimeoutCause(u.base, u.cfg.Timeout.Connect, transport.ErrTimeout)
	defer cancel()
	var spare transport.Conn
	run.era, spare, run.err = u.ask(ctx, &run.owner)
	if run.err != nil {
		run.err = fmt.Errorf("%w: %w", dialect.ErrNotStarted, run.err)
	}
	if run.err != nil && ctx.Err() != nil {
		run.err = fmt.Errorf("%w: %w: %w", transport.ErrNotSent, context.Cause(ctx), run.err)
	}
	if run.era != nil && u.perUser() {
		run.era.discover = nil // the next to want it may be another user
	}
	p := &u.probe
	p.mu.Lock()
	p.running = nil
	if run.err == nil {
		p.known = run.era
	}
	if run.err == nil && u.base.Err() == nil { // else Close has looked for it already
		p.spare, spare = spare, p.spare
	}
	p.mu.Unlock()
	if spare != nil {
		closeConn(spare)
	}
	close(run.done)
	if run.err == nil {
		u.log.Info("upstream probed", "stateful", run.era.rev.Stateful, "silent", run.era.silent)
	}
}

// forgetEra lets the next call probe again, unless somebody else had it done.
func (u *Upstream) forgetEra(e *era) {
	u.probe.mu.Lock()
	known := u.probe.known == e
	if known {
		u.probe.known, u.probe.patient = nil, e.silent
	}
	u.probe.mu.Unlock()
	if !known {
		return
	}
	u.log.Info("upstream is probed again")
	if spare := u.takeSpare(); spare != nil {
		u.spawn(func() { closeConn(spare) })
	}
	u.pool.Reset()
}

// learnEra replaces what is known by what the server said in an answer.
func (u *Upstream) learnEra(old, new *era) {
	u.probe.mu.Lock()
	defer u.probe.mu.Unlock()
	if u.probe.known == old {
		u.probe.known = new
	}
}

// mayBeSSE reports whether a server that does not initialize by POST may speak HTTP+SSE
// (2025-11-25 basic/transports#backwards-compatibility).
func (u *Upstream) mayBeSSE(e *era) bool { return u.sse != nil && e.rev.Stateful && !e.sse }

// speaksSSE reports whether a server was found to do so.
func (u *Upstream) speaksSSE() bool {
	u.probe.mu.Lock()
	defer u.probe.mu.Unlock()
	return u.probe.known != nil && u.probe.known.sse
}

// dial connects in the way of the era. A server that has no event stream (any more),
// where it is only thought to have one, is of another era.
func (u *Upstream) dial(ctx context.Context, owner *transport.Identity, e *era) (transport.Conn, error) {
	if !e.sse {
		return u.transport.Dial(ctx, owner)
	}
	conn, err := u.sse.Dial(ctx, owner)
	if err == nil {
		return conn, nil
	}
	status, refused := errors.AsType[*transport.StatusError](err)
	if refused && refusesVerb(status.Status) || errors.Is(err, sse.ErrNoStream) {
		return nil, dialect.ErrWrongEra
	}
	return nil, err
}

// takeSpare returns the process that was probed, once.
func (u *Upstream) takeSpare() transport.Conn {
	u.probe.mu.Lock()
	defer u.probe.mu.Unlock()
	conn := u.probe.spare
	u.probe.spare = nil
	return conn
}

// ask sends server/discover and judges the answer.
func (u *Upstream) ask(ctx context.Context, owner *transport.Identity) (*era, transport.Conn, error) {
	if u.base.Err() != nil {
		return nil, nil, admit.ErrDraining
	}
	conn, err := u.transport.Dial(ctx, owner)
	if err != nil {
		return nil, nil, err
	}
	stdio := u.cfg.Transport == transportStdio
	silence := ctx
	if stdio {
		var cancel context.CancelFunc
		silence, cancel = context.WithTimeoutCause(ctx, u.patience(), transport.ErrTimeout)
		defer cancel()
	}
	m, err := u.stateless.Exchange(silence, conn, wire.Stateless(), mcp.MethodDiscover, nil)
	if stdio {
		if ctx.Err() != nil {
			closeConn(conn)
			return nil, nil, context.Cause(ctx)
		}
		silent := errors.Is(err, transport.ErrTimeout)
		e, err := judgeStdio(m, err)
		if e != nil {
			e.silent = silent
		}
		if lost(conn) { // some servers end on a request that they do not expect
			closeConn(conn)
			conn = nil
		}
		return e, conn, err
	}
	e, err := judgeHTTP(m, err)
	closeConn(conn)
	return e, nil, err
}

// patience is how long silence on stdio means nothing yet. Programs that are fetched
// before they start may take most of the time there is.
func (u *Upstream) patience() time.Duration {
	u.probe.mu.Lock()
	defer u.probe.mu.Unlock()
	if u.probe.patient {
		return u.cfg.Timeout.Connect * 3 / 4
	}
	return min(probeSilence, u.cfg.Timeout.Connect/2)
}

func lost(conn transport.Conn) bool {
	select {
	case <-conn.Lost():
		return true
	default:
		return false
	}
}

// piped reports whether a connection is one pipe for all that a server says, which can
// be lost as a whole.
func piped(conn transport.Conn) bool { return conn.Lost() != nil }

// closeConn closes a connection that nobody uses.
func closeConn(conn transport.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), dialect.Goodbye)
	defer cancel()
	_ = conn.Close(ctx) // there is nobody to tell, and nothing to be done about it
}

// judgeHTTP concludes from the answer to server/discover over HTTP. An error says that
// nothing can be concluded. It keys on what the specification says servers of either
// era answer, and on what they were seen to answer (PROTOCOL of both eras:
// 2026-07-28 basic/transports/streamable-http#backward-compatibility).
func judgeHTTP(m wire.Message, err error) (*era, error) {
	status, refused := errors.AsType[*transport.StatusError](err)
	if refused {
		m = status.Message
	}
	if e := offered(m); e != nil {
		return e, nil
	}
	switch {
	case refused:
		if modernRefusal(m) {
			return &era{rev: wire.Stateless()}, nil
		}
		if refusesVerb(status.Status) {
			return &era{rev: wire.NewestStateful()}, nil
		}
		// Credentials, overload, a broken server: these say nothing about the era.
		return nil, err
	case err != nil:
		return nil, err
	case modernRefusal(m):
		return &era{rev: wire.Stateless()}, nil
	}
	// A result that offers only stateful revisions, or an error of a server that does
	// not know the method.
	return &era{rev: wire.NewestStateful()}, nil
}

// refusesVerb reports whether a status says that a server does not take such requests.
func refusesVerb(status int) bool {
	switch status {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotAcceptable,
		http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity, http.StatusConflict, http.StatusGone:
		return true
	}
	return false
}

// judgeStdio concludes from the answer to server/discover over stdio: whatever is not
// clearly stateless is stateful, silence and the end of the process too (2026-07-28
// basic/transports/stdio#backward-compatibility).
func judgeStdio(m wire.Message, err error) (*era, error) {
	if errors.Is(err, transport.ErrNotSent) || errors.Is(err, dialect.ErrClosed) {
		return nil, err
	}
	if err == nil {
		if e := offered(m); e != nil {
			return e, nil
		}
		if modernRefusal(m) {
			return &era{rev: wire.Stateless()}, nil
		}
	}
	return &era{rev: wire.NewestStateful()}, nil
}

// offered returns the stateless era when the message offers a stateless revision that
// we speak: as the result of server/discover, or in the data of an error.
func offered(m wire.Message) *era {
	var versions mcp.Raw
	if m.Result != nil {
		versions, _ = m.Result.Member("supportedVersions")
	} else {
		data, _ := m.Error.Member("data")
		versions, _ = data.Member("supported")
	}
	rev := stateless.Newest(versions)
	if rev == nil {
		return nil
	}
	return &era{rev: rev, discover: m.Result}
}

// modernRefusal reports whether an error has a code that only stateless servers use.
func modernRefusal(m wire.Message) bool {
	if m.Error == nil {
		return false
	}
	switch wire.ReadError(m.Error).Code {
	case mcp.CodeHeaderMismatch, mcp.CodeMissingCapability:
		return true
	}
	return false
}
