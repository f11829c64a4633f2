package front

import (
	"context"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// Nothing that a session's client follows changes without its being told, whatever becomes
// of replicas: who listens for a session hears from the one that did before that it did
// until then. If it does not, the client is told that everything may have changed.

// handOverTime is how long the replica that listened has to say so.
const handOverTime = 2 * time.Second

// bring sends a letter to another replica until that says that it has come. It is false when
// nobody knows after answerTime; one that has gone needs no letters.
func (f *Front) bring(ctx context.Context, replica string, m letter) bool {
	m.Number = f.callID()
	p := &pending{reply: make(chan letter, 1)}
	defer f.expectFrom(m.Number, p)()
	gone, unwatch := f.mail.Watch(replica)
	defer unwatch()
	enough := time.NewTimer(answerTime)
	defer enough.Stop()
	again := time.NewTicker(answerAgain)
	defer again.Stop()
	for {
		f.tell(ctx, replica, m)
		select {
		case <-p.reply:
			return true
		case <-gone:
			return true
		case <-again.C:
		case <-enough.C:
			return false
		case <-ctx.Done():
			return true // nobody wants to know
		}
	}
}

// insist tells the replica with the session's stream that there is something else to listen
// to until it does. Until then this one listens to that.
func (l *live) insist(ctx context.Context, replica string) {
	m := letter{Kind: mailSubscribed, Session: l.key}
	if !l.f.begin() {
		l.f.tell(ctx, replica, m)
		return
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // until it has come, or Close
	go func() {
		defer l.f.done()
		defer cancel()
		unwatch := context.AfterFunc(l.f.draining, cancel)
		defer unwatch()
		l.f.bring(ctx, replica, m)
	}()
}

// takeOver tells the other replicas that this one listens, once it does. before is the one
// that did until then, "" for none.
func (l *live) takeOver(ctx context.Context, given, before string) {
	l.mu.Lock()
	heard := l.heard
	l.mu.Unlock()
	if heard != nil {
		_ = heard.confirmed(ctx, l.f.ackTime) // without it as well: it listens as far as it can
	}
	if ctx.Err() != nil {
		return
	}
	m := letter{Kind: mailMine, Session: l.key, Stream: given, URIs: heard.resources(), Before: before, Number: l.f.callID()}
	p := &pending{reply: make(chan letter, 1)}
	defer l.f.expectFrom(m.Number, p)()
	l.f.tell(ctx, everyone, m)
	if before == "" || before == l.f.self() {
		return
	}
	gone, unwatch := l.f.mail.Watch(before)
	defer unwatch()
	late := time.NewTimer(handOverTime)
	defer late.Stop()
	select {
	case <-p.reply:
		return
	case <-gone:
	case <-late.C:
	case <-ctx.Done(): // what is told now waits for the next stream
	}
	l.tellMissed()
}

// hearsStill reports whether this replica listens for the session, without a break so far.
func (l *live) hearsStill() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.heard != nil && !closed(l.heard.ended) && !closed(l.f.drain)
}

// tellMissed counts everything that is listened to as changed.
func (l *live) tellMissed() {
	l.mu.Lock()
	heard := l.heard
	l.mu.Unlock()
	if heard != nil {
		l.tellAll(heard.all())
	}
}

// all is what the upstreams have agreed to.
func (n *listener) all() mcp.Raw {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.agreed
}
