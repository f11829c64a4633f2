package front

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/refuse"
	"github.com/gatehouse-mcp/gatehouse/gateway/front/stream"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// readAgain is about how long to wait before a stream that could not be read is tried again.
const readAgain = time.Second

// readPosition reads Last-Event-ID. It refuses what cannot be an id of ours.
func readPosition(h http.Header) (at stream.Position, ref *refuse.Refusal) {
	lines := h[wire.HeaderLastEventID]
	if len(lines) == 0 {
		return at, nil
	}
	at, ok := stream.ParseEventID(lines[0])
	if !ok || len(lines) > 1 {
		return at, refuse.Invalid("Invalid request: %s is not an id that was given out", wire.HeaderLastEventID)
	}
	return at, nil
}

// reading is the result of reading the stream of a call.
type reading struct {
	events []session.Event
	ended  bool
	gap    bool            // something after the position is missing
	more   <-chan struct{} // closed when there is something new, or it is time to look again
}

// read reads the stream of a call. Errors: session.ErrNotFound if it is not known, or not any
// more; session.ErrUnavailable.
func (g *getting) read(name string, after uint64) (r reading, err error) {
	r.events, r.ended, r.more, err = g.f.deps.Sessions.Log().Read(context.Background(), g.home, name, after)
	if r.gap = errors.Is(err, session.ErrGap); r.gap {
		err = nil
	}
	return r, err
}

// follow replays what came after a position in the stream of a call, and follows the stream to
// its end. r is what was read of it first.
func (g *getting) follow(ctx context.Context, r reading) {
	after := g.after
	g.f.deps.Metrics.replayed.Inc()
	if g.rev.Priming {
		g.stream.Send(stream.EventID(after.Name, after.Seq), nil)
	}
	for seq := after.Seq; ; {
		if r.gap && !(r.ended && len(r.events) == 0) {
			g.f.deps.Metrics.gap.Inc()
			g.stream.Force("", gapNotice())
		}
		for _, e := range r.events {
			seq = e.Seq
			if len(e.Data) > 0 && !g.stream.Force(stream.EventID(after.Name, e.Seq), e.Data) {
				g.stream.End("", nil)
				return
			}
		}
		switch {
		case r.ended && r.gap && len(r.events) == 0: // the response itself is missing
			request, err := g.f.deps.Sessions.Log().Request(context.Background(), g.home, after.Name)
			if err == nil && request != nil {
				g.stream.Force("", g.f.lostAnswer(request, stream.CallOf(after.Name), g.rev))
			}
			fallthrough
		case r.ended && !r.gap:
			g.stream.End("", nil)
			return
		case r.ended: // what is missing was before these events, or is the end: see which
		default:
			g.stream.Open()
			more := r.more
			if replica, _, _ := strings.Cut(stream.CallOf(after.Name), "-"); replica != g.f.prefix { // which has gone
				more = g.finishLost(ctx)
			}
			if g.wait(ctx, more) {
				g.end(ctx)
				return
			}
		}
		var err error
		r, err = g.read(after.Name, seq)
		switch {
		case errors.Is(err, session.ErrUnavailable):
			r = reading{more: later()}
		case err != nil:
			g.end(ctx) // the session or its client is gone, or the stream was dropped
			return
		}
	}
}

// finishLost answers a call that was lost with the former owner of the session: its client is
// told that it is unknown whether the call has run. Of all callers that finish a stream only
// one succeeds, so a replica that was only cut off cannot write to it any more. Read the
// stream again once more is closed.
func (g *getting) finishLost(ctx context.Context) (more <-chan struct{}) {
	log, name := g.f.deps.Sessions.Log(), g.after.Name
	request, err := log.Request(ctx, g.home, name)
	switch {
	case err != nil:
	case request == nil:
		err = log.End(ctx, g.home, name)
	default:
		call := stream.CallOf(name)
		if _, err = log.Finish(ctx, g.home, name, g.f.lostAnswer(request, call, g.rev)); err == nil {
			g.f.lostCall(ctx, &mcp.Call{ID: call, Caller: g.caller, Revision: g.rev.Name, Session: g.home.String()})
		}
	}
	if err != nil && !errors.Is(err, session.ErrNotFound) {
		return later()
	}
	done := make(chan struct{})
	close(done)
	return done
}

// lostAnswer is the response to a request whose own response is lost. call is the id of the call.
func (f *Front) lostAnswer(request mcp.Raw, call string, rev *wire.Revision) []byte {
	return wire.AppendError(nil, request, f.readable(rev, "", call, refuse.LostError()))
}

// later is closed when it is time to retry what the session store could not do.
func later() <-chan struct{} {
	again := make(chan struct{})
	time.AfterFunc(readAgain/2+rand.N(readAgain), func() { close(again) })
	return again
}

// gapNotice says that events are missing.
func gapNotice() []byte {
	return wire.AppendNotification(nil, mcp.NoteMessage, mcp.Object("level", mcp.Raw(`"warning"`),
		"logger", mcp.Raw(`"gatehouse"`), "data", mcp.String("messages of this stream were dropped: it was away for too long")))
}
