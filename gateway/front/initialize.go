package front

import (
	"context"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/exchange"
	"github.com/gatehouse-mcp/gatehouse/gateway/front/refuse"
	"github.com/gatehouse-mcp/gatehouse/internal/home"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// initialize begins a session (2025-11-25 basic/lifecycle). A session that the request names is
// left alone: clients that start again still send their old id.
func (f *Front) initialize(p *posted) *refuse.Refusal {
	if f.Running.Drains() || !f.Running.Begin() {
		return refuse.Closing()
	}
	defer f.Running.Done()
	x, ref := f.handshake(p, func(_ context.Context, r session.Record) error {
		// This runs in the goroutine that answers, before anything was written.
		p.W.Header()[wire.HeaderSession] = []string{r.ID}
		return nil
	})
	if x != nil {
		x.Serve(p.R.Context())
	}
	return ref
}

// handshake makes a call of initialize. opened is called with the session before the answer.
func (f *Front) handshake(p *posted, opened func(context.Context, session.Record) error) (*exchange.Exchange,
	*refuse.Refusal) {
	requested, ok := p.Message.Params.At("protocolVersion").StringValue()
	if !ok {
		return nil, refuse.Bad(refuse.InvalidParams("protocolVersion is no string"))
	}
	caps, _ := p.Message.Params.Member("capabilities")
	info, _ := p.Message.Params.Member("clientInfo")
	if caps != nil && !caps.IsObject() || info != nil && !info.IsObject() {
		return nil, refuse.Bad(refuse.InvalidParams("capabilities and clientInfo are objects"))
	}
	rev := wire.Negotiate(requested)
	x := f.newExchange(p, rev)
	x.Handler = mcp.HandlerFunc(func(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
		return f.open(ctx, c, rev, session.Record{
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

// open creates the session and then asks what is on offer. The order matters: a call that was
// observed to succeed must not be refused afterwards. If the rest fails, the session ends. It
// has no owner yet: the replica that gets its first request becomes the owner, and a balancer
// that goes by session ids sends the other requests there, too.
func (f *Front) open(ctx context.Context, c *mcp.Call, rev *wire.Revision, r session.Record,
	opened func(context.Context, session.Record) error) (*mcp.Reply, error) {
	r, err := f.Store.Create(ctx, r)
	if err != nil {
		return nil, f.RefuseSession(err)
	}
	reply, err := f.offer(ctx, c, rev, r.Caps)
	if err == nil {
		err = opened(ctx, r)
	}
	if err != nil {
		f.endSession(home.Key{User: r.User, ID: r.ID}) // nobody knows its id; otherwise it expires
		return nil, err
	}
	return reply, nil
}

// endSession ends a session outside any request. If that fails, it ends when it was unused for too
// long.
func (f *Front) endSession(key home.Key) {
	ctx, cancel := context.WithTimeout(context.Background(), partingTime)
	defer cancel()
	if h, err := f.homes().Use(ctx, key); err == nil {
		defer h.Done()
		_ = h.End(ctx, home.Ended)
	}
}

// offer returns the result of initialize for a client that declared these capabilities.
func (f *Front) offer(ctx context.Context, c *mcp.Call, rev *wire.Revision, declared mcp.Raw) (*mcp.Reply, error) {
	offered, caps, err := f.discover(ctx, &mcp.Call{
		ID:     c.ID,
		Method: mcp.MethodDiscover,
		Caller: c.Caller,
		Caps:   declared,
		Notify: func(mcp.Event) {},

		Revision: rev.Name,
		Trace:    c.Trace,
		Trail:    c.Trail,
	})
	if err != nil {
		return nil, err
	}
	result := mcp.Object("protocolVersion", mcp.String(rev.Name),
		"capabilities", rev.ServerCaps(caps), "serverInfo", rev.Identity(f.Info))
	if instructions, ok := offered.Member("instructions"); ok {
		result = result.With("instructions", instructions)
	}
	return &mcp.Reply{Result: result}, nil
}

// discover makes a call of server/discover. It returns the result, and the capabilities in it.
func (f *Front) discover(ctx context.Context, c *mcp.Call) (result, caps mcp.Raw, err error) {
	reply, err := f.Handler.Handle(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	if reply == nil || !reply.Result.IsObject() {
		return nil, nil, exchange.ErrNoReply
	}
	if caps, _ = reply.Result.Member("capabilities"); !caps.IsObject() {
		caps = mcp.Raw("{}")
	}
	return reply.Result, caps, nil
}
