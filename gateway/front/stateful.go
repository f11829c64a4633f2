package front

import (
	"cmp"
	"context"
	"errors"
	"net/http"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/refuse"
	"github.com/gatehouse-mcp/gatehouse/internal/home"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// stateful serves a message of a client with a session (2024-11-05 to 2025-11-25), or of one
// that wants to begin a session.
func (f *Front) stateful(p *posted) *refuse.Refusal {
	isRequest := p.message.Kind == wire.Request
	if isRequest && p.message.Method == mcp.MethodInitialize {
		return f.initialize(p)
	}
	if isRequest && p.message.Method == mcp.MethodPing && len(p.r.Header[wire.HeaderSession]) == 0 {
		f.writeJSON(p.w, http.StatusOK, wire.AppendResult(nil, p.message.ID, nil))
		return nil
	}
	rev, ref := f.session(p)
	switch {
	case ref != nil:
		return ref
	case isRequest:
		return f.request(p, rev)
	}
	return f.accept(p, p.home)
}

// session finds the session that a request names; if another replica owns it, the request is
// answered there. The session exists for its user and client alone, with any of their tokens,
// and at the endpoint of its view: who obtains its id gains nothing.
func (f *Front) session(p *posted) (*wire.Revision, *refuse.Refusal) {
	id, ref := sessionID(p.r.Header)
	if ref != nil {
		return nil, ref
	}
	if ref := f.use(p, home.Key{User: p.caller.User(), ID: id}); ref != nil {
		return nil, ref
	}
	record := session.Of(p.home)
	rev := wire.Lookup(record.Revision)
	if rev == nil || record.Client != p.caller.ClientID || record.View != p.caller.View {
		// It is of another version of the gateway, of another client, or of another view.
		return nil, f.refuseSession(session.ErrNotFound)
	}
	if p.header != "" && p.header != rev.Name {
		// Clients SHOULD send the negotiated version; some send the newest they know.
		f.deps.Log.Debug("a version header differs from what was negotiated", "header", p.header, "negotiated", rev.Name)
	}
	return rev, nil
}

// accept handles a response or a notification of the client, which has no answer.
func (f *Front) accept(p *posted, h *home.Home) *refuse.Refusal {
	s := f.Known(h) // nil if nothing runs there
	switch {
	case p.message.Kind == wire.Response && s != nil:
		s.Answered(p.message, p.caller)
	case p.message.Method == mcp.NoteInitialized:
		s = f.Of(h)
		if _, err := f.deps.Sessions.Update(p.r.Context(), h, func(r *session.Record) { r.Initialized = true }); err != nil {
			return f.refuseSession(err)
		}
		s.Saw(p.caller)
		s.ListenIfOpen(p.r.Context(), p.caller)
	case p.message.Method == mcp.NoteCancelled:
		id, _ := p.message.Params.Member("requestId")
		if s != nil && id != nil && len(id) <= wire.MaxID { // no request has a longer one
			s.Cancel(id, p.message.Params.At("reason").Text())
		}
	case p.message.Method == mcp.NoteRootsListChanged:
		if s != nil {
			s.RootsChanged()
		}
		if f.deps.Upstreams != nil {
			f.deps.Upstreams.RootsChanged(h.String())
		}
	}
	p.w.WriteHeader(http.StatusAccepted)
	return nil
}

// request serves a request within a session.
func (f *Front) request(p *posted, rev *wire.Revision) *refuse.Refusal {
	if p.message.Method == mcp.MethodPing {
		f.writeJSON(p.w, http.StatusOK, wire.AppendResult(nil, p.message.ID, nil))
		return nil
	}
	if !f.begin() {
		return refuse.Closing()
	}
	defer f.done()
	x, ref := f.callOf(p, p.home, rev)
	if x != nil {
		defer x.running.Stop()
		x.serve(x.running.Context())
	}
	return ref
}

// failing is the handler of a call that is not possible.
func failing(err error) mcp.Handler {
	return mcp.HandlerFunc(func(context.Context, *mcp.Call) (*mcp.Reply, error) { return nil, err })
}

// callOf makes a call of a request. It returns nil if the request was refused.
func (f *Front) callOf(p *posted, h *home.Home, rev *wire.Revision) (*exchange, *refuse.Refusal) {
	s, record := f.Of(h), session.Of(h)
	x := f.newExchange(p, rev)
	x.home, x.live = h, s
	x.call.Session = h.String()
	x.call.Caps = record.Caps
	x.call.LogLevel = record.LogLevel
	var err error
	if x.call.Name, err = p.params.routingName(x.call.Method); err == nil {
		err = x.coreTasks(p.params)
	}
	switch x.call.Method {
	case mcp.MethodDiscover, mcp.MethodListen: // of the other dialect
		err = cmp.Or(err, error(mcp.ErrMethod(x.call.Method)))
	case mcp.MethodSetLevel, mcp.MethodResourcesSubscribe, mcp.MethodResourcesUnsubscribe:
		x.handler = mcp.HandlerFunc(x.change)
	}
	if err != nil {
		x.handler = failing(err)
	}
	s.Saw(p.caller)
	if err := s.Start(p.r.Context(), x.id, &x.running); err != nil {
		return nil, f.refuseSession(session.ErrNotFound)
	}
	return x, nil
}

// change is the handler of the methods that change the session and have an empty result.
func (x *exchange) change(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
	var err error
	switch c.Method {
	case mcp.MethodSetLevel:
		level := c.Params.At("level").Text()
		if !wire.ValidLogLevel(level) {
			return nil, refuse.InvalidParams("level is not one of debug, info, notice, warning, error, critical, alert, emergency")
		}
		_, err = x.f.deps.Sessions.Update(ctx, x.home, func(r *session.Record) { r.LogLevel = level })
	case mcp.MethodResourcesSubscribe:
		err = x.live.Subscribe(ctx, c.Caller, c.Name)
	case mcp.MethodResourcesUnsubscribe:
		err = x.live.Unsubscribe(ctx, c.Caller, c.Name)
	}
	_, told := errors.AsType[*mcp.Error](err)
	switch {
	case err == nil:
		return &mcp.Reply{Result: mcp.Raw("{}")}, nil
	case told, errors.Is(err, context.Canceled):
		return nil, err
	case errors.Is(err, session.ErrTooLarge):
		return nil, refuse.InvalidParams("the session holds too much already")
	}
	return nil, x.f.refuseSession(err)
}

// ofSession answers a GET or DELETE, which are about a session. Stateless clients have neither
// method (2026-07-28 basic/transports/streamable-http).
func (f *Front) ofSession(p *posted) (ref *refuse.Refusal) {
	if p.caller, ref = f.caller(p.r); ref != nil {
		return ref
	}
	modern, ref := p.era()
	switch {
	case modern:
		return refuse.Method(http.MethodPost)
	case ref != nil:
		return ref
	}
	rev, ref := f.session(p)
	switch {
	case ref != nil:
		return ref
	case p.r.Method == http.MethodGet:
		return f.get(p, rev)
	}
	if err := p.home.End(p.r.Context(), home.Ended); err != nil {
		return f.refuseSession(err)
	}
	p.w.WriteHeader(http.StatusNoContent)
	return nil
}
