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
func (n *listener) all() mcp.Filter {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.agreed
}
