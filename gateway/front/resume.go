package front

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// Beginnings of the names of streams, which say what they are streams of.
const (
	callStream  = "c-" // a call: it ends with the response
	standStream = "g-" // a GET: it ends with the session
	maxPosition = 80
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
func readPosition(h http.Header) (position, *refusal) {
	lines := h[wire.HeaderLastEventID]
	if len(lines) == 0 {
		return position{}, nil
	}
	bad := refuseInvalid("Invalid request: %s is not an id that was given out", wire.HeaderLastEventID)
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

// follow replays what came after a position in the stream of a call, and goes on
// with it to its end. It reports false, with nothing sent, when the stream is not
// known (any more): the GET is then a new stream.
func (g *getting) follow(after position) bool {
	log := g.f.sessions.Log()
	seq := after.seq
	for first := true; ; first = false {
		events, ended, more, err := log.Read(context.Background(), g.live.key, after.name, seq)
		switch {
		case errors.Is(err, session.ErrGap):
			g.send("", gapNotice())
		case err != nil && first:
			return false
		case err != nil:
			g.end() // with the session, or as the stream was dropped
			return true
		}
		if first && g.rev.Priming {
			g.stream.send(after.id, nil)
		}
		for _, e := range events {
			seq = e.Seq
			if len(e.Data) > 0 && !g.send(eventID(after.name, e.Seq), e.Data) {
				g.stream.end("", nil)
				return true
			}
		}
		if ended {
			g.stream.end("", nil)
			return true
		}
		g.stream.open()
		if g.wait(more) {
			g.end()
			return true
		}
	}
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
