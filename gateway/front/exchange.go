package front

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/live"
	"github.com/gatehouse-mcp/gatehouse/gateway/front/refuse"
	"github.com/gatehouse-mcp/gatehouse/gateway/front/stream"
	"github.com/gatehouse-mcp/gatehouse/internal/cluster"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/home"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/tracing"
	"github.com/gatehouse-mcp/gatehouse/internal/trail"
	"github.com/gatehouse-mcp/gatehouse/session"
)

var errNoReply = errors.New("front: the handler gave no reply")

// exchange is one request that became a call, and its answer: JSON, or an event stream from
// the moment that something needs one.
type exchange struct {
	f       *Front
	w       http.ResponseWriter
	rc      *http.ResponseController
	rev     *wire.Revision
	id      mcp.Raw
	accept  accept
	call    mcp.Call
	token   mcp.Raw // the client's progress token, nil for none
	handler mcp.Handler
	room    mcp.Room // for results, until they are written
	verdict mcp.Verdict
	span    *tracing.Span

	// For the trail of the call, until it is made.
	header http.Header
	since  time.Time // when its caller was known

	// For stateless clients: the replica where the call that the state names waits.
	waitsAt string

	home *home.Home // nil for a client without a session of whom nothing is kept

	// For stateful clients.
	live    *live.Session
	running live.Call
	shared  bool // the stream carries all of its client's requests, and does not end with one

	// For subscriptions/listen.
	r     *http.Request        // as long as the answer may be JSON
	lasts func(*stream.Stream) // to be called once there is a stream

	mu       sync.Mutex     // guards the fields below
	over     bool           // the answer is being written: nothing else may be
	stream   *stream.Stream // nil as long as the answer may be JSON
	logged   string         // the name of the stream in the session's event log, "" for none
	begun    bool           // the log has it
	fenced   bool           // another replica owns the session: nothing more is written
	progress mcp.Raw        // the last reported progress
	pace     *rate.Limiter  // of progress; nil until there is some
	held     bool           // params are progress that was not sent yet
	holding  *time.Timer    // sends it; nil for never
	params   []byte         // memory for the params of an event, and for the event
	event    []byte
	switcher *time.Timer
}

// newExchange prepares the answer to a request.
func (f *Front) newExchange(p *posted, rev *wire.Revision) *exchange {
	x := &exchange{f: f, w: p.w, rc: p.rc, rev: rev, id: p.message.ID, accept: p.accept, token: p.params.token, handler: f.deps.Handler}
	x.room = f.deps.Memory.Room(p.caller)
	x.call = mcp.Call{
		ID:     f.idOf(p),
		Method: p.message.Method,
		Params: p.message.Params,
		Caller: p.caller,
		Notify: x.notify,
		Room:   &x.room,

		Verdict: &x.verdict,

		Revision: rev.Name,
	}
	x.span, x.call.Trace = f.deps.Tracer.Server(p.message.Params, p.r.Header)
	x.arrived(p)
	if p.on != nil {
		x.stream, x.shared = p.on.stream, true
	}
	return x
}

// idOf returns the id of a call: that which another replica has given it, else a new one.
func (f *Front) idOf(p *posted) string {
	id := p.r.Header.Get(callHeader)
	if _, _, fromReplica := cluster.Forwarded(p.r); fromReplica && strings.HasPrefix(id, f.prefix+"-") {
		return id
	}
	return f.callID()
}

// serve makes the call and writes the answer. A question ends the exchange of a stateless
// client; a stateful client answers it within the exchange.
func (x *exchange) serve(ctx context.Context) {
	defer x.room.Free()
	walked := x.trail()
	defer x.recover()
	x.hurry()
	x.span.Call(&x.call, x.id)
	reply, err := x.f.observe(ctx, &x.call, mcp.HandlerFunc(x.run))
	x.span.Outcome(ctx, reply, err)
	answering := walked.Begin("answer", "")
	x.answer(ctx, reply, err)
	answering.End("")
	x.span.End()
}

// run makes the call, in all its rounds.
func (x *exchange) run(ctx context.Context, c *mcp.Call) (reply *mcp.Reply, err error) {
	if x.live != nil {
		r := rounds{exchange: x}
		reply, err = r.run(ctx)
		x.live.NoteList(c, reply)
	} else if reply, err = x.handler.Handle(ctx, c); err == nil && reply != nil && reply.Ask != nil {
		asked := reply.Ask
		reply, err = x.show(asked)
		if err == nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			x.f.waiting.drop(x.waiting(asked.Round))
			asked.Dropped(x.whyEnded(ctx, err)) // the client does not see the question
		}
	}
	if err != nil && ctx.Err() != nil {
		x.verdict.Ended(x.whyEnded(ctx, err))
	}
	return reply, err
}

// recover is deferred by whoever makes the call. A panic ends the exchange and its stream:
// nothing may be written after the handler of the request has returned.
func (x *exchange) recover() {
	if cause := recover(); cause != nil {
		x.span.Outcome(context.Background(), nil, errNoReply)
		x.span.End()
		x.f.recovered(cause, x.call.ID)
		x.refuse(refuse.Internal(x.call.ID))
	}
}

// hurry makes sure that a client that accepts streams hears something after a while, except for
// initialize: its answer has a header that is known only at the end.
func (x *exchange) hurry() {
	if !x.accept.stream || x.shared || x.call.Method == mcp.MethodInitialize {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.switcher = time.AfterFunc(x.f.cfg.StreamAfter, func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		if s := x.needStream(); s != nil {
			s.Open()
		}
	})
}

// needStream returns the stream, and makes the answer a stream first if necessary. It returns
// nil if there can be none. The caller holds mu.
func (x *exchange) needStream() *stream.Stream {
	if x.over || !x.accept.stream {
		return nil
	}
	if x.stream == nil {
		x.begin()
	}
	return x.stream
}

// begin makes the answer a stream, once. The caller holds mu.
func (x *exchange) begin() {
	if x.switcher != nil {
		x.switcher.Stop()
	}
	if x.live == nil {
		if x.lasts != nil {
			stream.CloseAfter(x.w, x.r)
		}
		x.stream = x.f.writer.Begin(x.w, x.rc, "", nil)
		if x.lasts != nil {
			x.w, x.rc, x.r = nil, nil, nil // only the stream keeps them
			x.lasts(x.stream)
		}
		return
	}
	x.stream = x.f.writer.Begin(x.w, x.rc, "", nil)
	x.logged = stream.CallName(x.home.String(), x.call.ID, x.id)
	if x.rev.Priming {
		x.send(nil)
	}
}

// send sends an event on the stream. If there is an event log, the event is kept there, too,
// whether or not the client is still connected. The caller holds mu.
func (x *exchange) send(data []byte) {
	if x.fenced {
		return
	}
	x.sent(0, data)
	if id, ours := x.keep(data, false); ours && !x.stream.Send(id, data) && x.stream.Usable() {
		x.f.deps.Metrics.slowEvents.Inc()
	}
}

// keep adds an event to the event log and returns its id, "" if the session has ended or the
// stream cannot be resumed. ours is false if another replica, which considered this one gone,
// owns the session or has ended the stream. The caller holds mu.
func (x *exchange) keep(data []byte, last bool) (id string, ours bool) {
	if x.logged == "" {
		return "", true
	}
	log, h := x.f.deps.Sessions.Log(), x.home
	var seq uint64
	var err error
	switch ctx := context.Background(); {
	case last:
		seq, err = log.Finish(ctx, h, x.logged, data)
	case x.begun:
		seq, err = log.Append(ctx, h, x.logged, data)
	default:
		seq, err = log.Begin(ctx, h, x.logged, x.id, data)
		x.begun = err == nil
	}
	switch {
	case errors.Is(err, session.ErrEnded), errors.Is(err, session.ErrMoved):
		if !x.fenced { // the client was told that the call is lost: an answer would be a second one
			x.fenced = true
			x.f.deps.Metrics.fenced.Inc()
			x.f.deps.Log.Warn("a call was taken to be lost with this replica, which was cut off: it is cancelled", failure.CallLost.Attr(), "call", x.call.ID)
			x.running.Cancel(live.ErrMoved)
		}
		return "", false
	case err != nil:
		return "", true
	}
	return stream.EventID(x.logged, seq), true
}

// PutQuestion implements live.Asker.
func (x *exchange) PutQuestion(id mcp.Raw, q mcp.InputRequest) bool {
	data := wire.AppendRequest(nil, id, q.Method, q.Params)
	x.mu.Lock()
	s := x.needStream()
	if s != nil && !x.shared {
		x.send(data)
	} else if s != nil {
		x.sent(0, data)
	}
	x.mu.Unlock()
	return s != nil && (!x.shared || s.Force("", data)) // other requests may have filled it
}

// WithdrawQuestion implements live.Asker.
func (x *exchange) WithdrawQuestion(id mcp.Raw, reason string) {
	params := mcp.Object("requestId", id, "reason", mcp.String(reason))
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.needStream() != nil {
		x.send(wire.AppendNotification(nil, mcp.NoteCancelled, params))
	}
}

// Answered implements live.Asker.
func (x *exchange) Answered(id, result mcp.Raw, err *mcp.Error) {
	if t := x.call.Trail; t.Messages() && err != nil {
		t.FromClient(nil, wire.AppendError(nil, id, err))
	} else if t.Messages() {
		t.FromClient(nil, wire.Message{Kind: wire.Response, ID: id, Result: result}.Parts()...)
	}
}

// answer ends the exchange with a reply or an error. A cancelled request gets no response
// (2025-11-25 basic/utilities/cancellation).
func (x *exchange) answer(ctx context.Context, reply *mcp.Reply, err error) {
	if ctx.Err() != nil {
		switch cause := context.Cause(ctx); {
		case x.live == nil, errors.Is(cause, live.ErrCancelled): // without a session, nobody is there to read it
			x.finish(message{})
			return
		case errors.Is(cause, live.ErrMoved): // on a stream, the event log refuses it: the new owner has answered there
			err = refuse.LostError()
		case errors.Is(cause, live.ErrEnded):
			err = refuse.Ended()
		case errors.Is(cause, live.ErrClosing):
			err = refuse.ClosingError(mcp.ExecutedUnknown)
		}
	}
	if refused, ok := errors.AsType[*refuse.Refusal](err); ok {
		x.refuse(refused)
		return
	}
	var m message
	if err == nil {
		m, err = x.render(reply)
	}
	if err != nil {
		x.fail(err)
		return
	}
	x.finish(m)
	if reply.Release != nil {
		reply.Release()
	}
}

// fail ends the exchange with an error.
func (x *exchange) fail(err error) {
	if why := x.toModel(err); why != "" {
		m, _ := x.render(&mcp.Reply{Result: mcp.ToolResult(true, mcp.TextContent(why))})
		x.finish(m)
		return
	}
	e := x.f.readable(x.rev, x.call.Method, x.call.ID, err)
	if !x.close() {
		return
	}
	if e.Code == mcp.CodeMissingCapability && x.stream != nil {
		// Its status cannot be sent any more, and the code means less without it.
		if x.call.Method == mcp.MethodToolsCall {
			m, _ := x.render(&mcp.Reply{Result: mcp.ToolResult(true, mcp.TextContent(e.Message))})
			x.write(http.StatusOK, m)
			return
		}
		e = e.WithCode(mcp.CodeInternal)
	}
	if e.Code == mcp.CodeRateLimited && x.stream == nil {
		x.w.Header()[refuse.HeaderRetryAfter] = []string{refuse.RetryAfter(e)}
	}
	x.write(refuse.Status(x.rev, e), message{head: wire.AppendError(nil, x.id, e)})
}

// refuse ends the exchange with a status, or, if it is a stream, with an error.
func (x *exchange) refuse(r *refuse.Refusal) {
	switch {
	case !x.close():
	case x.stream == nil:
		if x.call.Trail.Messages() {
			x.sent(r.Status, wire.AppendError(nil, x.id, r.Err))
		}
		x.f.refuse(x.w, x.id, r)
	default:
		x.f.deps.Metrics.answered(r.Err.Name)
		x.f.deps.Metrics.reached(r.Bound)
		x.write(http.StatusOK, message{head: wire.AppendError(nil, x.id, r.Err)})
	}
}

// close stops everything except the answer: nothing turns it into a stream any more. It returns
// false if the answer was written before.
func (x *exchange) close() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.switcher != nil {
		x.switcher.Stop()
	}
	first := !x.over
	if x.holding != nil {
		x.holding.Stop()
	}
	if first && x.held { // the latest progress is sent even at the end
		x.held = false
		x.tell(mcp.NoteProgress, x.params)
	}
	x.over = true
	return first
}

// finish ends the exchange with a response, or without one if it is empty.
func (x *exchange) finish(m message) {
	if x.close() {
		x.write(http.StatusOK, m)
	}
}

// write writes the end of the answer, for the one caller for which close returned true.
func (x *exchange) write(status int, m message) {
	if x.stream == nil && x.accept.stream && !x.accept.json && m.size() > 0 && status == http.StatusOK {
		x.mu.Lock()
		x.begin() // the only form that this client accepts
		x.mu.Unlock()
	}
	if x.stream != nil {
		status = 0 // the last event
	}
	x.sent(status, m.head, m.body, m.tail)
	switch {
	case x.shared:
		if m.size() > 0 {
			x.stream.Force("", m.appendTo(make([]byte, 0, m.size())))
		}
	case x.stream != nil:
		var last []byte
		var id string
		if m.size() > 0 {
			last = m.appendTo(make([]byte, 0, m.size()))
			var ours bool
			if id, ours = x.keep(last, true); !ours {
				last = nil
			}
		} else if x.logged != "" {
			_ = x.f.deps.Sessions.Log().End(context.Background(), x.home, x.logged) // fails if the log has gone with its session
		}
		x.stream.End(id, last)
	case m.size() > 0:
		x.f.writeMessage(x.w, x.rc, status, m)
	default:
		x.f.writer.Deadline(x.rc) // the server's deadline is over by now
		if !x.accept.stream {
			x.w.WriteHeader(http.StatusAccepted)
			return
		}
		x.w.Header().Set("Content-Type", stream.ContentType) // a stream that ended without a response
		x.w.WriteHeader(http.StatusOK)
	}
}

// arrived begins the trail of a call. It has nothing that would have to be freed before serve.
func (x *exchange) arrived(p *posted) {
	if x.f.deps.Trails == nil {
		return
	}
	began, ok := p.r.Context().Value(arrivalKey{}).(time.Time)
	if !ok { // another replica knew the caller
		began = p.since
	}
	x.call.Trail = x.f.deps.Trails.Begin(began)
	x.header, x.since = p.r.Header, p.since
	if ok {
		x.call.Trail.Was("identity", began, p.since)
	}
}

// trail notes the request of a call that is about to be made.
func (x *exchange) trail() *trail.Trail {
	t := x.call.Trail
	if t == nil {
		return nil
	}
	t.Was("front", x.since, time.Now())
	if t.Messages() {
		t.FromClient(x.header, wire.Message{Kind: wire.Request, ID: x.id, Method: x.call.Method, Params: x.call.Params}.Parts()...)
	}
	x.header = nil
	return t
}

// sent notes a message to the client, or an event of its stream (status 0).
func (x *exchange) sent(status int, parts ...[]byte) {
	if t := x.call.Trail; t.Messages() {
		t.ToClient(status, parts...)
	}
}
