package front

import (
	"context"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// The client may have a GET stream at several replicas: only on the newest is it told
// something (2025-11-25 basic/transports#multiple-connections). The replica of an older one
// leaves that to it before that one listens, and is there should the newer one's replica
// go.

// ceded is what is left to another replica.
type ceded struct {
	to   string
	stop context.CancelFunc // of the watching of it
	busy bool               // somebody hands on what waits
}

// cedeWait is how long a replica with a newer stream waits, before it listens, until the
// one with an older stream knows.
const cedeWait = 250 * time.Millisecond

// claimFrom tells a replica that this one has a newer stream of the session.
func (l *live) claimFrom(ctx context.Context, replica string) {
	number, p := l.f.callID(), &pending{reply: make(chan letter, 1)}
	defer l.f.expectFrom(number, p)()
	l.f.tell(ctx, replica, letter{Kind: mailMoves, Session: l.key, Number: number})
	gone, unwatch := l.f.mail.Watch(replica)
	defer unwatch()
	enough := time.NewTimer(cedeWait)
	defer enough.Stop()
	select {
	case <-p.reply:
	case <-gone:
	case <-enough.C:
	case <-ctx.Done():
	}
}

// moves is told that another replica has a newer stream of the session, and will listen.
func (l *live) moves(ctx context.Context, m letter) {
	if l.lockSubscriptions(ctx) != nil {
		return
	}
	if r, err := l.now(ctx); err == nil && r.Standing == m.From {
		l.mu.Lock()
		l.cede(m.From)
		l.mu.Unlock()
	}
	l.unlockSubscriptions()
	l.f.tell(ctx, m.From, letter{Kind: mailTaken, Number: m.Number})
}

// cede leaves what the client is told to a replica as long as there is an older stream
// here. It is called with mu and the token of the subscriptions held.
func (l *live) cede(to string) {
	if l.ceded != nil && l.ceded.to == to {
		return
	}
	if len(l.streams) == 0 || l.ended || !l.f.count(&l.f.streams) {
		l.uncede()
		return
	}
	if l.ceded != nil {
		l.ceded.stop()
	}
	ctx, cancel := context.WithCancel(context.Background()) // until uncede
	l.ceded = &ceded{to: to, stop: cancel}
	gone, unwatch := l.f.mail.Watch(to)
	go func() {
		defer l.f.streams.Done()
		defer cancel()
		defer unwatch()
		select {
		case <-gone:
			l.f.apart(func(ctx context.Context) { l.succeed(ctx, to) })
		case <-ctx.Done():
		case <-l.gone:
		case <-l.f.quiet:
		}
	}()
}

// uncede has this replica tell the client again, if it has a stream, also what was not
// passed on yet. It is called with mu held.
func (l *live) uncede() {
	if l.ceded == nil {
		return
	}
	l.ceded.stop()
	l.ceded = nil
	for _, e := range l.waiting.take() {
		l.deliver(e)
	}
}

// passOn gives an event to the replica that it is left to. It is called with mu held.
func (l *live) passOn(e mcp.Event) {
	if !l.waiting.put(e) {
		l.deliver(e)
		return
	}
	if l.ceded.busy {
		return
	}
	l.ceded.busy = true
	l.f.apart(func(ctx context.Context) {
		l.mu.Lock()
		if l.ceded == nil { // and it was told here
			l.mu.Unlock()
			return
		}
		l.ceded.busy = false
		to, events := l.ceded.to, l.waiting.take()
		l.mu.Unlock()
		l.handOn(ctx, to, events)
	})
}

// succeed has this replica listen in the place of one that has gone, unless another does.
func (l *live) succeed(ctx context.Context, gone string) {
	if r, err := l.now(ctx); err == nil && r.Standing == gone { // without Redis: Rejoin sees to it
		l.stands(ctx, "")
	}
}
