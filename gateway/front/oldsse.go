package front

import (
	"context"
	"crypto/rand"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/live"
	"github.com/gatehouse-mcp/gatehouse/gateway/front/refuse"
	"github.com/gatehouse-mcp/gatehouse/gateway/front/stream"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// This file and oldsse_message.go are HTTP+SSE, of the first revision: a GET opens the
// one event stream of a session, whose first event says where its client POSTs
// messages to; all that the client hears comes on that stream, and the stream's end is
// the session's (2024-11-05 basic/transports#http-with-sse).
//
// The newer stateful revisions may be negotiated over it, as clients in the field do:
// then there is what they have, elicitation say, but no event ids.
//
// An old client authenticates as any other, with a bearer token on each request. This
// transport is older than the rules of how to get one, so most have theirs from their
// operator; one that follows the challenge of a 401 finds the metadata of the endpoint,
// which is the resource that tokens are for, whatever the transport.

const (
	// sseVerbs and messageVerbs are the methods of the two paths. A client that tries the
	// newer transport first has to be told by 405 that the stream is not POSTed to.
	sseVerbs     verbs = http.MethodGet
	messageVerbs verbs = http.MethodPost

	messagesPath = "/messages" // after the path of the stream
	queryConn    = "c"         // of the id of a stream

	// maxSilent is how many streams of a user may be open on which no session has begun; of
	// the one user that there is without authentication any number.
	maxSilent = 20
	// maxAtOnce is how many requests of a stream are served at a time.
	maxAtOnce = 100
	// partingTime bounds ending a session whose stream has ended.
	partingTime = 5 * time.Second
)

// oldStream is one client of HTTP+SSE: its stream, and its session once there is one.
type oldStream struct {
	f      *Front
	id     string          // part of the address for its messages; nobody else knows it
	user   string          // whose it is
	client string          // likewise
	stream *stream.Stream  // set under Front.mu, before anybody can know the id
	ctx    context.Context // of what runs for it before there is a session
	cancel context.CancelCauseFunc
	begun  chan struct{} // closed when there is a session

	// Of the session, not read before begun.
	record   session.Record
	live     *live.Session
	recalled <-chan struct{} // closed by Front.Recall

	mu        sync.Mutex    // guards the fields below
	beginning bool          // initialize is under way, or was answered
	running   int           // requests
	idle      chan struct{} // closed when there are none; nil when nobody waits for that
	closed    bool
}

// streamID makes an id for a stream of this replica, which it begins with and nobody can
// guess.
func (f *Front) streamID() string { return f.cluster.Self() + "-" + rand.Text() }

// streamAt is the replica that has a stream, "" for this one, or for no id of ours.
func (f *Front) streamAt(id string) string {
	if replica, _, found := strings.Cut(id, "-"); found && replica != f.cluster.Self() {
		return replica
	}
	return ""
}

// SSEMessages is the path for the messages of HTTP+SSE whose streams are at this one.
func SSEMessages(stream string) string { return stream + messagesPath }

// SSEPaths are the paths that are to be served for HTTP+SSE, of the stream and of
// messages; both empty where it is off.
func (f *Front) SSEPaths() (stream, messages string) {
	if f.cfg.SSEPath == "" || f.cfg.SSEPath == SSEOff {
		return "", ""
	}
	return f.cfg.SSEPath, SSEMessages(f.cfg.SSEPath)
}

// SSEBehind is Behind for the streams of HTTP+SSE.
func (f *Front) SSEBehind(authenticate func(http.Handler) http.Handler) http.Handler {
	return f.behind(authenticate, sseVerbs, f.openOld)
}

// MessagesBehind is Behind for the messages of HTTP+SSE.
func (f *Front) MessagesBehind(authenticate func(http.Handler) http.Handler) http.Handler {
	return f.behind(authenticate, messageVerbs, f.postOld)
}

// openOld answers a GET by a stream, until one of its ends.
func (f *Front) openOld(w http.ResponseWriter, r *http.Request) {
	caller, ref := f.caller(r)
	o := &oldStream{f: f, id: f.streamID(), user: caller.User(), client: caller.ClientID, begun: make(chan struct{})}
	switch {
	case ref != nil:
	case !readAccept(r.Header["Accept"]).stream:
		ref = refuse.Accept("text/event-stream")
	case f.drains():
		ref = refuse.Closing()
	default:
		ref = o.countIn(caller)
	}
	if ref != nil {
		f.refuse(w, nil, ref)
		return
	}
	o.ctx, o.cancel = context.WithCancelCause(context.WithoutCancel(r.Context()))
	stream.CloseAfter(w, r)
	s := f.writer.Begin(w, http.NewResponseController(w), "message", o.beat)
	f.mu.Lock()
	o.stream = s
	f.mu.Unlock()
	f.writer.Outlast(r, func(ctx context.Context, lasts func(*stream.Stream)) {
		defer o.countOut(caller)
		defer o.close()
		lasts(s)
		o.serve(ctx, caller)
	})
}

// countIn counts a stream in, among those that last; countOut counts it out.
func (o *oldStream) countIn(caller mcp.Caller) *refuse.Refusal {
	if !o.f.count(&o.f.streams) {
		return refuse.Closing()
	}
	if !o.f.streamLimit.take(&caller) {
		o.f.streams.Done()
		return refuse.Streams(refuse.NoID)
	}
	if !o.f.enlist(o, caller.Issuer == "" && caller.Subject == "") {
		o.countOut(caller)
		return refuse.Silent()
	}
	return nil
}

func (o *oldStream) countOut(caller mcp.Caller) {
	o.f.streamLimit.give(&caller)
	o.f.streams.Done()
}

// enlist counts a stream in; false when its user has too many that say nothing. Without
// authentication nobody has.
func (f *Front) enlist(o *oldStream, anyone bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	silent := 0
	for _, other := range f.olds {
		if other.user == o.user && !closed(other.begun) {
			silent++
		}
	}
	if silent >= maxSilent && !anyone {
		return false
	}
	f.olds[o.id] = o
	return true
}

// serve writes the stream.
func (o *oldStream) serve(ctx context.Context, caller mcp.Caller) {
	_, messages := o.f.SSEPaths()
	o.stream.Raw(wire.AppendEvent(nil, "", "endpoint", []byte(messages+"?"+queryConn+"="+o.id)))
	o.stream.Open() // at once
	why := o.wait(ctx, caller)
	o.close() // first: what still runs gets no answer
	if why != "" {
		o.stream.Raw(wire.AppendComment(nil, why))
	}
	o.stream.End("", nil)
}

// wait returns when the stream is to end, with what there is to say about it.
func (o *oldStream) wait(ctx context.Context, caller mcp.Caller) (why string) {
	ctx, cancel := live.WhileGood(ctx, caller)
	defer cancel()
	begun, tooLate := o.begun, time.After(o.f.helloTime)
	var recalled, idle, gone <-chan struct{}
	for {
		select {
		case <-begun:
			begun, tooLate = nil, nil
			recalled, gone = o.recalled, o.live.Gone()
		case <-tooLate:
			return "no session was begun in time"
		case <-recalled: // what runs is answered first, for the stream's end would end it
			recalled, idle = nil, o.whenIdle()
		case <-idle:
			return "who may connect has changed: open another stream"
		case <-gone:
			return "the session has ended"
		case <-ctx.Done():
			if context.Cause(ctx) == live.ErrExpired {
				return "the access token has expired"
			}
			return ""
		case <-o.stream.Broken():
			return ""
		case <-o.f.quiet.Done(): // all requests are answered
			return "the gateway is closing"
		}
	}
}

// beat keeps the session alive while its client listens.
func (o *oldStream) beat() {
	if record, l := o.session(); l != nil {
		o.f.touch(record)
		l.Redeliver()
	}
}

// session returns the session, nil as long as there is none.
func (o *oldStream) session() (session.Record, *live.Session) {
	if !closed(o.begun) {
		return session.Record{}, nil
	}
	return o.record, o.live
}

// adopt makes a session the stream's, which is then where its events go.
func (o *oldStream) adopt(ctx context.Context, r session.Record) error {
	if owner, err := o.f.cluster.Own(ctx, o.f.homeOf(r.User, r.ID)); err != nil || !owner.Here() {
		return o.f.refuseSession(session.ErrUnavailable)
	}
	l, ref := o.f.held(ctx, r)
	if ref != nil {
		return ref
	}
	st := l.OpenPlain(o.stream)
	o.mu.Lock()
	late := o.closed
	if !late {
		o.record, o.live, o.recalled = r, l, st.Over()
		close(o.begun)
	}
	o.mu.Unlock()
	if late {
		o.f.endOld(r)
		return live.ErrEnded
	}
	return nil
}

// close ends what runs for the stream, and its session. It may be called twice.
func (o *oldStream) close() {
	o.f.mu.Lock()
	delete(o.f.olds, o.id)
	o.f.mu.Unlock()
	o.mu.Lock()
	first := !o.closed
	o.closed = true
	o.mu.Unlock()
	if !first {
		return
	}
	o.cancel(live.ErrEnded)
	if record, l := o.session(); l != nil {
		o.f.endOld(record)
	}
}

// endOld ends a session whose stream has ended, apart from any request.
func (f *Front) endOld(r session.Record) {
	ctx, cancel := context.WithTimeout(context.Background(), partingTime)
	defer cancel()
	_ = f.sessions.Delete(ctx, r.User, r.ID) // it may have ended; else it ends when it was idle for too long
	f.EndSession(r.Key())
}

// closed reports whether a channel that only ever closes is closed.
func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
