package catalog

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// upstreamSubscription is the part of a listen call at one upstream. It repeats a listen call there
// whenever that is lost, as long as the client listens.
type upstreamSubscription struct {
	c      *Catalog
	s      *source
	call   *mcp.Call
	notify func(mcp.Event)
	open   <-chan struct{}     // closed when events may be sent
	forms  map[string][]string // by original URI: the client's spellings
	tasks  map[string][]string // by a task's original id: the client's ids
	cancel context.CancelFunc  // ends the subscription

	answered chan struct{}    // closed when decided is set
	mu       sync.Mutex       // guards the fields below
	decided  bool             // what is honoured no longer changes
	granted  mcp.Filter       // by the upstream's names
	failed   map[string]error // why none of these original URIs is granted
}

// newUpstreamSubscriptions divides the URIs and tasks among the upstreams that may honour
// them. It leaves out those that belong to no upstream, or to one that the caller may not
// know of; they are then missing from the acknowledgement.
func newUpstreamSubscriptions(
	ctx context.Context, c *Catalog, call *mcp.Call, sees visible, want mcp.Filter, open <-chan struct{},
) []*upstreamSubscription {
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
		l, to := c.lens(call).resolve(ctx, mcp.KindResources, uri)
		if !to.ok || to.kind != resources || !sees.has(to.source) {
			continue
		}
		source, native := to.source, to.native
		if state := &l.states[source]; state.heard && !state.offers.subscribe {
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

// awaitUpstreams waits, for a limited time, until all upstreams have answered. Subscriptions at the
// others are not promised.
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
		u.decide(mcp.Filter{}, u.all(mcp.UpstreamError(failure.UpstreamTimeout, name, mcp.ExecutedUnknown,
			"Upstream %s did not confirm the subscription in time; try again later", name)))
	}
}

// run listens at the upstream until ctx ends, unless the first answer honours nothing.
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

// acknowledged handles what the upstream honours. From the second time on, each resource
// counts as updated, because changes since the subscriptions were lost are unknown.
func (u *upstreamSubscription) acknowledged(ctx context.Context, e mcp.Event) {
	honoured, _ := mcp.FilterOf(e.Params) // unreadable parts are not honoured
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

// changed tells the client of a task, by the client's id for it.
func (u *upstreamSubscription) changed(ctx context.Context, task mcp.Raw) {
	if !u.opened(ctx) {
		return
	}
	for _, public := range u.tasks[mcp.TaskID(task)] {
		u.notify(mcp.Event{Method: mcp.NoteTask, Params: u.s.naming.task(task, public)})
	}
}

// opened waits until events may be sent, and returns false if ctx ends before that. An event that
// came before the end of ctx is sent: a subscription that takes the place of this one may have
// begun after the event.
func (u *upstreamSubscription) opened(ctx context.Context) bool {
	select {
	case <-u.open:
		return true
	default:
	}
	select {
	case <-u.open:
		return true
	case <-ctx.Done():
		return false
	}
}

// fetchTask fetches the state of a task that was silent for a while, since its client may rely on
// notifications alone.
func (u *upstreamSubscription) fetchTask(ctx context.Context, native string) {
	call := u.call.Clone()
	call.Method, call.Name, call.Params, call.Notify = mcp.MethodTasksGet, native, mcp.Raw(`{}`), func(mcp.Event) {}
	reply, err := u.s.upstream.Handle(ctx, call)
	if err == nil && reply != nil && reply.Result != nil {
		u.changed(ctx, reply.Result.Edit(mcp.Edit{Name: "resultType"}, mcp.Edit{Name: "_meta"}))
	}
}

// updated tells the client that a resource changed, by the URI that the client subscribed
// to. For a part of such a resource (2026-07-28 server/resources) it uses the part's public
// URI. Nothing is sent before the client's acknowledgement.
func (u *upstreamSubscription) updated(ctx context.Context, params mcp.Raw) {
	uri, ok := params.Member("uri")
	if !ok {
		return
	}
	if !u.opened(ctx) {
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

// all marks all resources as not granted, for the same reason.
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

// decide sets what is honoured and why the rest is not, once, and reports whether it did.
// If nothing is honoured, it ends the subscription.
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

// honoured adds what is honoured, and why resources are not, in the client's spelling.
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
