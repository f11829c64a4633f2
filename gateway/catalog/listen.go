package catalog

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

const (
	// upstreamWait limits the time upstreams take to acknowledge subscriptions.
	upstreamWait = 5 * time.Second
	// turnWait bounds the wait of a listener for others that hear of a change, and may read lists of
	// servers that hang.
	turnWait = time.Second
)

// listen answers subscriptions/listen. Changes of lists come from the catalog's watches, changes of
// resources from one listen call to each upstream. It ends with ctx, or normally with the catalog.
func (c *Catalog) listen(ctx context.Context, call *mcp.Call) (*mcp.Reply, error) {
	var l *subscription
	var err error
	mcp.Aside(func() { l, err = c.beginListening(ctx, call) })
	if err != nil {
		return nil, err
	}
	defer l.end()
	return l.tellAll()
}

// turn waits until few other listeners hear of a change, because a change concerns all at the same
// time. The caller ends it.
func (c *Catalog) turn() (end func()) {
	end = func() { <-c.turns }
	select {
	case c.turns <- struct{}{}:
		return end
	default:
	}
	late := time.NewTimer(turnWait)
	defer late.Stop()
	select {
	case c.turns <- struct{}{}:
		return end
	case <-late.C:
		return func() {}
	}
}

// subscription is a call of subscriptions/listen.
type subscription struct {
	c        *Catalog
	call     *mcp.Call
	want     mcp.Lists // the lists to report changes of
	ctx      context.Context
	cancel   context.CancelFunc
	running  sync.WaitGroup
	listener *listener
	follower *taskFollower // nil for none
	calm     calm          // belongs to renew
	renewed  chan struct{} // renew has ended; nil before it has begun
}

func (l *subscription) end() {
	l.cancel()
	if l.follower != nil {
		l.c.taskFollowers.forget(l.call, l.follower)
	}
	l.c.hub.forget(l.listener)
	l.running.Wait()
}

// beginListening sends the acknowledgement to the client.
func (c *Catalog) beginListening(ctx context.Context, call *mcp.Call) (l *subscription, err error) {
	want, err := mcp.FilterOf(call.Params)
	if err != nil {
		return nil, err
	}
	if err := c.awaitLists(ctx, call); err != nil {
		return nil, err
	}
	lens, sees := c.lens(call), c.plan.visibleTo(call)
	l = &subscription{c: c, call: call, listener: c.hub.join(sees, call), follower: c.taskFollowers.join(call)}
	l.ctx, l.cancel = context.WithCancel(ctx)
	offered := lens.summaryFor(sees, c.plan.visible(call.VisibleSkills), nil, "").offers.kinds
	want.Lists &= (offered | c.offeredBefore(call.Visible)).lists()
	l.want = want.Lists
	open := make(chan struct{}) // closed when the acknowledgement has been sent
	upstreams := newUpstreamSubscriptions(l.ctx, c, call, sees, want, open)
	for _, u := range upstreams {
		ctx, cancel := context.WithCancel(l.ctx)
		u.cancel = cancel
		l.running.Go(func() {
			defer cancel()
			u.run(ctx)
		})
	}
	if c.users != nil {
		for _, own := range c.users.sources {
			if kinds := kindsIn(want.Lists) & lens.states[own.index].announces(); kinds != 0 && sees.has(own.index) {
				l.running.Go(func() { own.users.listen(l.ctx, call, own, kinds) })
			}
		}
	}
	awaitUpstreams(l.ctx, upstreams)
	if err := ctx.Err(); err != nil {
		l.end()
		return nil, err
	}
	defer c.turn()()
	call.Notify(acknowledgement(want, upstreams))
	close(open)
	return l, nil
}

// tellAll reports changes to the client.
func (l *subscription) tellAll() (*mcp.Reply, error) {
	own := l.listener.own.some()
	for {
		select {
		case <-l.ctx.Done():
			return nil, l.ctx.Err()
		case <-l.c.done:
			l.tell(l.listener.now()) // the changes still being gathered
			return &mcp.Reply{Result: mcp.Raw(`{}`)}, nil
		case <-l.follower.some():
			for _, i := range l.follower.take() {
				l.running.Go(func() { l.follow(l.c.sources[i]) })
			}
		case <-own:
			own = nil
			if l.renewed == nil {
				l.renewed = make(chan struct{}, 1)
			}
			l.running.Go(l.renew)
		case <-l.renewed:
			own = l.listener.own.some()
		case <-l.listener.some():
			l.tell(l.listener.take(l.ctx))
		}
	}
}

// renew fetches the lists of the client's own sessions at upstreams that have told of changes.
// What looks different then is announced; if nothing does, the next time comes after a pause.
func (l *subscription) renew() {
	defer func() { l.renewed <- struct{}{} }()
	echo := l.calm.echoes()
	kinds, table := l.listener.own.take(l.ctx), l.c.sessions.table
	if kinds == 0 {
		return
	}
	before := table.shown(l.call.Session)
	for l.c.sessions.renew(l.ctx, l.call, kinds, false) && l.ctx.Err() == nil {
		waitFor(l.ctx, retrySession)
	}
	l.calm.saw(echo && table.shown(l.call.Session).differsAs(before))
	waitFor(l.ctx, time.Until(l.calm.until))
}

func (l *subscription) tell(kinds kindSet) {
	if events := (kinds.lists() & l.want).Events(); len(events) > 0 {
		defer l.c.turn()()
		mcp.Aside(func() {
			for _, event := range events {
				l.call.Notify(event)
			}
		})
	}
}

// follow passes an upstream's news of the session's tasks to the client.
func (l *subscription) follow(s *source) {
	ctx, call := l.ctx, l.call
	inner := call.Clone()
	inner.Params = mcp.Filter{}.In(nil)
	inner.Notify = func(e mcp.Event) {
		switch e.Method {
		case mcp.NoteTask:
			if public, ok := l.follower.public(followed{s.index, mcp.TaskID(e.Params)}); ok {
				call.Notify(mcp.Event{Method: e.Method, Params: s.naming.task(e.Params, public)})
			}
		case mcp.NoteAcknowledged:
		default:
			s.told(call.Caller, changedBy(e.Method))
		}
	}
	repeat(ctx, func() bool {
		_, err := s.upstream.Handle(ctx, inner)
		if ctx.Err() == nil {
			l.c.log.LogAttrs(ctx, slog.LevelInfo, "not told of tasks, listening again",
				slog.String("upstream", s.naming.upstream), slog.Any("cause", err))
		}
		return true
	})
}

// acknowledgement says which parts of the filter are honoured, in the client's order.
func acknowledgement(want mcp.Filter, upstreams []*upstreamSubscription) mcp.Event {
	uris, tasks, failed := make(map[string]bool), make(map[string]bool), make(map[string]error)
	for _, u := range upstreams {
		u.honoured(uris, tasks, failed)
	}
	want.URIs = slices.DeleteFunc(want.URIs, func(uri string) bool { return !uris[uri] })
	want.Tasks = slices.DeleteFunc(want.Tasks, func(id string) bool { return !tasks[id] })
	return mcp.Event{Method: mcp.NoteAcknowledged, Params: want.In(nil), Failed: failed}
}

// HearSession takes news of the lists of a client's own session at an upstream.
func (c *Catalog) HearSession(upstream string, news mcp.SessionLists) {
	c.sessions.hear(upstream, news)
}

// HearMessage takes a log message of an upstream in a client's own session, outside of calls.
func (c *Catalog) HearMessage(upstream, session string, e mcp.Event) {
	at := c.sessions.sourceOf(upstream)
	if at < 0 {
		return
	}
	if e, fits := c.sources[at].naming.event(e); fits {
		e.Upstream = upstream
		c.hub.say(at, session, e)
	}
}

// Arrived records that a client's session has come to this process; another one may have owned it.
func (c *Catalog) Arrived(session string) { c.sessions.arrived(session) }

// offeredBefore returns the kinds that the upstreams which a caller may know of offered in
// the previous catalog.
func (c *Catalog) offeredBefore(visible func(upstream string) bool) (all kindSet) {
	for name, kinds := range c.before {
		if visible == nil || visible(name) {
			all |= kinds
		}
	}
	return all
}

// SignedIn records that a user has signed in or out at an upstream. Its lists are fetched again
// when the user calls, and listening clients of the user hear that they should look.
func (c *Catalog) SignedIn(upstream string, caller *mcp.Caller) {
	if c.users == nil {
		return
	}
	for _, s := range c.users.sources {
		if s.naming.upstream == upstream {
			c.users.told(s, *caller, everyKind)
		}
	}
}
