package stateful

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/exchange"
	"github.com/gatehouse-mcp/gatehouse/gateway/front/live"
	"github.com/gatehouse-mcp/gatehouse/gateway/front/refuse"
	"github.com/gatehouse-mcp/gatehouse/gateway/front/request"
	"github.com/gatehouse-mcp/gatehouse/internal/home"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// partingTime bounds ending a session outside any request.
const partingTime = 5 * time.Second

// Accept handles a response or a notification of the client, which has no answer.
func Accept(e *exchange.Endpoint, r *request.Request, h *home.Home) *refuse.Refusal {
	s := e.Sessions.Known(h) // nil if nothing runs there
	switch {
	case r.Message.Kind == wire.Response && s != nil:
		s.Answered(r.Message, r.Caller)
	case r.Message.Method == mcp.NoteInitialized:
		s = e.Sessions.Of(h)
		if _, err := e.Store.Update(r.R.Context(), h, func(s *session.Record) { s.Initialized = true }); err != nil {
			return e.RefuseSession(err)
		}
		s.Saw(r.Caller)
		s.ListenIfOpen(r.R.Context(), r.Caller)
	case r.Message.Method == mcp.NoteCancelled:
		id, _ := r.Message.Params.Member("requestId")
		if s != nil && id != nil && len(id) <= wire.MaxID { // no request has a longer one
			s.Cancel(id, r.Message.Params.At("reason").Text())
		}
	case r.Message.Method == mcp.NoteRootsListChanged:
		if s != nil {
			s.RootsChanged()
		}
		if e.RootsChanged != nil {
			e.RootsChanged(h.String())
		}
	}
	r.W.WriteHeader(http.StatusAccepted)
	return nil
}

// failing returns the handler of a call that is not possible.
func failing(err error) mcp.Handler {
	return mcp.HandlerFunc(func(context.Context, *mcp.Call) (*mcp.Reply, error) { return nil, err })
}

// Call makes a call of a request. It returns nil if the request was refused.
func Call(e *exchange.Endpoint, r *request.Request, h *home.Home) (*exchange.Exchange, *refuse.Refusal) {
	s, record := e.Sessions.Of(h), session.Of(h)
	rev := wire.Lookup(record.Revision)
	x := e.New(r, rev)
	x.Home, x.Live = h, s
	x.Call.Session = h.String()
	x.Call.Caps = record.Caps
	x.Call.LogLevel = record.LogLevel
	var err error
	if x.Call.Name, err = r.Params.RoutingName(x.Call.Method); err == nil {
		err = coreTasks(&x.Call, rev, r.Params.Task)
	}
	switch x.Call.Method {
	case mcp.MethodDiscover, mcp.MethodListen: // of the other dialect
		err = cmp.Or(err, error(mcp.ErrMethod(x.Call.Method)))
	case mcp.MethodSetLevel, mcp.MethodResourcesSubscribe, mcp.MethodResourcesUnsubscribe:
		x.Handler = mcp.HandlerFunc(func(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) { return edit(ctx, e, s, c) })
	}
	if err != nil {
		x.Handler = failing(err)
	}
	s.Saw(r.Caller)
	if err := s.Start(r.R.Context(), x.ID, &x.Running); err != nil {
		return nil, e.RefuseSession(session.ErrNotFound)
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
		return mcp.ErrMethod(method) // the gateway keeps no list of tasks
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

// edit is the handler of the methods that change the session and have an empty result.
func edit(ctx context.Context, e *exchange.Endpoint, s *live.Session, c *mcp.Call) (*mcp.Reply, error) {
	var err error
	switch c.Method {
	case mcp.MethodSetLevel:
		level := c.Params.At("level").Text()
		if !wire.ValidLogLevel(level) {
			return nil, refuse.InvalidParams("level is not one of debug, info, notice, warning, error, critical, alert, emergency")
		}
		_, err = e.Store.Update(ctx, s.Home(), func(r *session.Record) { r.LogLevel = level })
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
	return nil, e.RefuseSession(err)
}

// Initialize begins a session (2025-11-25 basic/lifecycle). A session that the request names is
// left alone: clients that start again still send their old id.
func Initialize(e *exchange.Endpoint, r *request.Request) *refuse.Refusal {
	if e.Running.Drains() || !e.Running.Begin() {
		return refuse.Closing()
	}
	defer e.Running.Done()
	x, ref := Handshake(e, r, func(_ context.Context, begun session.Record) error {
		// This runs in the goroutine that answers, before anything was written.
		r.W.Header()[wire.HeaderSession] = []string{begun.ID}
		return nil
	})
	if x != nil {
		x.Serve(r.R.Context())
	}
	return ref
}

// Opened takes a session before its client gets the answer to initialize.
type Opened func(context.Context, session.Record) error

// Handshake makes a call of initialize.
func Handshake(e *exchange.Endpoint, r *request.Request, opened Opened) (*exchange.Exchange, *refuse.Refusal) {
	requested, ok := r.Message.Params.At("protocolVersion").StringValue()
	if !ok {
		return nil, refuse.Bad(refuse.InvalidParams("protocolVersion is no string"))
	}
	caps, _ := r.Message.Params.Member("capabilities")
	info, _ := r.Message.Params.Member("clientInfo")
	if caps != nil && !caps.IsObject() || info != nil && !info.IsObject() {
		return nil, refuse.Bad(refuse.InvalidParams("capabilities and clientInfo are objects"))
	}
	rev := wire.Negotiate(requested)
	x := e.New(r, rev)
	x.Handler = mcp.HandlerFunc(func(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
		return open(ctx, e, c, rev, session.Record{
			User:       c.Caller.User(),
			Subject:    c.Caller.Subject,
			Client:     c.Caller.ClientID,
			View:       c.Caller.View,
			Revision:   rev.Name,
			ClientInfo: info,
			Caps:       rev.ClientCaps(caps),
		}, opened)
	})
	return x, nil
}

// open creates the session and then asks what the upstreams offer. The order matters: a call that
// was observed to succeed must not be refused afterwards. If the rest fails, the session ends. It
// has no owner yet: the replica that gets its first request becomes the owner, and a balancer that
// goes by session ids sends the other requests there, too.
func open(ctx context.Context, e *exchange.Endpoint, c *mcp.Call, rev *wire.Revision, r session.Record,
	opened Opened) (*mcp.Reply, error) {
	r, err := e.Store.Create(ctx, r)
	if err != nil {
		return nil, e.RefuseSession(err)
	}
	reply, err := offer(ctx, e, c, rev, r.Caps)
	if err == nil {
		err = opened(ctx, r)
	}
	if err != nil {
		EndSession(e, home.Key{User: r.User, ID: r.ID}) // no client knows its id; otherwise it expires
		return nil, err
	}
	return reply, nil
}

// EndSession ends a session outside any request. If that fails, the session ends when it was unused
// for too long.
func EndSession(e *exchange.Endpoint, key home.Key) {
	ctx, cancel := context.WithTimeout(context.Background(), partingTime)
	defer cancel()
	if h, err := e.Store.Homes().Use(ctx, key); err == nil {
		defer h.Done()
		_ = h.End(ctx, home.Ended)
	}
}

// offer returns the result of initialize for a client that declared these capabilities.
func offer(ctx context.Context, e *exchange.Endpoint, c *mcp.Call, rev *wire.Revision, caps mcp.Raw) (*mcp.Reply, error) {
	offered, ours, err := e.Discover(ctx, &mcp.Call{
		ID:     c.ID,
		Method: mcp.MethodDiscover,
		Caller: c.Caller,
		Caps:   caps,
		Notify: func(mcp.Event) {},

		Revision: rev.Name,
		Trace:    c.Trace,
		Trail:    c.Trail,
	})
	if err != nil {
		return nil, err
	}
	result := mcp.Object("protocolVersion", mcp.String(rev.Name),
		"capabilities", rev.ServerCaps(ours), "serverInfo", rev.Identity(e.Info))
	if instructions, ok := offered.Member("instructions"); ok {
		result = result.With("instructions", instructions)
	}
	return &mcp.Reply{Result: result}, nil
}
