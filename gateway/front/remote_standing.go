package front

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// The events of a session go to its newest GET stream, whichever replica has that: its
// record says which (session.Record.Standing). That replica listens for the session. When
// another one takes over it hears of it from that, stops listening, and hands on what it
// has no stream for. What both have heard in between is told once; what one of them hears
// much later than the other is told twice rather than never.

// handedOnWait is how long an event that another replica has heard waits for this one to
// hear it, too.
const handedOnWait = 250 * time.Millisecond

// claimStream makes this replica the one with the session's stream for as long as that is
// open. given is the stream that the client has given up for it.
func (l *live) claimStream(ctx context.Context, given string) (unclaim func()) {
	if l.f.mail == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var claiming sync.WaitGroup
	interrupted := false
	claiming.Go(func() {
		defer func() { interrupted = ctx.Err() != nil }()
		for !l.stands(ctx, given) { // the others would not know, and listen in its place
			select {
			case <-later():
			case <-ctx.Done():
				return
			}
		}
	})
	return func() {
		cancel()
		claiming.Wait()
		l.leaves(context.WithoutCancel(ctx))
		if interrupted { // there may be an older stream
			l.f.apart(func(ctx context.Context) { l.standOn(ctx, letter{}) })
		}
	}
}

// stands says that this replica has the session's stream. It listens: what did may have
// been left to another replica just before (yield). It is false when nobody can be told.
func (l *live) stands(ctx context.Context, given string) bool {
	self, stood, before := l.f.self(), "", ""
	r, err := l.f.sessions.Update(ctx, l.user, l.id, func(r *session.Record) {
		stood, before = r.Standing, cmp.Or(r.Standing, r.Listening)
		r.Standing, r.Listening = self, ""
	})
	if err != nil {
		unknown := errors.Is(err, session.ErrUnavailable)
		if r, err = l.f.sessions.Get(ctx, l.user, l.id); err == nil {
			l.listenAgain(ctx, r)
		}
		return !unknown
	}
	if l.lockSubscriptions(ctx) != nil { // who has read the record before may cede
		return true
	}
	l.mu.Lock()
	l.uncede()
	l.mu.Unlock()
	l.unlockSubscriptions()
	if stood != "" && stood != self {
		l.claimFrom(ctx, stood)
	}
	l.listenAgain(ctx, r)
	l.takeOver(ctx, given, before)
	return true
}

// listenAgain starts to listen, if the client may be told something, unless somebody does
// already.
func (l *live) listenAgain(ctx context.Context, r session.Record) {
	l.mu.Lock()
	caller := l.caller
	l.mu.Unlock()
	if r.Initialized && caller != nil {
		l.listen(ctx, r, *caller)
	}
}

// leaves says that this replica has no stream of the session any more, unless it does.
func (l *live) leaves(ctx context.Context) {
	l.mu.Lock()
	left := len(l.streams) == 0 && !l.ended
	l.mu.Unlock()
	if !left {
		return
	}
	self, was := l.f.self(), false
	_, err := l.f.sessions.Update(ctx, l.user, l.id, func(r *session.Record) {
		if was = r.Standing == self; was {
			r.Standing, r.Listening = "", self
		}
	})
	if err == nil && was {
		l.f.tell(ctx, everyone, letter{Kind: mailLeft, Session: l.key})
	}
}

// now returns the session's record as it is, not as it was known here.
func (l *live) now(ctx context.Context) (session.Record, error) {
	if l.f.mail == nil {
		return l.f.sessions.Get(ctx, l.user, l.id)
	}
	return l.f.sessions.Update(ctx, l.user, l.id, func(*session.Record) {})
}

// subscribed tells the replica with the session's stream that there is something else to
// listen to, or, where there is none, that this one listens in the place of before.
func (l *live) subscribed(ctx context.Context, r session.Record, before string) {
	switch {
	case l.f.mail == nil || r.Standing == l.f.self():
	case r.Standing != "":
		l.f.bringAside(r.Standing, letter{Kind: mailSubscribed, Session: l.key}) // until then this one listens to that
	default:
		l.takeOver(ctx, "", before)
	}
}

// listensIn notes that this replica listens for a session of which nobody has the stream,
// and returns who did so far.
func (l *live) listensIn(r *session.Record) (before string) {
	if r.Standing == "" {
		before, r.Listening = r.Listening, l.f.self()
	}
	return before
}

// standOn has this replica listen as the session wants it now, if it has a stream of it.
func (l *live) standOn(ctx context.Context, m letter) {
	l.mu.Lock()
	open, caller := len(l.streams) > 0, l.caller
	l.mu.Unlock()
	if !open || caller == nil {
		return
	}
	if m.Kind != mailSubscribed {
		r, err := l.now(ctx)
		if err == nil && r.Initialized && (r.Standing == l.f.self() || m.Kind == mailLeft && r.Standing == "") {
			l.stands(ctx, "")
		}
		return
	}
	if l.lockSubscriptions(ctx) != nil {
		return
	}
	r, err := l.now(ctx) // under the lock: of two such letters the last has to listen to all
	listens := err == nil && r.Initialized && r.Standing == l.f.self() &&
		(l.listensTo(r.Subscriptions) || l.relisten(ctx, r, *caller, r.Subscriptions, "") == nil)
	l.unlockSubscriptions()
	if listens {
		l.takeOver(ctx, "", "")
		l.f.take(m)
	}
}

// yield leaves the session's events to the replica that listens now, unless it is this
// one that should.
func (l *live) yield(ctx context.Context, m letter) {
	if m.Before == l.f.self() && l.hearsStill() {
		l.f.tell(ctx, m.From, letter{Kind: mailTaken, Number: m.Number})
	}
	if l.lockSubscriptions(ctx) != nil {
		return
	}
	r, err := l.now(ctx) // under the lock: whoever takes the stream over after it listens anew
	if err != nil || r.Standing == l.f.self() {
		l.unlockSubscriptions()
		return
	}
	l.mu.Lock()
	heard := l.heard
	if m.Kind == mailMine && heard.ahead(r.Subscriptions, m.URIs) {
		l.mu.Unlock()
		l.unlockSubscriptions()
		return // it hears of these next, and says so
	}
	l.heard = nil
	for i, st := range l.streams {
		if st.name == m.Stream {
			l.streams = slices.Delete(l.streams, i, i+1)
			close(st.done)
			break
		}
	}
	l.cede(cmp.Or(r.Standing, m.From))
	events := l.waiting.take()
	l.mu.Unlock()
	if heard != nil {
		heard.cancel()
	}
	l.unlockSubscriptions()
	l.handOn(ctx, cmp.Or(r.Standing, m.From), events)
}

// Rejoin is told that letters of other replicas may have been missed (session.Deps.OnJoin).
// What sessions are listened for is seen to again. It does not wait.
func (f *Front) Rejoin() {
	f.mu.Lock()
	for _, p := range f.pending {
		p.lose()
	}
	f.mu.Unlock()
	f.apart(func(ctx context.Context) {
		f.mu.Lock()
		lives := slices.Collect(maps.Values(f.lives))
		f.mu.Unlock()
		for _, l := range lives {
			l.review(ctx)
		}
	})
}

// review does what letters would have had this replica do that it may have missed.
func (l *live) review(ctx context.Context) {
	l.mu.Lock()
	heard, open := l.heard, len(l.streams) > 0
	l.mu.Unlock()
	if heard == nil && !open {
		return
	}
	r, err := l.now(ctx)
	switch {
	case err != nil:
	case r.Standing == l.f.self():
		if !l.listensTo(r.Subscriptions) {
			l.standOn(ctx, letter{Kind: mailSubscribed})
		}
	case open && (r.Standing == "" || !l.f.mail.Present(ctx, r.Standing)):
		l.stands(ctx, "")
	case r.Standing != "":
		l.yield(ctx, letter{From: r.Standing})
	}
}

// resources are those that it listens to.
func (n *listener) resources() []string {
	if n == nil {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.agreed.URIs)
}

// ahead reports whether it listens to one of these resources that another listener does
// not listen to yet.
func (n *listener) ahead(uris, others []string) bool {
	return slices.ContainsFunc(n.resources(), func(uri string) bool {
		return slices.Contains(uris, uri) && !slices.Contains(others, uri)
	})
}

// listensTo reports whether the listener of now has these resources and no others.
func (l *live) listensTo(uris []string) bool {
	l.mu.Lock()
	now := l.heard
	l.mu.Unlock()
	if now == nil || closed(now.ended) {
		return false
	}
	now.mu.Lock()
	defer now.mu.Unlock()
	missing := func(uri string) bool { return !slices.Contains(now.agreed.URIs, uri) }
	dropped := func(uri string) bool { return !slices.Contains(uris, uri) }
	return !slices.ContainsFunc(uris, missing) && !slices.ContainsFunc(now.agreed.URIs, dropped)
}

// handOn sends events to the replica that has the session's stream.
func (l *live) handOn(ctx context.Context, replica string, events []mcp.Event) {
	if len(events) == 0 {
		return
	}
	m := letter{Kind: mailEvents, Session: l.key}
	for _, e := range events {
		m.Events = append(m.Events, remoteEvent{e.Method, e.Params})
	}
	if err := l.f.send(ctx, replica, m); err != nil { // they are told here, or wait for the next one
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, e := range events {
			l.deliver(e)
		}
	}
}

// handedOn takes what the replica has heard that listened before this one. What this one
// has told itself since it listens is not told again: if it was heard there before that,
// the client knows, and if after, it is heard here.
func (l *live) handedOn(events []remoteEvent) {
	if !l.f.begin() {
		l.tellHandedOn(events)
		return
	}
	go func() {
		defer l.f.done()
		timer := time.NewTimer(handedOnWait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-l.gone:
		case <-l.f.drain:
		}
		l.tellHandedOn(events)
	}()
}

func (l *live) tellHandedOn(events []remoteEvent) {
	l.mu.Lock()
	heard := l.heard
	l.mu.Unlock()
	for _, re := range events {
		if e := (mcp.Event{Method: re.Method, Params: re.Params}); heard == nil || !heard.hasTold(e) {
			l.event(e)
		}
	}
}

// toStream gives an event that only this replica hears to the one with the session's
// stream.
func (l *live) toStream(e mcp.Event) {
	l.mu.Lock()
	here := len(l.streams) > 0 || l.f.mail == nil
	l.mu.Unlock()
	if here {
		l.event(e)
		return
	}
	e.Params = append(mcp.Raw(nil), e.Params...) // the event's bytes are kept
	l.f.apart(func(ctx context.Context) {
		r, err := l.now(ctx)
		if err != nil || r.Standing == "" || r.Standing == l.f.self() || !l.f.mail.Present(ctx, r.Standing) {
			l.event(e)
			return
		}
		l.handOn(ctx, r.Standing, []mcp.Event{e})
	})
}
