package catalog

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// upstreamSubscription is what a listen call subscribes to at one upstream: a listen call
// there, made again whenever it is lost, as long as the client listens.
type upstreamSubscription struct {
	c      *Catalog
	s      *source
	call   *mcp.Call
	notify func(mcp.Event)
	open   <-chan struct{}     // closed when events may be sent
	forms  map[string][]string // by original URI: as the client wrote it
	tasks  map[string][]string // by original id of a task: as the client has it
	cancel context.CancelFunc  // ends it

	answered chan struct{}    // closed when decided is set
	mu       sync.Mutex       // guards the fields below
	decided  bool             // what is honoured does not change any more
	granted  mcp.Filter       // by the names that the upstream has
	failed   map[string]error // why of these original URIs none is granted
}

// newUpstreamSubscriptions divides the URIs and tasks among the upstreams that may honour
// them. What belongs to nobody, or to an upstream that the caller may not know of, is left
// out, and so missing in the acknowledgement.
func (c *Catalog) newUpstreamSubscriptions(ctx context.Context, call *mcp.Call, sees visible, want mcp.Filter, open <-chan struct{}) []*upstreamSubscription {
	var all []*upstreamSubscription
	bySource, wanted := make(map[int]*upstreamSubscription), make(map[*upstreamSubscription]*mcp.Filter)
	at := func(source int) *upstreamSubscription {
		u := bySource[source]
		if u == nil {
			u = &upstreamSubscription{
				c: c, s: c.sources[source], notify: call.Notify, open: open,
				forms: make(map[string][]string), tasks: make(map[string][]string), answered: make(chan struct{}),
			}
			bySource[source], all, wanted[u] = u, append(all, u), &mcp.Filter{}
		}
		return u
	}
	for _, public := range want.Tasks {
		id, s, ok := c.openTask(public, &call.Caller)
		if !ok || id.form != call.Tasks || !sees.has(s.index) {
			continue
		}
		u := at(s.index)
		if u.tasks[id.native] == nil {
			wanted[u].Tasks = append(wanted[u].Tasks, id.native)
		}
		u.tasks[id.native] = append(u.tasks[id.native], public)
	}
	for _, uri := range want.URIs {
		to, k, ok := c.findURI(ctx, &call.Caller, uri)
		if !ok || k != resources || !sees.has(to.source) {
			continue
		}
		source, native := to.source, to.native
		if state := &c.view(&call.Caller).states[source]; state.heard && !state.offers.subscribe {
			continue
		}
		u := at(source)
		if u.forms[native] == nil {
			wanted[u].URIs = append(wanted[u].URIs, native)
		}
		u.forms[native] = append(u.forms[native], uri)
	}
	for _, u := range all {
		u.call = call.Clone()
		u.call.Params = wanted[u].In(call.Params)
	}
	return all
}

// awaitUpstreams waits until all upstreams have answered, for a limited time. Those that
// have not by then are not waited for any more: what they were to honour is not
// promised.
func awaitUpstreams(ctx context.Context, all []*upstreamSubscription) {
	timer := time.NewTimer(upstreamWait)
	defer timer.Stop()
	for _, u := range all {
		select {
		case <-u.answered:
		case <-timer.C:
			timer.Reset(0)
		case <-ctx.Done():
			return
		}
		name := u.s.naming.upstream
		u.decide(mcp.Filter{}, u.all(mcp.UpstreamError(mcp.CodeUpstreamTimeout, name, mcp.ExecutedUnknown,
			"Upstream %s did not confirm the subscription in time; try again later", name)))
	}
}

// run listens at the upstream for as long as ctx lasts, unless nothing is honoured
// there in the first place.
func (u *upstreamSubscription) run(ctx context.Context) {
	repeat(ctx, func() bool {
		err := u.attempt(ctx)
		u.decide(mcp.Filter{}, u.all(err))
		if ctx.Err() == nil {
			u.c.log.LogAttrs(ctx, slog.LevelInfo, "subscriptions lost, listening again",
				slog.String("upstream", u.s.naming.upstream), slog.Any("cause", err))
		}
		return true
	})
}

// attempt listens once, until that ends, which is always an error.
func (u *upstreamSubscription) attempt(ctx context.Context) error {
	call := u.call.Clone()
	call.Notify = func(e mcp.Event) {
		switch e.Method {
		case mcp.NoteAcknowledged:
			u.acknowledged(ctx, e)
		case mcp.NoteResourceUpdated:
			u.updated(ctx, e.Params)
		case mcp.NoteTask:
			u.changed(ctx, e.Params)
		default:
			u.s.told(u.call.Caller, changedBy(e.Method))
		}
	}
	if _, err := u.s.upstream.Handle(ctx, call); err != nil {
		return err
	}
	return errors.New("the upstream ended it")
}

// acknowledged takes what the upstream honours. When it is not the first time, what
// happened since the subscriptions were lost is unknown, so each counts as updated.
func (u *upstreamSubscription) acknowledged(ctx context.Context, e mcp.Event) {
	honoured, _ := mcp.FilterOf(e.Params) // what of it cannot be read is not honoured
	honoured.URIs = slices.DeleteFunc(honoured.URIs, func(uri string) bool { return u.forms[uri] == nil })
	honoured.Tasks = slices.DeleteFunc(honoured.Tasks, func(id string) bool { return u.tasks[id] == nil })
	if u.decide(honoured, e.Failed) {
		return
	}
	for _, native := range honoured.URIs {
		u.updated(ctx, mcp.ResourceUpdated(native).Params)
	}
	for _, native := range honoured.Tasks {
		u.fetchTask(ctx, native)
	}
}

// changed tells the client of a task, by the id that it has.
func (u *upstreamSubscription) changed(ctx context.Context, task mcp.Raw) {
	select {
	case <-u.open:
	case <-ctx.Done():
		return
	}
	for _, public := range u.tasks[mcp.TaskID(task)] {
		u.notify(mcp.Event{Method: mcp.NoteTask, Params: u.s.naming.task(task, public)})
	}
}

// fetchTask asks how a task is of which nothing was heard for a while, since its client may
// wait for nothing but what it is told.
func (u *upstreamSubscription) fetchTask(ctx context.Context, native string) {
	call := u.call.Clone()
	call.Method, call.Name, call.Params, call.Notify = mcp.MethodTasksGet, native, mcp.Raw(`{}`), func(mcp.Event) {}
	reply, err := u.s.upstream.Handle(ctx, call)
	if err == nil && reply != nil && reply.Result != nil {
		u.changed(ctx, reply.Result.Edit(mcp.Edit{Name: "resultType"}, mcp.Edit{Name: "_meta"}))
	}
}

// updated tells the client that a resource changed, by the URI that it subscribed to;
// a part of one that it subscribed to (2026-07-28 server/resources) by its public
// URI. Nothing is told before the client's acknowledgement.
func (u *upstreamSubscription) updated(ctx context.Context, params mcp.Raw) {
	uri, ok := params.Member("uri")
	if !ok {
		return
	}
	select {
	case <-u.open:
	case <-ctx.Done():
		return
	}
	native := uri.Text()
	forms := u.forms[native]
	if forms == nil {
		forms = []string{u.s.naming.uri(native)}
	}
	for _, form := range forms {
		u.notify(mcp.Event{Method: mcp.NoteResourceUpdated, Params: params.With("uri", mcp.String(form))})
	}
}

// all are all resources, as not granted for the same reason.
func (u *upstreamSubscription) all(why error) map[string]error {
	if _, ok := errors.AsType[*mcp.Error](why); !ok {
		return nil // nothing that a client may read
	}
	failed := make(map[string]error, len(u.forms))
	for native := range u.forms {
		failed[native] = why
	}
	return failed
}

// decide sets what is honoured, and why others are not, once, and reports whether it did.
// When nothing is, it ends.
func (u *upstreamSubscription) decide(honoured mcp.Filter, failed map[string]error) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.decided {
		return false
	}
	u.decided, u.granted, u.failed = true, honoured, failed
	close(u.answered)
	if len(honoured.URIs)+len(honoured.Tasks) == 0 {
		u.cancel()
	}
	return true
}

// honoured notes what is honoured, and why resources are not, as the client wrote it.
func (u *upstreamSubscription) honoured(uris, tasks map[string]bool, failed map[string]error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, native := range u.granted.URIs {
		for _, form := range u.forms[native] {
			uris[form] = true
		}
	}
	for native, why := range u.failed {
		for _, form := range u.forms[native] {
			failed[form] = why
		}
	}
	for _, native := range u.granted.Tasks {
		for _, form := range u.tasks[native] {
			tasks[form] = true
		}
	}
}
