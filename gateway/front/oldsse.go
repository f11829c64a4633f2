package front

import (
	"context"
	"crypto/rand"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/live"
	"github.com/gatehouse-mcp/gatehouse/gateway/front/refuse"
	"github.com/gatehouse-mcp/gatehouse/gateway/front/stream"
	"github.com/gatehouse-mcp/gatehouse/internal/home"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// This file and oldsse_message.go are HTTP+SSE, the transport of the first revision. A GET
// opens the one event stream of a session. Its first event names the path to which the client
// POSTs messages. Everything for the client comes on that stream, and the stream's end is the
// session's end (2024-11-05 basic/transports#http-with-sse).
//
// Clients in the field negotiate the newer stateful revisions over it, too. They then get what
// these revisions have, such as elicitation, but no event ids.
//
// A client authenticates as any other does, with a bearer token on each request. Tokens are for
// the endpoint, whatever the transport: the challenge of a 401 leads to its metadata.

const (
	viewSSEPath  = "/sse"      // appended to the path of a view
	messagesPath = "/messages" // appended to the path of the stream
	queryConn    = "c"         // query parameter with the id of a stream

	// maxSilent bounds the open streams of a user on which no session has begun. Without
	// authentication there is one user, and no bound.
	maxSilent = 20
	// maxAtOnce bounds the requests of a stream that are served at a time.
	maxAtOnce = 100
	// partingTime bounds ending a session whose stream has ended.
	partingTime = 5 * time.Second
)

// oldStream is one client of HTTP+SSE: its stream, and its session once there is one.
type oldStream struct {
	f      *Front
	id     string          // part of the path for its messages, which only its client knows: the replica, "-" and a secret
	caller mcp.Caller      // its owner
	path   string          // for its messages
	stream *stream.Stream  // set under Front.mu, before anybody can know the id
	ctx    context.Context // ends with close; for what runs before there is a session
	cancel context.CancelCauseFunc
	begun  context.Context // ends when there is a session
	adopts context.CancelFunc

	// Set with the session; read only after begun has ended.
	home     *home.Home // in use until the stream ends
	live     *live.Session
	recalled <-chan struct{} // closed by Front.Drain

	beginning atomic.Bool // initialize is under way, or was answered

	mu      sync.Mutex    // guards the fields below
	running int           // number of requests
	idle    chan struct{} // closed when there are none; nil if nobody waits for that
}

// SSEMessages is the path for the messages of the HTTP+SSE streams at a path.
func SSEMessages(stream string) string { return stream + messagesPath }

// ViewSSE is the path of the HTTP+SSE streams of a view that has its endpoint at a path.
func ViewSSE(endpoint string) string { return endpoint + viewSSEPath }

// OfSSE reports whether the path of a view is for HTTP+SSE, its streams or messages. So no
// endpoint of a view can have it.
func OfSSE(path string) bool {
	return strings.HasSuffix(strings.TrimSuffix(path, messagesPath), viewSSEPath)
}

// SSEPaths returns the paths of HTTP+SSE, of the stream and of messages, "" if it is disabled.
func (f *Front) SSEPaths() (stream, messages string) {
	if f.cfg.SSEPath == "" || f.cfg.SSEPath == SSEOff {
		return "", ""
	}
	return f.cfg.SSEPath, SSEMessages(f.cfg.SSEPath)
}

// SSEBehind is Behind for the streams of HTTP+SSE. A client that tries the newer transport first
// must get 405 when it POSTs to the path of the stream.
func (f *Front) SSEBehind(authenticate func(http.Handler) http.Handler) http.Handler {
	return f.behind(authenticate, http.MethodGet, f.openOld)
}

// MessagesBehind is Behind for the messages of HTTP+SSE.
func (f *Front) MessagesBehind(authenticate func(http.Handler) http.Handler) http.Handler {
	return f.behind(authenticate, http.MethodPost, func(w http.ResponseWriter, r *http.Request) { f.post(w, r, true) })
}

// openOld answers a GET with a stream, and returns when the stream ends.
func (f *Front) openOld(w http.ResponseWriter, r *http.Request) {
	caller, ref := f.caller(r)
	o := &oldStream{f: f, id: f.Replica + "-" + rand.Text(), caller: caller, path: SSEMessages(r.URL.Path)}
	o.begun, o.adopts = context.WithCancel(context.Background())
	switch {
	case ref != nil:
	case !readAccept(r.Header["Accept"]).Stream:
		ref = refuse.Accept("text/event-stream")
	case f.Running.Drains():
		ref = refuse.Closing()
	default:
		ref = o.countIn()
	}
	if ref != nil {
		f.turnAway(w, caller, wire.Message{}, ref)
		return
	}
	o.ctx, o.cancel = context.WithCancelCause(context.WithoutCancel(r.Context()))
	stream.CloseAfter(w, r)
	s := f.Writer.Begin(w, http.NewResponseController(w), "message", o.beat)
	f.mu.Lock()
	o.stream = s
	f.mu.Unlock()
	f.Writer.Outlast(r, s, func(ctx context.Context, lasts func(*stream.Stream)) {
		defer f.Running.EndStream(&o.caller)
		defer o.close()
		lasts(s)
		o.serve(ctx)
	})
}

// countIn counts the stream in and registers it, unless its user has too many without a session;
// without authentication there is no such bound.
func (o *oldStream) countIn() *refuse.Refusal {
	if ref := o.f.Running.BeginStream(&o.caller, func() bool { return false }); ref != nil {
		return ref
	}
	o.f.mu.Lock()
	defer o.f.mu.Unlock()
	silent := 0
	for _, other := range o.f.olds {
		if other.caller.Issuer == o.caller.Issuer && other.caller.Subject == o.caller.Subject && other.begun.Err() == nil {
			silent++
		}
	}
	if silent >= maxSilent && (o.caller.Issuer != "" || o.caller.Subject != "") {
		o.f.Running.EndStream(&o.caller)
		return refuse.Silent()
	}
	o.f.olds[o.id] = o
	return nil
}

func (o *oldStream) serve(ctx context.Context) {
	o.stream.Raw(wire.AppendEvent(nil, "", "endpoint", []byte(o.path+"?"+queryConn+"="+o.id)))
	o.stream.Open() // at once
	why := o.wait(ctx)
	o.close() // first: whatever runs must not go on with an expired token while the client is slow to read
	if why != "" {
		o.stream.Raw(wire.AppendComment(nil, why))
	}
	o.stream.End("", nil)
}

// wait returns when the stream must end, with what to say about it.
func (o *oldStream) wait(ctx context.Context) (why string) {
	ctx, cancel := o.f.Lasting.While(ctx, &o.caller)
	defer cancel()
	begun, tooLate := o.begun.Done(), time.After(o.f.helloTime)
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
				return overComment
			}
			return ""
		case <-o.f.Running.Quiet.Done(): // all requests are answered
			return "the gateway is closing"
		}
	}
}

// beat tries again to send the events that the stream had no room for.
func (o *oldStream) beat() {
	if o.session() != nil {
		o.live.Redeliver()
	}
}

// session returns the home of the session; nil as long as there is none.
func (o *oldStream) session() *home.Home {
	if o.begun.Err() == nil {
		return nil
	}
	return o.home
}

// adopt makes a session the stream's own. Its events then go to this stream.
func (o *oldStream) adopt(ctx context.Context, r session.Record) error {
	h, err := o.f.homes().Use(ctx, home.Key{User: r.User, ID: r.ID})
	if err != nil {
		return o.f.RefuseSession(session.ErrUnavailable)
	}
	l := o.f.Of(h)
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
func (o *oldStream) close() {
	o.f.mu.Lock()
	delete(o.f.olds, o.id)
	o.f.mu.Unlock()
	o.mu.Lock()
	first := o.ctx.Err() == nil
	o.cancel(live.ErrEnded)
	o.mu.Unlock()
	if h := o.session(); first && h != nil {
		o.f.endSession(h.Key())
		h.Done()
	}
}
