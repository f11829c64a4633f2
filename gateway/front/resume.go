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

// readAgain is about how long a stream that cannot be read is left alone.
const readAgain = time.Second

// readPosition reads Last-Event-ID. What could not be an id of ours is refused.
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

// reading is what was read of the stream of a call.
type reading struct {
	events []session.Event
	ended  bool
	gap    bool            // something after the position is missing
	more   <-chan struct{} // closed when there is something new, or it is time to look again
}

// read reads the stream of a call. Errors: session.ErrNotFound when it is not known (any
// more), session.ErrUnavailable.
func (g *getting) read(name string, after uint64) (r reading, err error) {
	r.events, r.ended, r.more, err = g.f.sessions.Log().Read(context.Background(), g.session.Key(), name, after)
	if r.gap = errors.Is(err, session.ErrGap); r.gap {
		err = nil
	}
	return r, err
}

// follow replays what came after a position in the stream of a call, and goes on with it
// to its end. r is what was read of it at first.
func (g *getting) follow(ctx context.Context, r reading) {
	after := g.after
	g.f.metrics.replayed.Inc()
	if g.rev.Priming {
		g.stream.Send(after.EventID(), nil)
	}
	for seq := after.Seq; ; {
		if r.gap && !(r.ended && len(r.events) == 0) {
			g.f.metrics.gap.Inc()
			g.send("", gapNotice())
		}
		for _, e := range r.events {
			seq = e.Seq
			if len(e.Data) > 0 && !g.send(stream.EventID(after.Name, e.Seq), e.Data) {
				g.stream.End("", nil)
				return
			}
		}
		switch {
		case r.ended && r.gap && len(r.events) == 0:
			g.answerLost(after.Name)
			fallthrough
		case r.ended && !r.gap:
			g.stream.End("", nil)
			return
		case r.ended: // what is missing was before these events, or is the end: see which
		default:
			g.stream.Open()
			more := r.more
			if !g.f.writes(after.Name) {
				more = g.finishLost(ctx)
			}
			if g.wait(ctx, more) {
				g.end()
				return
			}
		}
		var err error
		r, err = g.read(after.Name, seq)
		switch {
		case errors.Is(err, session.ErrUnavailable):
			r = reading{more: later()}
		case err != nil:
			g.end() // with the session or its client, or as the stream was dropped
			return
		}
	}
}

// writes reports whether the stream of a call is, or was, written by this process.
func (f *Front) writes(name string) bool {
	replica, _, _ := strings.Cut(stream.CallOf(name), "-")
	return replica == f.prefix
}

// finishLost answers a call that ended with the replica which owned the session before:
// its client hears that it is not known whether the call has run. Only one of those who
// finish a stream does, so that a replica which was only cut off writes no more of it. The
// stream is to be read again once more is closed.
func (g *getting) finishLost(ctx context.Context) (more <-chan struct{}) {
	log, key, name := g.f.sessions.Log(), g.session.Key(), g.after.Name
	request, err := log.Request(ctx, key, name)
	switch {
	case err != nil:
	case request == nil:
		err = log.End(ctx, key, name)
	default:
		_, err = log.Finish(ctx, key, name, g.f.lostAnswer(request, name, g.rev))
	}
	if err != nil && !errors.Is(err, session.ErrNotFound) {
		return later()
	}
	done := make(chan struct{})
	close(done)
	return done
}

// lostAnswer is the response to a request whose own is lost.
func (f *Front) lostAnswer(request mcp.Raw, name string, rev *wire.Revision) []byte {
	return wire.AppendError(nil, request, f.readable(rev, "", stream.CallOf(name), refuse.LostError()))
}

// answerLost sends the response to a request whose own is missing in the log.
func (g *getting) answerLost(name string) {
	request, err := g.f.sessions.Log().Request(context.Background(), g.session.Key(), name)
	if err == nil && request != nil {
		g.send("", g.f.lostAnswer(request, name, g.rev))
	}
}

// later is closed when it is time to try again what the session store could not do.
func later() <-chan struct{} {
	again := make(chan struct{})
	time.AfterFunc(readAgain/2+rand.N(readAgain), func() { close(again) })
	return again
}

// send sends an event as soon as there is room for it.
func (g *getting) send(id string, data []byte) bool {
	return g.stream.Send(id, data) || g.stream.Flushed() && g.stream.Send(id, data)
}

// gapNotice says that events are missing.
func gapNotice() []byte {
	return wire.AppendNotification(nil, mcp.NoteMessage, mcp.Object("level", mcp.Raw(`"warning"`),
		"logger", mcp.Raw(`"gatehouse"`), "data", mcp.String("messages of this stream were dropped: it was away for too long")))
}
