package exchange

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/live"
	"github.com/gatehouse-mcp/gatehouse/gateway/front/refuse"
	"github.com/gatehouse-mcp/gatehouse/gateway/front/request"
	"github.com/gatehouse-mcp/gatehouse/gateway/front/stream"
	"github.com/gatehouse-mcp/gatehouse/internal/home"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/tracing"
	"github.com/gatehouse-mcp/gatehouse/internal/trail"
)

type arrivalKey struct{}

// Arrived notes the time at which a request arrived, before its caller is known.
func Arrived(r *http.Request) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), arrivalKey{}, time.Now()))
}

// Exchange is one request that became a call, and its answer: JSON, or an event stream from
// the moment that something needs one.
type Exchange struct {
	Call    mcp.Call
	ID      mcp.Raw // of the request
	Handler mcp.Handler
	Room    mcp.Room   // for results, until they are written
	Home    *home.Home // nil for a client without a session and without kept state
	WaitsAt string     // for stateless clients: the replica where the call that the state names waits

	// For stateful clients.
	Live    *live.Session
	Running live.Call

	e       *Endpoint
	w       http.ResponseWriter
	rc      *http.ResponseController
	rev     *wire.Revision
	accept  request.Accept
	token   mcp.Raw // the client's progress token, nil for none
	verdict mcp.Verdict
	span    *tracing.Span
	shared  bool // the stream carries all of its client's requests, and does not end with one

	// For the trail of the call, until it is made.
	header http.Header
	since  time.Time // when its caller was known

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
	pending  pending
}

// New prepares the answer to a request.
func (e *Endpoint) New(r *request.Request, rev *wire.Revision) *Exchange {
	x := &Exchange{ID: r.Message.ID, Handler: e.Handler, Room: e.Memory.Room(r.Caller),
		e: e, w: r.W, rc: r.RC, rev: rev, accept: r.Accept}
	progress := r.Params.ProgressToken
	if len(progress) > 0 && progress[0] == '"' || isNumber(progress) {
		x.token = progress
	}
	x.Call = mcp.Call{
		ID:      r.CallID,
		Method:  r.Message.Method,
		Params:  r.Message.Params,
		Caller:  r.Caller,
		Outline: r.Message.Outline,
		Notify:  x.notify,
		Room:    &x.Room,

		Verdict: &x.verdict,

		Revision: rev.Name,
	}
	if x.Call.ID == "" {
		x.Call.ID = e.CallID()
	}
	x.span, x.Call.Trace = e.Tracer.Server(r.Message.Params, r.R.Header)
	x.arrived(r)
	return x
}

// Share sends the answer on a stream that carries all answers to its client.
func (x *Exchange) Share(s *stream.Stream) { x.stream, x.shared = s, true }

// Serve makes the call and writes the answer. A question ends the exchange of a stateless
// client; a stateful client answers it within the exchange.
func (x *Exchange) Serve(ctx context.Context) {
	defer x.Room.Free()
	walked := x.trail()
	defer x.recover()
	x.hurry()
	x.span.Call(&x.Call, x.ID)
	reply, err := x.e.Observe(ctx, &x.Call, mcp.HandlerFunc(x.run))
	x.span.Outcome(ctx, reply, err)
	answering := walked.Begin("answer", "")
	x.answer(ctx, reply, err)
	answering.End("")
	x.span.End()
}

// run makes the call, in all its rounds.
func (x *Exchange) run(ctx context.Context, c *mcp.Call) (reply *mcp.Reply, err error) {
	if x.Live != nil {
		r := rounds{Exchange: x}
		reply, err = r.run(ctx)
		x.Live.NoteList(c, reply)
	} else if reply, err = x.Handler.Handle(ctx, c); err == nil && reply != nil && reply.Ask != nil {
		asked := reply.Ask
		reply, err = x.show(asked)
		if err == nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			x.e.waiting.drop(x.waiting(asked.Round))
			asked.Dropped(whyEnded(ctx, err)) // the client does not see the question
		}
	}
	if err != nil && ctx.Err() != nil {
		x.verdict.Ended(whyEnded(ctx, err))
	}
	return reply, err
}

// recover ends the exchange and its stream when the call panics: nothing may be written after the
// handler of the request has returned.
func (x *Exchange) recover() {
	if cause := recover(); cause != nil {
		x.span.Outcome(context.Background(), nil, ErrNoReply)
		x.span.End()
		x.e.Recovered(cause, x.Call.ID)
		x.refuse(refuse.Internal(x.Call.ID))
	}
}

// hurry begins a stream after a while for a client that accepts one. It does not for initialize:
// that answer has a header that is known only at the end.
func (x *Exchange) hurry() {
	if !x.accept.Stream || x.shared || x.Call.Method == mcp.MethodInitialize {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.switcher = time.AfterFunc(x.e.StreamAfter, func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		if s := x.needStream(); s != nil {
			x.flush()
			s.Open()
		}
	})
}

// needStream returns the stream, and makes the answer a stream first if necessary. It returns
// nil if there can be none. The caller holds mu.
func (x *Exchange) needStream() *stream.Stream {
	if x.over || !x.accept.Stream {
		return nil
	}
	if x.stream == nil {
		x.begin()
	}
	return x.stream
}

// begin makes the answer a stream, once. Its first event waits for the next one, or for flush. The
// caller holds mu.
func (x *Exchange) begin() {
	if x.switcher != nil {
		x.switcher.Stop()
	}
	if x.Live == nil {
		if x.lasts != nil {
			stream.CloseAfter(x.w, x.r)
		}
		x.stream = x.e.Writer.Begin(x.w, x.rc, "", nil)
		if x.lasts != nil {
			x.w, x.rc, x.r = nil, nil, nil // only the stream keeps them
			x.lasts(x.stream)
		}
		return
	}
	x.stream = x.e.Writer.Begin(x.w, x.rc, "", nil)
	x.logged = stream.CallName(x.Home.String(), x.Call.ID, x.ID)
	if x.rev.Priming {
		x.pending.events = append(x.pending.events, nil)
	}
}

// PutQuestion implements live.Asker.
func (x *Exchange) PutQuestion(id mcp.Raw, q mcp.InputRequest) bool {
	data := wire.AppendRequest(nil, id, q.Method, q.Params)
	x.mu.Lock()
	s := x.needStream()
	if s != nil && !x.shared {
		x.send(data)
		x.flush()
	} else if s != nil {
		x.sent(0, data)
	}
	x.mu.Unlock()
	return s != nil && (!x.shared || s.Force("", data)) // other requests may have filled it
}

// WithdrawQuestion implements live.Asker.
func (x *Exchange) WithdrawQuestion(id mcp.Raw, reason string) {
	params := mcp.Object("requestId", id, "reason", mcp.String(reason))
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.needStream() != nil {
		x.send(wire.AppendNotification(nil, mcp.NoteCancelled, params))
	}
}

// Answered implements live.Asker.
func (x *Exchange) Answered(id, result mcp.Raw, err *mcp.Error) {
	if t := x.Call.Trail; t.Messages() && err != nil {
		t.FromClient(nil, wire.AppendError(nil, id, err))
	} else if t.Messages() {
		t.FromClient(nil, wire.Message{Kind: wire.Response, ID: id, Result: result}.Parts()...)
	}
}

// answer ends the exchange with a reply or an error. A cancelled request gets no response
// (2025-11-25 basic/utilities/cancellation).
func (x *Exchange) answer(ctx context.Context, reply *mcp.Reply, err error) {
	if ctx.Err() != nil {
		switch cause := context.Cause(ctx); {
		case x.Live == nil, errors.Is(cause, live.ErrCancelled): // without a session, no client reads it
			x.finish(nil)
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
func (x *Exchange) fail(err error) {
	if why := x.toModel(err); why != "" {
		m, _ := x.render(&mcp.Reply{Result: mcp.ToolResult(true, mcp.TextContent(why))})
		x.finish(m)
		return
	}
	e := x.e.Readable(x.rev, x.Call.Method, x.Call.ID, err)
	if !x.close() {
		return
	}
	if e.Code == mcp.CodeMissingCapability && x.stream != nil {
		// Its status cannot be sent any more, and the code means less without it.
		if x.Call.Method == mcp.MethodToolsCall {
			m, _ := x.render(&mcp.Reply{Result: mcp.ToolResult(true, mcp.TextContent(e.Message))})
			x.write(http.StatusOK, m)
			return
		}
		e = e.WithCode(mcp.CodeInternal)
	}
	if e.Code == mcp.CodeRateLimited && x.stream == nil {
		x.w.Header()[refuse.HeaderRetryAfter] = []string{refuse.RetryAfter(e)}
	}
	x.write(refuse.Status(x.rev, e), message{wire.AppendError(nil, x.ID, e)})
}

// refuse ends the exchange with a status, or, if it is a stream, with an error.
func (x *Exchange) refuse(r *refuse.Refusal) {
	switch {
	case !x.close():
	case x.stream == nil:
		if x.Call.Trail.Messages() {
			x.sent(r.Status, wire.AppendError(nil, x.ID, r.Err))
		}
		x.e.Refuse(x.w, x.ID, r)
	default:
		x.e.Metrics.answered(r.Err.Name)
		x.e.Metrics.Reached(r.Bound)
		x.write(http.StatusOK, message{wire.AppendError(nil, x.ID, r.Err)})
	}
}

// close stops everything except the answer, which cannot become a stream any more. It returns false
// if the answer was written before.
func (x *Exchange) close() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.switcher != nil {
		x.switcher.Stop()
	}
	first := !x.over
	for _, timer := range []*time.Timer{x.holding, x.pending.timer} {
		if timer != nil {
			timer.Stop()
		}
	}
	if first && x.held { // the latest progress is sent even at the end
		x.held = false
		x.tell(mcp.NoteProgress, x.params)
	}
	x.over = true
	return first
}

// finish ends the exchange with a response, or without one if it is empty.
func (x *Exchange) finish(m message) {
	if x.close() {
		x.write(http.StatusOK, m)
	}
}

// write writes the end of the answer. Only the caller that got true from close calls it.
func (x *Exchange) write(status int, m message) {
	if x.stream == nil && x.accept.Stream && !x.accept.JSON && m.size() > 0 && status == http.StatusOK {
		x.mu.Lock()
		x.begin() // the only form that this client accepts
		x.mu.Unlock()
	}
	if x.stream != nil {
		status = 0 // the last event
	}
	x.sent(status, m...)
	switch {
	case x.shared:
		if m.size() > 0 {
			x.stream.Force("", m.appendTo(make([]byte, 0, m.size())))
		}
	case x.stream != nil:
		id, last := x.last(m)
		x.stream.End(id, last)
	case m.size() > 0:
		x.e.writeMessage(x.w, x.rc, status, m)
	default:
		x.e.Writer.Deadline(x.rc) // the server's deadline is over by now
		if !x.accept.Stream {
			x.w.WriteHeader(http.StatusAccepted)
			return
		}
		x.w.Header().Set("Content-Type", stream.ContentType) // a stream that ended without a response
		x.w.WriteHeader(http.StatusOK)
	}
}

// arrived begins the trail of a call. Until Serve, the trail holds nothing to be freed.
func (x *Exchange) arrived(r *request.Request) {
	if x.e.Trails == nil {
		return
	}
	began, ok := r.R.Context().Value(arrivalKey{}).(time.Time)
	if !ok { // another replica knew the caller
		began = r.Known
	}
	x.Call.Trail = x.e.Trails.Begin(began)
	x.header, x.since = r.R.Header, r.Known
	if ok {
		x.Call.Trail.Was("identity", began, r.Known)
	}
}

// trail notes the request of a call that is about to be made.
func (x *Exchange) trail() *trail.Trail {
	t := x.Call.Trail
	if t == nil {
		return nil
	}
	t.Was("front", x.since, time.Now())
	if t.Messages() {
		t.FromClient(x.header, wire.Message{Kind: wire.Request, ID: x.ID, Method: x.Call.Method,
			Params: x.Call.Params}.Parts()...)
	}
	x.header = nil
	return t
}

// sent notes a message to the client, or an event of its stream (status 0).
func (x *Exchange) sent(status int, parts ...[]byte) {
	if t := x.Call.Trail; t.Messages() {
		t.ToClient(status, parts...)
	}
}
