package front

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/refuse"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// Beginnings of the names of streams, which say what they are streams of.
const (
	callStream  = "c-" // a call: it ends with the response
	standStream = "g-" // a GET: it ends with the session
	maxPosition = 200
	// readAgain is about how long a stream that cannot be read is left alone.
	readAgain = time.Second
)

// eventID is the id of an event, unique over all streams of a session (2025-11-25
// basic/transports#resumability-and-redelivery).
func eventID(stream string, seq uint64) string {
	return stream + "." + strconv.FormatUint(seq, 10)
}

// position is a place in a stream; the zero value is none.
type position struct {
	name string
	seq  uint64
	id   string // both, as the client wrote it
}

func (p position) isCall() bool { return strings.HasPrefix(p.name, callStream) }

// readPosition reads Last-Event-ID. What could not be an id of ours is refused.
func readPosition(h http.Header) (position, *refuse.Refusal) {
	lines := h[wire.HeaderLastEventID]
	if len(lines) == 0 {
		return position{}, nil
	}
	bad := refuse.Invalid("Invalid request: %s is not an id that was given out", wire.HeaderLastEventID)
	if len(lines) > 1 || len(lines[0]) > maxPosition {
		return position{}, bad
	}
	name, digits, ok := strings.Cut(lines[0], ".")
	seq, err := strconv.ParseUint(digits, 10, 64)
	if !ok || err != nil || digits != strconv.FormatUint(seq, 10) ||
		!strings.HasPrefix(name, callStream) && !strings.HasPrefix(name, standStream) {
		return position{}, bad
	}
	for _, c := range []byte(name) {
		if c != '-' && (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return position{}, bad
		}
	}
	return position{name: name, seq: seq, id: lines[0]}, nil
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
	r.events, r.ended, r.more, err = g.f.sessions.Log().Read(context.Background(), g.live.key, name, after)
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
		g.stream.send(after.id, nil)
	}
	for seq := after.seq; ; {
		if r.gap && !(r.ended && len(r.events) == 0) {
			g.f.metrics.gap.Inc()
			g.send("", gapNotice())
		}
		for _, e := range r.events {
			seq = e.Seq
			if len(e.Data) > 0 && !g.send(eventID(after.name, e.Seq), e.Data) {
				g.stream.end("", nil)
				return
			}
		}
		switch {
		case r.ended && r.gap && len(r.events) == 0:
			g.answerLost(after.name)
			fallthrough
		case r.ended && !r.gap:
			g.stream.end("", nil)
			return
		case r.ended: // what is missing was before these events, or is the end: see which
		default:
			g.stream.open()
			more := r.more
			if !g.f.writes(after.name) {
				more = g.finishLost(ctx)
			}
			if g.wait(ctx, more) {
				g.end()
				return
			}
		}
		var err error
		r, err = g.read(after.name, seq)
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
func (f *Front) writes(stream string) bool {
	replica, _, _ := strings.Cut(strings.TrimPrefix(stream, callStream), "-")
	return replica == f.prefix
}

// finishLost answers a call that ended with the replica which owned the session before:
// its client hears that it is not known whether the call has run. Only one of those who
// finish a stream does, so that a replica which was only cut off writes no more of it. The
// stream is to be read again once more is closed.
func (g *getting) finishLost(ctx context.Context) (more <-chan struct{}) {
	log, key, stream := g.f.sessions.Log(), g.live.key, g.after.name
	request, err := log.Request(ctx, key, stream)
	switch {
	case err != nil:
	case request == nil:
		err = log.End(ctx, key, stream)
	default:
		_, err = log.Finish(ctx, key, stream, g.f.lostAnswer(request, stream, g.rev))
	}
	if err != nil && !errors.Is(err, session.ErrNotFound) {
		return later()
	}
	done := make(chan struct{})
	close(done)
	return done
}

// lostAnswer is the response to a request whose own is lost.
func (f *Front) lostAnswer(request mcp.Raw, stream string, rev *wire.Revision) []byte {
	return wire.AppendError(nil, request, f.readable(rev, "", callOf(stream), refuse.LostError()))
}

// answerLost sends the response to a request whose own is missing in the log.
func (g *getting) answerLost(name string) {
	request, err := g.f.sessions.Log().Request(context.Background(), g.live.key, name)
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
	return g.stream.send(id, data) || g.stream.flushed() && g.stream.send(id, data)
}

// gapNotice says that events are missing.
func gapNotice() []byte {
	return wire.AppendNotification(nil, mcp.NoteMessage, mcp.Object("level", mcp.Raw(`"warning"`),
		"logger", mcp.Raw(`"gatehouse"`), "data", mcp.String("messages of this stream were dropped: it was away for too long")))
}
