package front

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/live"
	"github.com/gatehouse-mcp/gatehouse/gateway/front/refuse"
	"github.com/gatehouse-mcp/gatehouse/gateway/front/stream"
	"github.com/gatehouse-mcp/gatehouse/internal/home"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// reconnect is the wait that a client is told before it comes back.
const reconnect = time.Second

// get answers a GET: the session's stream for what belongs to no request, or an earlier stream
// from the point where it broke off.
func (f *Front) get(p *posted, rev *wire.Revision) *refuse.Refusal {
	if !readAccept(p.r.Header["Accept"]).stream {
		return refuse.Accept("text/event-stream")
	}
	after, ref := readPosition(p.r.Header)
	if ref != nil {
		return ref
	}
	if f.drains() && !after.IsCall() {
		return refuse.Closing()
	}
	g := &getting{f: f, home: p.home, session: f.Of(p.home), rev: rev, caller: p.caller, after: after}
	if after.IsCall() {
		g.first, g.missing = g.read(after.Name, after.Seq)
		if g.missing != nil && !errors.Is(g.missing, session.ErrNotFound) { // a new stream would never have the call's answer
			return f.refuseSession(g.missing)
		}
	}
	ref = f.countStream(&g.caller, func() bool { // a stream that the client has given up makes room for it
		return !after.IsCall() && g.session.GiveWay(after.Name) && f.streamLimit.takeMore(&g.caller)
	})
	if ref != nil {
		return ref
	}
	g.session.Saw(p.caller)
	stream.CloseAfter(p.w, p.r)
	g.stream = f.writer.Begin(p.w, http.NewResponseController(p.w), "", nil)
	g.home.Hold()
	f.writer.Outlast(p.r, g.stream, g.serve)
	return nil
}

// getting is a GET request that is answered with a stream.
type getting struct {
	f       *Front
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
	defer g.f.uncountStream(&g.caller)
	defer g.home.Drop()
	ctx, end := g.f.deps.Lasting.While(ctx, &g.caller)
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

// prepare does what comes before the stream for what belongs to no request.
func (g *getting) prepare(ctx context.Context) {
	if id := stream.RequestOf(g.home.String(), g.after.Name); id != nil {
		call, why := stream.CallOf(g.after.Name), refuse.LostError()
		if errors.Is(g.missing, session.ErrForgotten) { // its answer was kept for the full time
			why = refuse.DroppedError()
		}
		g.f.deps.Log.Info("the stream of a call is not known: its client is told that the answer is lost", "call", call, "error", g.missing)
		g.stream.Force("", wire.AppendError(nil, id, g.f.readable(g.rev, "", call, why)))
	}
	if session.Of(g.home).Initialized {
		g.session.Listen(ctx, g.caller)
	}
}

// wait returns when the stream must end, or when more is closed. Nothing is delivered to a
// caller whose proof has expired.
func (g *getting) wait(ctx context.Context, more <-chan struct{}) (ended bool) {
	if ctx.Err() != nil {
		return true
	}
	select {
	case <-more:
		return false
	case <-ctx.Done():
	case <-g.home.Over():
	case <-g.f.quiet.Done():
		select {
		case <-more: // such as the end of the call that it follows
			return false
		default:
		}
	}
	return true
}

// overComment is what a client reads whose credential has ended its stream.
const overComment = "the access token has expired, or was withdrawn"

// end ends the connection. A client that reconnects by itself is told when to. If its credential
// is over, it needs a new one for that.
func (g *getting) end(ctx context.Context) {
	over := context.Cause(ctx) == mcp.ErrOver
	if over {
		g.stream.Raw(wire.AppendComment(nil, overComment))
	}
	if g.rev.Priming || over {
		g.stream.Raw(wire.AppendRetry(nil, reconnect))
	}
	g.stream.End("", nil)
}
