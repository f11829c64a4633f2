package front

import (
	"cmp"
	"context"
	"net/http"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/exchange"
	"github.com/gatehouse-mcp/gatehouse/gateway/front/refuse"
	"github.com/gatehouse-mcp/gatehouse/internal/cluster"
	"github.com/gatehouse-mcp/gatehouse/internal/home"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// onStream handles a message that was posted for a stream. For other users and other clients,
// and at another view, the stream does not exist. A message for a stream of another replica is
// forwarded there.
func (f *Front) onStream(p *posted) *refuse.Refusal {
	id := ""
	if ids := p.R.URL.Query()[queryConn]; len(ids) == 1 {
		id = ids[0]
	}
	if _, _, fromReplica := cluster.Forwarded(p.R); !fromReplica {
		if replica, _, ours := strings.Cut(id, "-"); ours && replica != f.Replica {
			return cmp.Or(f.forward(p, replica, home.Key{}), refuse.NoStream()) // its streams go with it
		}
	}
	f.mu.Lock()
	if o := f.olds[id]; o != nil && o.stream != nil {
		p.on = o
	}
	f.mu.Unlock()
	if p.on == nil || p.on.caller.User() != p.Caller.User() || p.on.caller.ClientID != p.Caller.ClientID ||
		p.on.caller.View != p.Caller.View {
		return refuse.NoStream()
	}
	p.Accept = exchange.Accept{Stream: true}
	if p.batch != nil {
		return p.on.batch(p)
	}
	return p.on.message(p)
}

// message handles one message. A refusal is for the POST; every well-formed request is
// answered on the stream.
func (o *oldStream) message(p *posted) *refuse.Refusal {
	if p.Message.Kind != wire.Request {
		if h := o.session(); h != nil {
			return o.f.accept(p, h)
		}
	} else if ref := o.request(p); ref != nil {
		if ref.ID == refuse.OwnID {
			ref = o.refuse(p.Message.ID, ref)
		}
		if ref != nil {
			return ref
		}
	}
	p.W.WriteHeader(http.StatusAccepted)
	return nil
}

// say answers a request on the stream. An answer without room waits for it, but its POST,
// which another replica may have forwarded, does not.
func (o *oldStream) say(answer []byte) *refuse.Refusal {
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
func (o *oldStream) refuse(id mcp.Raw, r *refuse.Refusal) *refuse.Refusal {
	o.f.Metrics.Reached(r.Bound)
	return o.say(wire.AppendError(nil, id, r.Err))
}

// request begins to serve a request.
func (o *oldStream) request(p *posted) *refuse.Refusal {
	h := o.session()
	switch {
	case p.Message.Method == mcp.MethodInitialize:
		return o.initialize(p)
	case p.Message.Method == mcp.MethodPing:
		return o.say(wire.AppendResult(nil, p.Message.ID, nil))
	case p.Message.Method == mcp.MethodDiscover: // of a dialect that this transport does not have
		return refuse.Bad(mcp.ErrMethod(p.Message.Method))
	case h == nil:
		return refuseUnbegun()
	case h.IsOver():
		return o.f.RefuseSession(session.ErrNotFound)
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
	x, ref := o.f.callOf(p, h, wire.Lookup(session.Of(h).Revision))
	if x != nil {
		x.Room.Adopt(p.room)
		go o.run(func() {
			defer x.Running.Stop()
			x.Serve(x.Running.Context())
		})
	}
	return ref
}

// initialize begins to create the session. A stream has one session (2024-11-05
// basic/lifecycle#initialization).
func (o *oldStream) initialize(p *posted) *refuse.Refusal {
	x, ref := o.f.handshake(p, o.adopt)
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
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(p.R.Context()))
	stop := context.AfterFunc(o.ctx, func() { cancel(context.Cause(o.ctx)) })
	x.Room.Adopt(p.room)
	go o.run(func() {
		defer cancel(nil)
		defer stop()
		x.Serve(ctx)
		o.beginning.Store(o.begun.Err() != nil) // without a session, another initialize may follow
	})
	return nil
}

// begin counts a request in; done counts it out. Front.Close waits for it.
func (o *oldStream) begin() *refuse.Refusal {
	if !o.f.Running.Begin() {
		return refuse.Closing()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.running == maxAtOnce {
		o.f.Running.Done()
		return refuse.Busy()
	}
	o.running++
	return nil
}

func (o *oldStream) done() {
	defer o.f.Running.Done()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.running--; o.running == 0 && o.idle != nil {
		close(o.idle)
		o.idle = nil
	}
}

// run serves a request that was counted in, outside its POST.
func (o *oldStream) run(serve func()) {
	defer o.done()
	defer func() {
		if cause := recover(); cause != nil && cause != http.ErrAbortHandler {
			o.f.Recovered(cause, "")
		}
	}()
	serve()
}

// whenIdle returns, once, a channel that is closed as soon as no request is being served.
func (o *oldStream) whenIdle() <-chan struct{} {
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
func (o *oldStream) batch(p *posted) *refuse.Refusal {
	h := o.session()
	if h == nil {
		return refuseUnbegun()
	}
	if ref := p.checkBatch(wire.Lookup(session.Of(h).Revision)); ref != nil {
		return ref
	}
	for i, m := range p.batch {
		one, ref := p.member(i, &exchange.Collected{})
		if ref == nil {
			ref = o.message(one)
		}
		if ref != nil && ref.ID == refuse.NullID {
			return o.f.RefuseSession(session.ErrNotFound)
		}
		if ref != nil && m.Kind != wire.Notification && m.Kind != wire.Response {
			if ref := o.refuse(m.ID, ref); ref != nil {
				return ref
			}
		}
	}
	p.W.WriteHeader(http.StatusAccepted)
	return nil
}

func refuseUnbegun() *refuse.Refusal {
	return refuse.Invalid("Invalid request: there is no session yet: start with initialize")
}
