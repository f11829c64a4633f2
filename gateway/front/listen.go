package front

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

// listen serves subscriptions/listen: a stream that lasts until one side ends it. Everything
// on it carries the id of the request.
func (x *exchange) listen(r *http.Request, filter mcp.Raw) *refuse.Refusal {
	want, err := readFilter(filter)
	if err != nil {
		return refuse.Bad(err)
	}
	if len(want.Tasks) > 0 && x.call.Tasks != mcp.ExtensionTasks {
		return refuse.Bad(mcp.ErrTasksUndeclared())
	}
	if !x.accept.stream {
		return refuse.Accept("text/event-stream")
	}
	if x.f.drains() {
		return refuse.Closing()
	}
	if !x.f.streamLimit.take(&x.call.Caller) {
		return refuse.Streams(refuse.OwnID)
	}
	x.call.Params, x.call.Trail, x.header = want.In(nil), nil, nil                // it lasts, and is no call to look at
	x.id, x.call.Caps, x.token = bytes.Clone(x.id), bytes.Clone(x.call.Caps), nil // so that the request's body can be freed
	drop := func() {}
	if x.home != nil {
		x.home.Hold()
		drop = x.home.Drop
	}
	x.f.running.Add(1) // in addition to the request's own count
	x.f.writer.Outlast(r, nil, func(ctx context.Context, lasts func(*stream.Stream)) {
		defer x.f.running.Done()
		defer drop()
		defer x.f.streamLimit.give(&x.call.Caller)
		x.r, x.lasts = r, lasts
		x.listening(ctx, want)
	})
	return nil
}

// listening makes the call of listen, and answers.
func (x *exchange) listening(ctx context.Context, want mcp.Filter) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	undrain := context.AfterFunc(x.f.draining, func() { cancel(live.ErrClosing) })
	defer undrain()
	ctx, end := x.f.deps.Lasting.While(ctx, &x.call.Caller)
	defer end()
	x.call.Notify = func(e mcp.Event) { x.relay(ctx, e, want, cancel) }
	defer x.recover()
	x.hurry()
	_, err := x.f.observe(ctx, &x.call, x.f.deps.Handler)
	switch cause := context.Cause(ctx); {
	case cause == live.ErrClosing, cause == mcp.ErrOver, err == nil:
		x.finish(message{head: x.f.endOfListen(x.id)})
	case ctx.Err() != nil:
		x.finish(message{}) // the client has gone, or does not read
	default:
		x.fail(err)
	}
}

// endOfListen is the response that ends a request to listen.
func (f *Front) endOfListen(id mcp.Raw) []byte {
	return wire.AppendResult(nil, id, mcp.Object("resultType", mcp.Raw(`"complete"`), "_meta", f.metaInfo.With(wire.MetaSubscriptionID, id)))
}

// relay sends an event of a subscription. A client that does not keep up is disconnected
// rather than left with a gap: it listens again and reads everything anew.
func (x *exchange) relay(ctx context.Context, e mcp.Event, want mcp.Filter, giveUp context.CancelCauseFunc) {
	if ctx.Err() != nil || e.Method != mcp.NoteAcknowledged && !want.Lets(e.Method) {
		return
	}
	params := e.Params.Edit(mcp.Edit{Name: "_meta", Value: e.Params.At("_meta").Edit(mcp.Edit{Name: wire.MetaSubscriptionID, Value: x.id})})
	data := wire.AppendNotification(make([]byte, 0, len(params)+96), e.Method, params)
	x.mu.Lock()
	defer x.mu.Unlock()
	if s := x.needStream(); s != nil && !s.Send("", data) {
		if s.Usable() {
			x.f.deps.Metrics.slowSubscriptions.Inc()
		}
		giveUp(live.ErrCancelled)
	}
}
