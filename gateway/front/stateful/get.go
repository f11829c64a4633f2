package stateful

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/exchange"
	"github.com/gatehouse-mcp/gatehouse/gateway/front/live"
	"github.com/gatehouse-mcp/gatehouse/gateway/front/refuse"
	"github.com/gatehouse-mcp/gatehouse/gateway/front/request"
	"github.com/gatehouse-mcp/gatehouse/gateway/front/stream"
	"github.com/gatehouse-mcp/gatehouse/internal/home"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// reconnect is the wait before a client connects again, as the stream says.
const reconnect = time.Second

// Get answers a GET: the session's stream for what belongs to no request, or an earlier stream
// from the point where it broke off.
func Get(e *exchange.Endpoint, r *request.Request, h *home.Home) *refuse.Refusal {
	if !request.ReadAccept(r.R.Header["Accept"]).Stream {
		return refuse.Accept("text/event-stream")
	}
	after, ref := readPosition(r.R.Header)
	if ref != nil {
		return ref
	}
	if e.Running.Drains() && !after.IsCall() {
		return refuse.Closing()
	}
	g := &getting{e: e, home: h, session: e.Sessions.Of(h), caller: r.Caller, after: after,
		rev: wire.Lookup(session.Of(h).Revision)}
	if after.IsCall() {
		g.first, g.missing = g.read(after.Name, after.Seq)
		if g.missing != nil && !errors.Is(g.missing, session.ErrNotFound) { // a new stream would lack the call's answer
			return e.RefuseSession(g.missing)
		}
	}
	ref = e.Running.BeginStream(&g.caller, func() bool { // a stream that the client has given up makes room for it
		return !after.IsCall() && g.session.GiveWay(after.Name) && e.Running.PerUser.TakeMore(&g.caller)
	})
	if ref != nil {
		return ref
	}
	g.session.Saw(r.Caller)
	stream.CloseAfter(r.W, r.R)
	g.stream = e.Writer.Begin(r.W, http.NewResponseController(r.W), "", nil)
	g.home.Hold()
	e.Writer.Outlast(r.R, g.stream, g.serve)
	return nil
}

// getting is a GET request with a stream as its answer.
type getting struct {
	e       *exchange.Endpoint
	home    *home.Home
	rev     *wire.Revision
	caller  mcp.Caller
	after   stream.Position // the client's position, if it comes back
	session *live.Session
	stream  *stream.Stream
	first   reading // what was read of the stream of the call that is resumed
	missing error   // why there is no such stream; nil if there is, or after is of no call
}

func (g *getting) serve(ctx context.Context, lasts func(*stream.Stream)) {
	defer g.e.Running.EndStream(&g.caller)
	defer g.home.Drop()
	ctx, end := g.e.Lasting.While(ctx, &g.caller)
	defer end()
	if g.after.IsCall() && g.missing == nil {
		lasts(g.stream)
		g.follow(ctx, g.first)
		return
	}
	g.prepare(ctx) // its stack is not kept for as long as the stream is open
	st := g.session.Open(g.stream, g.after, g.rev.Priming)
	g.stream.Open()
	lasts(g.stream)
	g.wait(ctx, st.Over())
	g.session.Close(st)
	g.end(ctx)
}

// prepare does the work before the stream for events that belong to no request.
func (g *getting) prepare(ctx context.Context) {
	if id := stream.RequestOf(g.home.String(), g.after.Name); id != nil {
		call, why := stream.CallOf(g.after.Name), refuse.LostError()
		if errors.Is(g.missing, session.ErrForgotten) { // its answer was kept for the full time
			why = refuse.DroppedError()
		}
		g.e.Log.Info("the stream of a call is not known: its client is told that the answer is lost", "call", call,
			"error", g.missing)
		g.stream.Force("", wire.AppendError(nil, id, g.e.Readable(g.rev, "", call, why)))
	}
	if session.Of(g.home).Initialized {
		g.session.Listen(ctx, g.caller)
	}
}

// wait returns when the stream must end, or when more is closed. A caller with an expired proof
// gets nothing.
func (g *getting) wait(ctx context.Context, more <-chan struct{}) (ended bool) {
	if ctx.Err() != nil {
		return true
	}
	select {
	case <-more:
		return false
	case <-ctx.Done():
	case <-g.home.Over():
	case <-g.e.Running.Quiet.Done():
		select {
		case <-more: // such as the end of the call that it follows
			return false
		default:
		}
	}
	return true
}

// OverComment is the comment in a stream that ends because its credential is over.
const OverComment = "the access token has expired, or was withdrawn"

// end ends the connection. The stream says when to reconnect. If the client's credential is over,
// it needs a new one for that.
func (g *getting) end(ctx context.Context) {
	over := context.Cause(ctx) == mcp.ErrOver
	if over {
		g.stream.Raw(wire.AppendComment(nil, OverComment))
	}
	if g.rev.Priming || over {
		g.stream.Raw(wire.AppendRetry(nil, reconnect))
	}
	g.stream.End("", nil)
}

// readAgain is the approximate wait before a stream that could not be read is read again.
const readAgain = time.Second

// readPosition reads Last-Event-ID. It refuses an id that the gateway cannot have made.
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
	r.events, r.ended, r.more, err = g.e.Store.Log().Read(context.Background(), g.home, name, after)
	if r.gap = errors.Is(err, session.ErrGap); r.gap {
		err = nil
	}
	return r, err
}

// follow replays what came after a position in the stream of a call, and follows the stream to
// its end. r is what was read of it first.
func (g *getting) follow(ctx context.Context, r reading) {
	after := g.after
	g.e.Metrics.Replayed.Inc()
	if g.rev.Priming {
		g.stream.Send(stream.EventID(after.Name, after.Seq), nil)
	}
	for seq := after.Seq; ; {
		if r.gap && !(r.ended && len(r.events) == 0) {
			g.e.Metrics.Gap.Inc()
			g.stream.Force("", gapNotice())
			g.askAgain(r.events)
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
			request, err := g.e.Store.Log().Request(context.Background(), g.home, after.Name)
			if err == nil && request != nil {
				g.stream.Force("", g.e.LostAnswer(request, stream.CallOf(after.Name), g.rev))
			}
			fallthrough
		case r.ended && !r.gap:
			g.stream.End("", nil)
			return
		case r.ended: // what is missing was before these events, or is the end: see which
		default:
			g.stream.Open()
			more := r.more
			if replica, _, _ := strings.Cut(stream.CallOf(after.Name), "-"); replica != g.e.Replica { // which has gone
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

// askAgain puts the open questions of the call again that were dropped with other events, so that
// the call does not wait for answers that cannot come. kept are the events that were not dropped.
func (g *getting) askAgain(kept []session.Event) {
	request, err := g.e.Store.Log().Request(context.Background(), g.home, g.after.Name)
	if err != nil || request == nil {
		return // the call ends without them
	}
	for id, q := range g.session.Questions(request) {
		if !slices.ContainsFunc(kept, func(e session.Event) bool { return bytes.Contains(e.Data, []byte(id)) }) {
			g.stream.Force("", wire.AppendRequest(nil, mcp.Raw(id), q.Method, q.Params))
		}
	}
}

// finishLost answers a call that was lost with the former owner of the session: the answer says
// that it is unknown whether the call has run. Of all callers that finish a stream only one
// succeeds, so a replica that was only cut off cannot write to it any more. Read the stream again
// once more is closed.
func (g *getting) finishLost(ctx context.Context) (more <-chan struct{}) {
	log, name := g.e.Store.Log(), g.after.Name
	request, err := log.Request(ctx, g.home, name)
	switch {
	case err != nil:
	case request == nil:
		err = log.End(ctx, g.home, name)
	default:
		call := stream.CallOf(name)
		if _, err = log.Finish(ctx, g.home, name, g.e.LostAnswer(request, call, g.rev)); err == nil {
			g.e.LostCall(ctx, &mcp.Call{ID: call, Caller: g.caller, Revision: g.rev.Name, Session: g.home.String()})
		}
	}
	if err != nil && !errors.Is(err, session.ErrNotFound) {
		return later()
	}
	done := make(chan struct{})
	close(done)
	return done
}

// later returns a channel that is closed when it is time to ask the session store again.
func later() <-chan struct{} {
	again := make(chan struct{})
	time.AfterFunc(readAgain/2+rand.N(readAgain), func() { close(again) })
	return again
}

// gapNotice is the notification that events are missing.
func gapNotice() []byte {
	return wire.AppendNotification(nil, mcp.NoteMessage, mcp.Object("level", mcp.Raw(`"warning"`),
		"logger", mcp.Raw(`"gatehouse"`), "data",
		mcp.String("messages of this stream were dropped: it was away for too long")))
}
