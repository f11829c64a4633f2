package front

import (
	"context"
	"errors"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// A session of an upstream that only one replica can have, such as a process, is used by
// the others through that one. A call has then passed the pipeline here, and is made there
// past the pipeline, at a place that the letter names.

// What Forward returns of calls that it has no answer to.
var (
	// ErrNotThere: the other replica has gone, or has nothing at that place. The call was
	// not made.
	ErrNotThere = errors.New("front: another replica does not have it")
	// ErrUnheard: it cannot be reached at the moment. The call was not made.
	ErrUnheard = errors.New("front: another replica cannot be reached")
	// ErrLost: it has gone, and the call may have been made.
	ErrLost = errLost
)

// sendAgain is after what time a letter is sent again that nobody has heard.
const sendAgain = 250 * time.Millisecond

// Forward has a call made at a place of another replica. Of subscriptions/listen ErrLost
// says that something may have been missed, too: it has to be made again.
func (f *Front) Forward(ctx context.Context, replica, place string, c *mcp.Call) (*mcp.Reply, error) {
	out := letter{Kind: mailCall, Number: f.callID(), Place: place, Caller: f.carry(c.Caller), Call: writeCall(c)}
	if ctx.Err() != nil { // only to be let go
		out.Stopped = true
		f.bringAside(replica, out)
		return nil, context.Cause(ctx)
	}
	p := &pending{events: make(chan letter, maxRemoteEvents), reply: make(chan letter, 1)}
	if c.Method == mcp.MethodListen {
		p.broken = make(chan struct{}, 1)
	}
	forget := f.expectFrom(out.Number, p)
	gone, unwatch := f.mail.Watch(replica)
	over := func() { forget(); unwatch() }
	reply, err := f.reach(ctx, replica, out, p, c, gone)
	if err == nil && reply.Ask != nil && !c.Ephemeral && f.begin() {
		go func() { // ends with the call, or when nobody may answer any more
			defer f.done()
			defer over()
			p.follow(ctx, c, gone, reply.Ask.Expires)
		}()
		return reply, nil
	}
	over()
	if err != nil && (ctx.Err() != nil || errors.Is(err, errLost)) {
		f.bringAside(replica, letter{Kind: mailDrop, Number: out.Number})
	}
	return reply, err
}

// reach sends a call until it was heard, or the other replica has gone, and waits.
func (f *Front) reach(ctx context.Context, replica string, out letter, p *pending, c *mcp.Call, gone <-chan struct{}) (*mcp.Reply, error) {
	enough := time.NewTimer(lostTime)
	defer enough.Stop()
	for {
		err := f.send(ctx, replica, out)
		switch {
		case err == nil, errors.Is(err, session.ErrUnsure): // what may have come may run
			return p.wait(ctx, c, gone)
		case !errors.Is(err, session.ErrNobody):
			return nil, ErrUnheard
		}
		select {
		case <-time.After(sendAgain):
		case <-gone:
			return nil, ErrNotThere
		case <-enough.C:
			return nil, ErrUnheard
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// follow passes on what happens while the questions of a call are being answered.
func (p *pending) follow(ctx context.Context, c *mcp.Call, gone <-chan struct{}, until time.Time) {
	expires := time.NewTimer(time.Until(until))
	defer expires.Stop()
	for {
		select {
		case l := <-p.events:
			l.notify(c)
		case <-gone:
			return
		case <-expires.C:
			return
		case <-ctx.Done():
			return
		}
	}
}
