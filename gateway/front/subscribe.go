package front

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/refuse"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// A listener that was lost tries again after firstRetry, then twice that, and so on.
const (
	firstRetry = time.Second
	lastRetry  = 30 * time.Second
)

// listener is the subscriptions/listen call that is made on a session's behalf. Of
// each session there is one, but for the moment in which another takes its place.
type listener struct {
	cancel context.CancelFunc
	acked  chan struct{} // closed with the first acknowledgement
	failed chan struct{} // closed when a try ends before any acknowledgement
	ended  chan struct{} // closed when it listens no more

	mu     sync.Mutex       // guards the fields below
	agreed mcp.Filter       // what the upstreams have agreed to
	why    map[string]error // why to other resources they have not
	err    error            // why the first try failed
}

// lockSubscriptions makes the caller the one who may change the listener.
func (l *live) lockSubscriptions(ctx context.Context) error {
	select {
	case l.subscribing <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *live) unlockSubscriptions() { <-l.subscribing }

// listen starts to listen on behalf of a caller unless somebody does already.
func (l *live) listen(ctx context.Context, r session.Record, caller mcp.Caller) {
	if l.lockSubscriptions(ctx) != nil {
		return
	}
	defer l.unlockSubscriptions()
	l.mu.Lock()
	already := l.heard != nil && !closed(l.heard.ended)
	l.deaf = l.deaf || l.heard != nil && !already
	l.mu.Unlock()
	if !already {
		l.replace(l.startListener(ctx, r, caller, r.Subscriptions))
	}
}

// listenIfOpen starts to listen if there is a stream that waits for events.
func (l *live) listenIfOpen(ctx context.Context, r session.Record, caller mcp.Caller) {
	l.mu.Lock()
	open := len(l.streams) > 0
	l.mu.Unlock()
	if open {
		l.listen(ctx, r, caller)
	}
}

// relisten listens with another set of resources. It waits until that is confirmed,
// and only then ends the listener before it, so that nothing is missed. A resource
// that must be among the confirmed ones is named by must; without it, everything
// stays as it was.
func (l *live) relisten(ctx context.Context, r session.Record, caller mcp.Caller, uris []string, must string) error {
	next := l.startListener(ctx, r, caller, uris)
	if next == nil {
		return refuse.ClosingError(mcp.ExecutedNo)
	}
	err := next.confirmed(ctx, l.f.ackTime)
	if err == nil && must != "" && !next.has(must) {
		err = next.whyNot(must)
	}
	if err != nil && must != "" {
		next.cancel()
		return err
	}
	l.replace(next)
	return nil
}

// replace makes next the session's listener.
func (l *live) replace(next *listener) {
	if next == nil {
		return
	}
	l.mu.Lock()
	old := l.heard
	l.heard = next
	ended := l.ended
	l.mu.Unlock()
	if old != nil {
		old.cancel()
	}
	if ended || closed(l.f.drain) { // too late for EndSession or Close to see it
		next.cancel()
	}
}

func (l *live) stopListening() {
	l.mu.Lock()
	old := l.heard
	l.mu.Unlock()
	if old != nil {
		old.cancel()
	}
}

// honours reports whether the listener of now has a resource.
func (l *live) honours(uri string) bool {
	l.mu.Lock()
	now := l.heard
	l.mu.Unlock()
	return now != nil && !closed(now.ended) && now.has(uri)
}

// startListener starts one; nil when the front is closing. Its goroutine ends with
// cancel: of EndSession, Close or the listener that takes its place.
func (l *live) startListener(ctx context.Context, r session.Record, caller mcp.Caller, uris []string) *listener {
	if !l.f.begin() {
		return nil
	}
	// It outlives the request that wanted it, until cancel.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	n := &listener{cancel: cancel, acked: make(chan struct{}), failed: make(chan struct{}), ended: make(chan struct{})}
	call := &mcp.Call{
		ID:      l.f.callID(),
		Method:  mcp.MethodListen,
		Params:  mcp.Filter{Lists: mcp.AllLists, URIs: uris}.In(nil),
		Caller:  caller,
		Session: l.key,
		Caps:    r.Caps,
		Tasks:   tasksOf(r.Revision),
	}
	call.Notify = func(e mcp.Event) {
		if e.Method == mcp.NoteAcknowledged {
			if honoured, _ := mcp.FilterOf(e.Params); n.ack(honoured, e.Failed) || l.wasDeaf() {
				l.tellAll(honoured)
			} else {
				l.tellChangedLists(ctx, call)
			}
			return
		}
		l.event(e)
	}
	go func() {
		defer l.f.done()
		defer cancel()
		n.run(ctx, l, call)
	}()
	return n
}

// run listens until ctx ends, and again whenever that is lost. When the proof of the
// caller expires, it goes on as the session's user by a newer one, if there is any.
func (n *listener) run(ctx context.Context, l *live, call *mcp.Call) {
	defer close(n.ended)
	for wait := firstRetry; ; wait = min(2*wait, lastRetry) {
		if call = l.renewed(call); call == nil {
			return
		}
		start := time.Now()
		err := l.listenOnce(ctx, call)
		n.lost(err)
		if ctx.Err() != nil || closed(l.gone) || errors.Is(err, &mcp.Error{Code: mcp.CodeMethodNotFound}) {
			return // there is nothing to listen to
		}
		if past(call.Caller.Expires) {
			continue
		}
		if time.Since(start) > lastRetry {
			wait = firstRetry
		}
		select {
		case <-time.After(wait):
		case <-l.gone:
			return
		case <-ctx.Done():
			return
		}
	}
}

// listenOnce listens as long as the caller's proof is good.
func (l *live) listenOnce(ctx context.Context, call *mcp.Call) error {
	ctx, end := onBehalf(ctx, call)
	defer end()
	return l.f.handleSafely(ctx, call)
}

// onBehalf is apart from listenOnce, as renewed is from run, for the stack of a listener is
// kept for as long as it listens, and there are many.
//
//go:noinline
func onBehalf(ctx context.Context, call *mcp.Call) (context.Context, context.CancelFunc) {
	return whileGood(mcp.WithCaller(ctx, call.Caller), call.Caller)
}

// renewed is the call with a proof of the caller that is good; nil where there is none.
//
//go:noinline
func (l *live) renewed(call *mcp.Call) *mcp.Call {
	if !expired(call.Caller) {
		return call
	}
	call = call.Clone()
	if call.Caller = l.newest(); expired(call.Caller) {
		return nil
	}
	return call
}

// newest returns what the newest token says of the session's user. There is one: what
// wants it was begun by a request. When that is too old, whatever comes until there is a
// newer one is missed.
func (l *live) newest() mcp.Caller {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deaf = expired(*l.caller)
	return *l.caller
}

// wasDeaf reports, once, whether something may have been missed.
func (l *live) wasDeaf() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	was := l.deaf
	l.deaf = false
	return was
}

// tellAll counts everything that is listened to as changed, after a time in which
// nobody listened.
func (l *live) tellAll(honoured mcp.Filter) {
	for _, e := range honoured.Missed() {
		l.event(e)
	}
}

// lost tells whoever waits for an acknowledgement that this try brought none.
func (n *listener) lost(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if closed(n.acked) || closed(n.failed) {
		return
	}
	n.err = err
	close(n.failed)
}

// closed reports whether a channel that only ever closes is closed.
func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// handleSafely makes a call of our own: a panic in it ends that call only.
func (f *Front) handleSafely(ctx context.Context, c *mcp.Call) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			f.recovered(cause, c.ID)
			err = errNoReply
		}
	}()
	_, err = f.handler.Handle(ctx, c)
	return err
}

// ack takes what the upstreams have agreed to, and reports whether they had before.
func (n *listener) ack(honoured mcp.Filter, failed map[string]error) (again bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.agreed, n.why = honoured, failed
	if closed(n.acked) {
		return true
	}
	close(n.acked)
	return false
}

func (n *listener) has(uri string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Contains(n.agreed.URIs, uri)
}

// whyNot is the error for a resource that is not among those agreed to. Where its server
// has refused it, none of that names the resource as the client knows it.
func (n *listener) whyNot(uri string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	e, ok := errors.AsType[*mcp.Error](n.why[uri])
	if ok && e.Code != mcp.CodeResourceNotFound && e.Code != mcp.CodeInvalidParams && e.Code != mcp.CodeMethodNotFound {
		return e
	}
	return &mcp.Error{Code: mcp.CodeInvalidParams, Data: mcp.Object("uri", mcp.String(uri)),
		Message: "Resource not found, or its server offers no subscriptions to it"}
}

// confirmed waits for the first acknowledgement.
func (n *listener) confirmed(ctx context.Context, limit time.Duration) error {
	timeout := time.NewTimer(limit)
	defer timeout.Stop()
	select {
	case <-n.acked:
		return nil
	case <-n.failed:
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.err != nil {
			return n.err
		}
		return mcp.Errorf(mcp.CodeInternal, "subscriptions are not possible now")
	case <-timeout.C:
		return &mcp.Error{Code: mcp.CodeUpstreamTimeout, Message: "the subscription was not confirmed in time: try again",
			Data: refuse.Data(true, mcp.ExecutedUnknown)}
	case <-ctx.Done():
		return ctx.Err()
	}
}
