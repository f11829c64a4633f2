package exchange

import (
	"bytes"
	"context"
	"net/http"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/live"
	"github.com/gatehouse-mcp/gatehouse/gateway/front/refuse"
	"github.com/gatehouse-mcp/gatehouse/gateway/front/stream"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// readFilter reads a filter, and refuses one that two readers could understand differently.
func readFilter(filter mcp.Raw) (want mcp.Filter, err error) {
	if want, err = mcp.ReadFilter(filter); err != nil {
		return want, err
	}
	members := mcp.FilterMembers()
	if err := wire.CheckObject(filter, members...); err != nil {
		return want, err
	}
	for _, member := range members {
		filter.At(member).Elements(func(name mcp.Raw) bool {
			if !wire.NameOK(name) {
				err = refuse.InvalidParams("what is in %s is no string", member)
			}
			return err == nil
		})
	}
	return want, err
}

// Listen serves subscriptions/listen: a stream that lasts until one side ends it. Everything
// on it carries the id of the request.
func (x *Exchange) Listen(r *http.Request, filter mcp.Raw) *refuse.Refusal {
	want, err := readFilter(filter)
	if err != nil {
		return refuse.Bad(err)
	}
	if len(want.Tasks) > 0 && x.Call.Tasks != mcp.ExtensionTasks {
		return refuse.Bad(mcp.ErrTasksUndeclared())
	}
	if !x.accept.Stream {
		return refuse.Accept("text/event-stream")
	}
	if x.e.Running.Drains() {
		return refuse.Closing()
	}
	if !x.e.Running.PerUser.Take(&x.Call.Caller) {
		return refuse.Streams(refuse.OwnID)
	}
	x.Call.Params, x.Call.Trail, x.header = want.In(nil), nil, nil // it lasts, and has no trail
	// so that the request's body can be freed
	x.ID, x.Call.Caps, x.token = bytes.Clone(x.ID), bytes.Clone(x.Call.Caps), nil
	drop := func() {}
	if x.Home != nil {
		x.Home.Hold()
		drop = x.Home.Drop
	}
	x.e.Running.Requests.Add(1) // in addition to the request's own count
	x.e.Writer.Outlast(r, nil, func(ctx context.Context, lasts func(*stream.Stream)) {
		defer x.e.Running.Requests.Done()
		defer drop()
		defer x.e.Running.PerUser.Give(&x.Call.Caller)
		x.r, x.lasts = r, lasts
		x.listening(ctx, want)
	})
	return nil
}

// listening makes the call of listen, and answers.
func (x *Exchange) listening(ctx context.Context, want mcp.Filter) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	undrain := context.AfterFunc(x.e.Running.Draining, func() { cancel(live.ErrClosing) })
	defer undrain()
	ctx, end := x.e.Lasting.While(ctx, &x.Call.Caller)
	defer end()
	x.Call.Notify = func(e mcp.Event) { x.relay(ctx, e, want, cancel) }
	defer x.recover()
	x.hurry()
	_, err := x.e.Observe(ctx, &x.Call, x.e.Handler)
	switch cause := context.Cause(ctx); {
	case cause == live.ErrClosing, cause == mcp.ErrOver, err == nil:
		x.finish(message{x.e.EndOfListen(x.ID)})
	case ctx.Err() != nil:
		x.finish(nil) // the client has gone, or does not read
	default:
		x.fail(err)
	}
}

// EndOfListen is the response that ends a request to listen.
func (e *Endpoint) EndOfListen(id mcp.Raw) []byte {
	return wire.AppendResult(nil, id, mcp.Object("resultType", mcp.Raw(`"complete"`), "_meta",
		e.metaInfo.With(wire.MetaSubscriptionID, id)))
}

// relay sends an event of a subscription. A client that does not keep up is disconnected rather
// than left with a gap: it listens again and reads everything again.
func (x *Exchange) relay(ctx context.Context, e mcp.Event, want mcp.Filter, giveUp context.CancelCauseFunc) {
	if ctx.Err() != nil || e.Method != mcp.NoteAcknowledged && !want.Lets(e.Method) {
		return
	}
	params := e.Params.Edit(mcp.Edit{Name: "_meta",
		Value: e.Params.At("_meta").Edit(mcp.Edit{Name: wire.MetaSubscriptionID, Value: x.ID})})
	data := wire.AppendNotification(make([]byte, 0, len(params)+96), e.Method, params)
	x.mu.Lock()
	defer x.mu.Unlock()
	if s := x.needStream(); s != nil && !s.Send("", data) {
		if s.Usable() {
			x.e.Metrics.SlowSubscriptions.Inc()
		}
		giveUp(live.ErrCancelled)
	}
}
