package live

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/refuse"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/session"
)

const (
	// firstRetry is the wait before a lost listener tries again. Each further one is twice as long.
	firstRetry = time.Second
	lastRetry  = 30 * time.Second
	// ackTime limits the time the upstreams take to confirm a subscription.
	ackTime = 15 * time.Second
)

// errUnconfirmed means that a subscription ended without an error or an acknowledgement.
var errUnconfirmed error = mcp.Errorf(failure.Unsubscribed, "subscriptions are not possible now")

// listener makes the subscriptions/listen call on behalf of a session. A session has one, and for a
// moment a second one that replaces it.
type listener struct {
	session *Session
	cancel  context.CancelFunc
	ended   atomic.Bool // it does not listen any more
	tried   chan error  // gets nil with the first acknowledgement, or why the first try brought none

	mu     sync.Mutex       // guards the fields below
	acked  bool             // there was an acknowledgement
	agreed mcp.Filter       // what the upstreams have agreed to
	why    map[string]error // why they have not agreed to other resources
}

// startListener starts a listener. It returns nil if the endpoint is closing. Its goroutine
// ends with cancel, which the end of the session, StopListening or the next listener calls.
func (s *Session) startListener(ctx context.Context, caller mcp.Caller, uris []string) *listener {
	if !s.deps.Running.Begin() {
		return nil
	}
	// It outlives the request that started it, until cancel.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	n := &listener{session: s, cancel: cancel, tried: make(chan error, 1)}
	r := session.Of(s.home)
	tasks := mcp.NoTasks // the form that the client knows
	if rev := wire.Lookup(r.Revision); rev != nil && rev.CoreTasks {
		tasks = mcp.CoreTasks
	}
	call := &mcp.Call{
		ID:      s.deps.NewID(),
		Method:  mcp.MethodListen,
		Params:  mcp.Filter{Lists: mcp.AllLists, URIs: uris}.In(nil),
		Caller:  caller,
		Session: s.home.String(),
		Caps:    r.Caps,
		Tasks:   tasks,
	}
	call.Notify = func(e mcp.Event) {
		if e.Method != mcp.NoteMessage || s.wants(e.Params) {
			n.hear(ctx, call, e)
		}
	}
	go func() {
		defer s.deps.Running.Done()
		defer cancel()
		n.run(ctx, call)
	}()
	return n
}

// wants reports whether a log message is severe enough for the session's client.
func (s *Session) wants(message mcp.Raw) bool {
	level := session.Of(s.home).LogLevel
	return level == "" || wire.LogLevelAtLeast(message.At("level").Text(), level)
}

// hear takes an event of the call. After an interruption, everything that is listened to counts as
// changed.
func (n *listener) hear(ctx context.Context, call *mcp.Call, e mcp.Event) {
	if e.Method != mcp.NoteAcknowledged {
		n.session.event(e)
		return
	}
	honoured, _ := mcp.FilterOf(e.Params)
	n.mu.Lock()
	again := n.acked
	n.acked, n.agreed, n.why = true, honoured, e.Failed
	n.settle(nil)
	n.mu.Unlock()
	if again || n.session.missed() {
		for _, e := range honoured.Missed() {
			n.session.event(e)
		}
	} else {
		n.session.tellChangedLists(ctx, call)
	}
}

// run listens until ctx ends, and again whenever the call is lost. When the caller's proof
// expires or is withdrawn, it continues with a newer proof of the session's user, if there is one.
func (n *listener) run(ctx context.Context, call *mcp.Call) {
	defer n.ended.Store(true)
	over := false
	for wait := firstRetry; ; wait = min(2*wait, lastRetry) {
		if call = n.session.renewed(call, over); call == nil {
			return
		}
		start := time.Now()
		var err error
		err, over = n.session.listenOnce(ctx, call)
		n.settle(cmp.Or(err, errUnconfirmed))
		if ctx.Err() != nil || n.session.home.IsOver() || mcp.HasCode(err, mcp.CodeMethodNotFound) {
			return // there is nothing to listen to
		}
		if over {
			continue
		}
		if time.Since(start) > lastRetry {
			wait = firstRetry
		}
		select {
		case <-time.After(wait):
		case <-n.session.home.Over():
			return
		case <-ctx.Done():
			return
		}
	}
}

// listenOnce listens until the caller's proof is over.
func (s *Session) listenOnce(ctx context.Context, call *mcp.Call) (err error, over bool) {
	ctx, end := s.onBehalf(ctx, call)
	defer end()
	_, err = s.deps.Handler.Handle(ctx, call)
	return err, context.Cause(ctx) == mcp.ErrOver
}

// onBehalf is apart from listenOnce, as renewed is from run, to keep the stacks of the many
// listeners small.
//
//go:noinline
func (s *Session) onBehalf(ctx context.Context, call *mcp.Call) (context.Context, context.CancelFunc) {
	return s.deps.Lasting.While(mcp.WithCaller(ctx, call.Caller), &call.Caller)
}

// renewed returns the call with a valid proof of the caller: that of the newest token. There is
// one, since a request started the listener. It returns nil if even that proof is over; events
// before a newer one are missed.
//
//go:noinline
func (s *Session) renewed(call *mcp.Call, over bool) *mcp.Call {
	if !over && !Expired(call.Caller) {
		return call
	}
	next := call.Clone()
	s.mu.Lock()
	defer s.mu.Unlock()
	next.Caller = *s.caller
	newer := !next.Caller.Expires.Equal(call.Caller.Expires)
	if s.missedSome = Expired(next.Caller) || over && !newer; s.missedSome {
		return nil
	}
	return next
}

// missed reports, once, whether something may have been missed.
func (s *Session) missed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.missedSome
	s.missedSome = false
	return was
}

// settle passes the first outcome to confirmed.
func (n *listener) settle(outcome error) {
	select {
	case n.tried <- outcome:
	default:
	}
}

// whyNot returns the error for a resource that no upstream has agreed to. If its server has refused
// it, the error does not name the resource as the client knows it.
func (n *listener) whyNot(uri string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if slices.Contains(n.agreed.URIs, uri) {
		return nil
	}
	e, ok := errors.AsType[*mcp.Error](n.why[uri])
	if ok && e.Code != mcp.CodeResourceNotFound && e.Code != mcp.CodeInvalidParams && e.Code != mcp.CodeMethodNotFound {
		return e
	}
	return mcp.Errorf(failure.NotFound, "Resource not found, or its server offers no subscriptions to it").
		WithData(mcp.Object("uri", mcp.String(uri)))
}

// confirmed waits for the first acknowledgement. It may be called only once.
func (n *listener) confirmed(ctx context.Context) error {
	select {
	case err := <-n.tried:
		return err
	case <-time.After(ackTime):
		return mcp.Errorf(failure.UpstreamTimeout, "the subscription was not confirmed in time: try again").
			WithData(refuse.Data(true, mcp.ExecutedUnknown))
	case <-ctx.Done():
		return ctx.Err()
	}
}
