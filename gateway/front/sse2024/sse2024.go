package sse2024

import (
	"context"
	"crypto/rand"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/exchange"
	"github.com/gatehouse-mcp/gatehouse/gateway/front/live"
	"github.com/gatehouse-mcp/gatehouse/gateway/front/refuse"
	"github.com/gatehouse-mcp/gatehouse/gateway/front/request"
	"github.com/gatehouse-mcp/gatehouse/gateway/front/stateful"
	"github.com/gatehouse-mcp/gatehouse/gateway/front/stream"
	"github.com/gatehouse-mcp/gatehouse/internal/home"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/session"
)

const (
	viewPath     = "/sse"      // appended to the path of a view
	messagesPath = "/messages" // appended to the path of the stream
	queryConn    = "c"         // query parameter with the id of a stream

	// helloTime limits the time a client takes to begin its session.
	helloTime = time.Minute
	// MaxSilent bounds the open streams of a user that have no session yet. Without authentication
	// there is one user, and no bound.
	MaxSilent = 20
	// MaxAtOnce bounds the requests of a stream that are served at a time.
	MaxAtOnce = 100
)

// Streams are the open streams of a replica.
type Streams struct {
	endpoint *exchange.Endpoint

	mu   sync.Mutex         // guards open
	open map[string]*client // by their ids
}

// New makes Streams; none is open.
func New(e *exchange.Endpoint) *Streams {
	return &Streams{endpoint: e, open: make(map[string]*client)}
}

// client is one client: its stream, and its session once there is one.
type client struct {
	of     *Streams
	e      *exchange.Endpoint
	id     string          // in the path for its messages, which only its client knows: the replica, "-" and a secret
	caller mcp.Caller      // its owner
	path   string          // for its messages
	stream *stream.Stream  // set under Streams.mu, before the id is known
	ctx    context.Context // ends with close; for what runs before there is a session
	cancel context.CancelCauseFunc
	begun  context.Context // ends when there is a session
	adopts context.CancelFunc

	// Set with the session; read only after begun has ended.
	home     *home.Home // in use until the stream ends
	live     *live.Session
	recalled <-chan struct{} // closed by live.Running.Drain

	beginning atomic.Bool // initialize is under way, or was answered

	mu      sync.Mutex    // guards the fields below
	running int           // number of requests
	idle    chan struct{} // closed when there are none; nil if nothing waits for that
}

// Messages is the path for the messages of the streams at a path.
func Messages(stream string) string { return stream + messagesPath }

// OfView is the path of the streams of a view that has its endpoint at a path.
func OfView(endpoint string) string { return endpoint + viewPath }

// Has reports whether a path is for HTTP+SSE, its streams or messages. No endpoint of a view can have
// it.
func Has(path string) bool {
	return strings.HasSuffix(strings.TrimSuffix(path, messagesPath), viewPath)
}

// Open answers a GET with a stream, and returns when the stream ends.
func (a *Streams) Open(w http.ResponseWriter, r *http.Request, caller mcp.Caller) *refuse.Refusal {
	e := a.endpoint
	if !request.ReadAccept(r.Header["Accept"]).Stream {
		return refuse.Accept("text/event-stream")
	}
	if e.Running.Drains() {
		return refuse.Closing()
	}
	o := &client{of: a, e: e, id: e.Replica + "-" + rand.Text(), caller: caller, path: Messages(r.URL.Path)}
	o.begun, o.adopts = context.WithCancel(context.Background())
	if ref := o.countIn(); ref != nil {
		return ref
	}
	o.ctx, o.cancel = context.WithCancelCause(context.WithoutCancel(r.Context()))
	stream.CloseAfter(w, r)
	s := e.Writer.Begin(w, http.NewResponseController(w), "message", o.beat)
	a.mu.Lock()
	o.stream = s
	a.mu.Unlock()
	e.Writer.Outlast(r, s, func(ctx context.Context, lasts func(*stream.Stream)) {
		defer e.Running.EndStream(&o.caller)
		defer o.close()
		lasts(s)
		o.serve(ctx)
	})
	return nil
}

// countIn counts and registers the stream, unless its user has too many without a session; without
// authentication there is no such bound.
func (o *client) countIn() *refuse.Refusal {
	if ref := o.e.Running.BeginStream(&o.caller, func() bool { return false }); ref != nil {
		return ref
	}
	o.of.mu.Lock()
	defer o.of.mu.Unlock()
	silent := 0
	for _, other := range o.of.open {
		if other.caller.Issuer == o.caller.Issuer && other.caller.Subject == o.caller.Subject && other.begun.Err() == nil {
			silent++
		}
	}
	if silent >= MaxSilent && (o.caller.Issuer != "" || o.caller.Subject != "") {
		o.e.Running.EndStream(&o.caller)
		return refuse.Silent()
	}
	o.of.open[o.id] = o
	return nil
}

func (o *client) serve(ctx context.Context) {
	o.stream.Raw(wire.AppendEvent(nil, "", "endpoint", []byte(o.path+"?"+queryConn+"="+o.id)))
	o.stream.Open() // at once
	why := o.wait(ctx)
	o.close() // first: whatever runs must not go on with an expired token while the client is slow to read
	if why != "" {
		o.stream.Raw(wire.AppendComment(nil, why))
	}
	o.stream.End("", nil)
}

// wait returns when the stream must end, with the reason for the client.
func (o *client) wait(ctx context.Context) (why string) {
	ctx, cancel := o.e.Lasting.While(ctx, &o.caller)
	defer cancel()
	begun, tooLate := o.begun.Done(), time.After(helloTime)
	var recalled, idle, gone <-chan struct{}
	for {
		select {
		case <-begun:
			begun, tooLate = nil, nil
			recalled, gone = o.recalled, o.home.Over()
		case <-tooLate:
			return "no session was begun in time"
		case <-recalled: // running requests are answered first: the end of the stream would end them
			recalled, idle = nil, o.whenIdle()
		case <-idle:
			return "the gateway is closing"
		case <-gone:
			return "the session has ended"
		case <-ctx.Done():
			if context.Cause(ctx) == mcp.ErrOver {
				return stateful.OverComment
			}
			return ""
		case <-o.e.Running.Quiet.Done(): // all requests are answered
			return "the gateway is closing"
		}
	}
}

// beat tries again to send the events that the stream had no room for.
func (o *client) beat() {
	if o.session() != nil {
		o.live.Redeliver()
	}
}

// session returns the home of the session; nil as long as there is none.
func (o *client) session() *home.Home {
	if o.begun.Err() == nil {
		return nil
	}
	return o.home
}

// adopt gives the stream its session. Its events then go to this stream.
func (o *client) adopt(ctx context.Context, r session.Record) error {
	h, err := o.e.Store.Homes().Use(ctx, home.Key{User: r.User, ID: r.ID})
	if err != nil {
		return o.e.RefuseSession(session.ErrUnavailable)
	}
	l := o.e.Sessions.Of(h)
	st := l.OpenPlain(o.stream)
	o.mu.Lock()
	late := o.ctx.Err() != nil
	if !late {
		o.home, o.live, o.recalled = h, l, st.Over()
		o.adopts()
	}
	o.mu.Unlock()
	if late {
		h.Done()
		return live.ErrEnded // the session ends with initialize
	}
	return nil
}

// close ends what runs for the stream, and its session. It may be called twice.
func (o *client) close() {
	o.of.mu.Lock()
	delete(o.of.open, o.id)
	o.of.mu.Unlock()
	o.mu.Lock()
	first := o.ctx.Err() == nil
	o.cancel(live.ErrEnded)
	o.mu.Unlock()
	if h := o.session(); first && h != nil {
		stateful.EndSession(o.e, h.Key())
		h.Done()
	}
}

// StreamOf returns the id of the stream that a message names, "" for none, and the replica that has it
// if the gateway made the id.
func StreamOf(r *http.Request) (id, replica string, ours bool) {
	if ids := r.URL.Query()[queryConn]; len(ids) == 1 {
		id = ids[0]
	}
	replica, _, ours = strings.Cut(id, "-")
	return id, replica, ours
}

// Post handles a message that was posted for a stream. For other users and other clients, and at
// another view, the stream does not exist.
func (a *Streams) Post(r *request.Request) *refuse.Refusal {
	id, _, _ := StreamOf(r.R)
	a.mu.Lock()
	o := a.open[id]
	known := o != nil && o.stream != nil
	a.mu.Unlock()
	if !known || o.caller.User() != r.Caller.User() || o.caller.ClientID != r.Caller.ClientID ||
		o.caller.View != r.Caller.View {
		return refuse.NoStream()
	}
	r.Accept = request.Accept{Stream: true}
	if r.Batch != nil {
		return o.batch(r)
	}
	return o.message(r)
}

// message handles one message. A refusal is for the POST; every well-formed request is
// answered on the stream.
func (o *client) message(r *request.Request) *refuse.Refusal {
	if r.Message.Kind != wire.Request {
		if h := o.session(); h != nil {
			return stateful.Accept(o.e, r, h)
		}
	} else if ref := o.request(r); ref != nil {
		if ref.ID == refuse.OwnID {
			ref = o.refuse(r.Message.ID, ref)
		}
		if ref != nil {
			return ref
		}
	}
	r.W.WriteHeader(http.StatusAccepted)
	return nil
}

// say answers a request on the stream. An answer without room waits for it, but its POST,
// which another replica may have forwarded, does not.
func (o *client) say(answer []byte) *refuse.Refusal {
	if o.stream.Offer(answer) {
		return nil
	}
	if ref := o.begin(); ref != nil {
		return ref
	}
	go o.run(func() { o.stream.Force("", answer) })
	return nil
}

// refuse answers a request on the stream with a refusal, as say does.
func (o *client) refuse(id mcp.Raw, ref *refuse.Refusal) *refuse.Refusal {
	o.e.Metrics.Reached(ref.Bound)
	return o.say(wire.AppendError(nil, id, ref.Err))
}

// request begins to serve a request.
func (o *client) request(r *request.Request) *refuse.Refusal {
	h := o.session()
	switch {
	case r.Message.Method == mcp.MethodInitialize:
		return o.initialize(r)
	case r.Message.Method == mcp.MethodPing:
		return o.say(wire.AppendResult(nil, r.Message.ID, nil))
	case r.Message.Method == mcp.MethodDiscover: // this transport has no answer to it
		return refuse.Bad(mcp.ErrMethod(r.Message.Method))
	case h == nil:
		return refuseUnbegun()
	case h.IsOver():
		return o.e.RefuseSession(session.ErrNotFound)
	}
	if ref := o.begin(); ref != nil {
		return ref
	}
	var x *exchange.Exchange
	defer func() {
		if x == nil { // it was answered, refused, or panicked
			o.done()
		}
	}()
	x, ref := stateful.Call(o.e, r, h)
	if x != nil {
		x.Share(o.stream)
		x.Room.Adopt(r.Room)
		go o.run(func() {
			defer x.Running.Stop()
			x.Serve(x.Running.Context())
		})
	}
	return ref
}

// initialize begins to create the session. A stream has one session (2024-11-05
// basic/lifecycle#initialization).
func (o *client) initialize(r *request.Request) *refuse.Refusal {
	x, ref := stateful.Handshake(o.e, r, o.adopt)
	if ref != nil {
		return ref
	}
	if o.beginning.Swap(true) {
		return refuse.Invalid("Invalid request: this stream has its session: open another one to begin anew")
	}
	if ref := o.begin(); ref != nil {
		o.beginning.Store(false)
		return ref
	}
	// The POST is over before the answer comes, and the stream may end before that.
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(r.R.Context()))
	stop := context.AfterFunc(o.ctx, func() { cancel(context.Cause(o.ctx)) })
	x.Share(o.stream)
	x.Room.Adopt(r.Room)
	go o.run(func() {
		defer cancel(nil)
		defer stop()
		x.Serve(ctx)
		o.beginning.Store(o.begun.Err() != nil) // without a session, another initialize may follow
	})
	return nil
}

// begin counts a request in, done counts it out: the endpoint waits for it when it closes.
func (o *client) begin() *refuse.Refusal {
	if !o.e.Running.Begin() {
		return refuse.Closing()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.running == MaxAtOnce {
		o.e.Running.Done()
		return refuse.Busy()
	}
	o.running++
	return nil
}

func (o *client) done() {
	defer o.e.Running.Done()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.running--; o.running == 0 && o.idle != nil {
		close(o.idle)
		o.idle = nil
	}
}

// run serves a request that was counted in, outside its POST.
func (o *client) run(serve func()) {
	defer o.done()
	defer func() {
		if cause := recover(); cause != nil && cause != http.ErrAbortHandler {
			o.e.Recovered(cause, "")
		}
	}()
	serve()
}

// whenIdle returns, once, a channel that is closed as soon as no request is being served.
func (o *client) whenIdle() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	idle := make(chan struct{})
	if o.running == 0 {
		close(idle)
	} else {
		o.idle = idle
	}
	return idle
}

// batch handles several messages, which some revisions allow. Each is answered by itself.
func (o *client) batch(r *request.Request) *refuse.Refusal {
	h := o.session()
	if h == nil {
		return refuseUnbegun()
	}
	if ref := r.CheckBatch(wire.Lookup(session.Of(h).Revision)); ref != nil {
		return ref
	}
	for i, m := range r.Batch {
		one, ref := r.Member(i, &exchange.Collected{})
		if ref == nil {
			ref = o.message(&one)
		}
		if ref != nil && ref.ID == refuse.NullID {
			return o.e.RefuseSession(session.ErrNotFound)
		}
		if ref != nil && m.Kind != wire.Notification && m.Kind != wire.Response {
			if ref := o.refuse(m.ID, ref); ref != nil {
				return ref
			}
		}
	}
	r.W.WriteHeader(http.StatusAccepted)
	return nil
}

func refuseUnbegun() *refuse.Refusal {
	return refuse.Invalid("Invalid request: there is no session yet: start with initialize")
}
