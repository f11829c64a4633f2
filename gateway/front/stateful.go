package front

import (
	"cmp"
	"context"
	"errors"
	"net/http"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/exchange"
	"github.com/gatehouse-mcp/gatehouse/gateway/front/live"
	"github.com/gatehouse-mcp/gatehouse/gateway/front/refuse"
	"github.com/gatehouse-mcp/gatehouse/internal/home"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// stateful serves a message of a client with a session (2024-11-05 to 2025-11-25), or of one
// that wants to begin a session.
func (f *Front) stateful(p *posted) *refuse.Refusal {
	isRequest := p.Message.Kind == wire.Request
	if isRequest && p.Message.Method == mcp.MethodInitialize {
		return f.initialize(p)
	}
	if isRequest && p.Message.Method == mcp.MethodPing && len(p.R.Header[wire.HeaderSession]) == 0 {
		f.WriteJSON(p.W, http.StatusOK, wire.AppendResult(nil, p.Message.ID, nil))
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
	id, ref := sessionID(p.R.Header)
	if ref != nil {
		return nil, ref
	}
	if ref := f.use(p, home.Key{User: p.Caller.User(), ID: id}); ref != nil {
		return nil, ref
	}
	record := session.Of(p.home)
	rev := wire.Lookup(record.Revision)
	if rev == nil || record.Client != p.Caller.ClientID || record.View != p.Caller.View {
		// It is of another version of the gateway, of another client, or of another view.
		return nil, f.RefuseSession(session.ErrNotFound)
	}
	if p.header != "" && p.header != rev.Name {
		// Clients SHOULD send the negotiated version; some send the newest they know.
		f.Log.Debug("a version header differs from what was negotiated", "header", p.header, "negotiated", rev.Name)
	}
	return rev, nil
}

// accept handles a response or a notification of the client, which has no answer.
func (f *Front) accept(p *posted, h *home.Home) *refuse.Refusal {
	s := f.Known(h) // nil if nothing runs there
	switch {
	case p.Message.Kind == wire.Response && s != nil:
		s.Answered(p.Message, p.Caller)
	case p.Message.Method == mcp.NoteInitialized:
		s = f.Of(h)
		if _, err := f.Store.Update(p.R.Context(), h, func(r *session.Record) { r.Initialized = true }); err != nil {
			return f.RefuseSession(err)
		}
		s.Saw(p.Caller)
		s.ListenIfOpen(p.R.Context(), p.Caller)
	case p.Message.Method == mcp.NoteCancelled:
		id, _ := p.Message.Params.Member("requestId")
		if s != nil && id != nil && len(id) <= wire.MaxID { // no request has a longer one
			s.Cancel(id, p.Message.Params.At("reason").Text())
		}
	case p.Message.Method == mcp.NoteRootsListChanged:
		if s != nil {
			s.RootsChanged()
		}
		if f.deps.Upstreams != nil {
			f.deps.Upstreams.RootsChanged(h.String())
		}
	}
	p.W.WriteHeader(http.StatusAccepted)
	return nil
}

// request serves a request within a session.
func (f *Front) request(p *posted, rev *wire.Revision) *refuse.Refusal {
	if p.Message.Method == mcp.MethodPing {
		f.WriteJSON(p.W, http.StatusOK, wire.AppendResult(nil, p.Message.ID, nil))
		return nil
	}
	if !f.Running.Begin() {
		return refuse.Closing()
	}
	defer f.Running.Done()
	defer p.endUse()
	x, ref := f.callOf(p, p.home, rev)
	if x != nil {
		defer x.Running.Stop()
		x.Serve(x.Running.Context())
	}
	return ref
}

// failing is the handler of a call that is not possible.
func failing(err error) mcp.Handler {
	return mcp.HandlerFunc(func(context.Context, *mcp.Call) (*mcp.Reply, error) { return nil, err })
}

// callOf makes a call of a request. It returns nil if the request was refused.
func (f *Front) callOf(p *posted, h *home.Home, rev *wire.Revision) (*exchange.Exchange, *refuse.Refusal) {
	s, record := f.Of(h), session.Of(h)
	x := f.newExchange(p, rev)
	x.Home, x.Live = h, s
	x.Call.Session = h.String()
	x.Call.Caps = record.Caps
	x.Call.LogLevel = record.LogLevel
	var err error
	if x.Call.Name, err = p.params.routingName(x.Call.Method); err == nil {
		err = coreTasks(&x.Call, rev, p.params.task)
	}
	switch x.Call.Method {
	case mcp.MethodDiscover, mcp.MethodListen: // of the other dialect
		err = cmp.Or(err, error(mcp.ErrMethod(x.Call.Method)))
	case mcp.MethodSetLevel, mcp.MethodResourcesSubscribe, mcp.MethodResourcesUnsubscribe:
		x.Handler = mcp.HandlerFunc(func(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) { return f.change(ctx, s, c) })
	}
	if err != nil {
		x.Handler = failing(err)
	}
	s.Saw(p.Caller)
	if err := s.Start(p.R.Context(), x.ID, &x.Running); err != nil {
		return nil, f.RefuseSession(session.ErrNotFound)
	}
	return x, nil
}

// Inside the gateway, tasks have the form of the extension. A client of 2025-11-25 asks for tasks
// one by one, in a form that package wire translates.

// coreTasks records what a client with a session knows about tasks. It refuses methods that
// the client's revision does not have.
func coreTasks(c *mcp.Call, rev *wire.Revision, task mcp.Raw) error {
	method := c.Method
	switch {
	case method == mcp.MethodTasksList, method == mcp.MethodTasksUpdate, mcp.IsTaskMethod(method) && !rev.CoreTasks:
		return mcp.ErrMethod(method) // nobody keeps what would be on a list
	case !rev.CoreTasks:
		return nil
	}
	c.Tasks = mcp.CoreTasks
	if method != mcp.MethodToolsCall || task == nil {
		return nil
	}
	c.Task = task
	return wire.CheckObject(task, "ttl")
}

// change is the handler of the methods that change the session and have an empty result.
func (f *Front) change(ctx context.Context, s *live.Session, c *mcp.Call) (*mcp.Reply, error) {
	var err error
	switch c.Method {
	case mcp.MethodSetLevel:
		level := c.Params.At("level").Text()
		if !wire.ValidLogLevel(level) {
			return nil, refuse.InvalidParams("level is not one of debug, info, notice, warning, error, critical, alert, emergency")
		}
		_, err = f.Store.Update(ctx, s.Home(), func(r *session.Record) { r.LogLevel = level })
	case mcp.MethodResourcesSubscribe:
		err = s.Subscribe(ctx, c.Caller, c.Name)
	case mcp.MethodResourcesUnsubscribe:
		err = s.Unsubscribe(ctx, c.Caller, c.Name)
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
	return nil, f.RefuseSession(err)
}

// ofSession answers a GET or DELETE, which are about a session. Stateless clients have neither
// method (2026-07-28 basic/transports/streamable-http).
func (f *Front) ofSession(p *posted) (ref *refuse.Refusal) {
	if p.Caller, ref = f.caller(p.R); ref != nil {
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
	case p.R.Method == http.MethodGet:
		return f.get(p, rev)
	}
	if err := p.home.End(p.R.Context(), home.Ended); err != nil {
		return f.RefuseSession(err)
	}
	p.W.WriteHeader(http.StatusNoContent)
	return nil
}

// sessionID reads the session's id from its header. What cannot be an id of ours is the id of
// no session, before any lookup.
func sessionID(h http.Header) (id string, ref *refuse.Refusal) {
	lines := h[wire.HeaderSession]
	switch {
	case len(lines) == 0:
		return "", refuse.Invalid("Invalid request: %s is missing: start with initialize, or send _meta as a stateless client does", wire.HeaderSession)
	case len(lines) > 1:
		return "", refuse.Invalid("Invalid request: %s stands there twice", wire.HeaderSession)
	}
	if id = lines[0]; !home.ValidID(id) {
		ref, _ = refuse.Session(session.ErrNotFound)
	}
	return id, ref
}
