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

// part is what a listen call subscribes at one upstream: a listen call there, made
// again whenever it is lost, as long as the client listens.
type upstreamSubscription struct {
	c      *Catalog
	s      *source
	call   *mcp.Call
	notify func(mcp.Event)
	open   <-chan struct{}     // closed when events may be sent
	forms  map[string][]string // by original URI: as the client wrote it
	tasks  map[string][]string // by original id of a task: as the client has it
	cancel context.CancelFunc  // ends the part

	answered chan struct{}    // closed when decided is set
	mu       sync.Mutex       // guards the fields below
	decided  bool             // what is honoured does not change any more
	granted  mcp.Filter       // by the names that the upstream has
	failed   map[string]error // why of these original URIs none is granted
}

// newParts divides the URIs and tasks among the upstreams that may honour them. What
// belongs to nobody, or to an upstream that the caller may not know of, is left out, and
// so missing in the acknowledgement.
func (c *Catalog) newUpstreamSubscriptions(ctx context.Context, call *mcp.Call, sees visible, want mcp.Filter, open <-chan struct{}) []*upstreamSubscription {
	var parts []*upstreamSubscription
	bySource, wanted := make(map[int]*upstreamSubscription), make(map[*upstreamSubscription]*mcp.Filter)
	at := func(source int) *upstreamSubscription {
		p := bySource[source]
		if p == nil {
			p = &upstreamSubscription{
				c: c, s: c.sources[source], notify: call.Notify, open: open,
				forms: make(map[string][]string), tasks: make(map[string][]string), answered: make(chan struct{}),
			}
			bySource[source], parts, wanted[p] = p, append(parts, p), &mcp.Filter{}
		}
		return p
	}
	for _, public := range want.Tasks {
		id, s, ok := c.openTask(public, &call.Caller)
		if !ok || id.form != call.Tasks || !sees.has(s.index) {
			continue
		}
		p := at(s.index)
		if p.tasks[id.native] == nil {
			wanted[p].Tasks = append(wanted[p].Tasks, id.native)
		}
		p.tasks[id.native] = append(p.tasks[id.native], public)
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
		p := at(source)
		if p.forms[native] == nil {
			wanted[p].URIs = append(wanted[p].URIs, native)
		}
		p.forms[native] = append(p.forms[native], uri)
	}
	for _, p := range parts {
		p.call = call.Clone()
		p.call.Params = wanted[p].In(call.Params)
	}
	return parts
}

// awaitParts waits until all upstreams have answered, for a limited time. Those that
// have not by then are not waited for any more: what they were to honour is not
// promised.
func awaitUpstreams(ctx context.Context, parts []*upstreamSubscription) {
	timer := time.NewTimer(upstreamWait)
	defer timer.Stop()
	for _, p := range parts {
		select {
		case <-p.answered:
		case <-timer.C:
			timer.Reset(0)
		case <-ctx.Done():
			return
		}
		name := p.s.naming.upstream
		p.decide(mcp.Filter{}, p.all(mcp.UpstreamError(mcp.CodeUpstreamTimeout, name, mcp.ExecutedUnknown,
			"Upstream %s did not confirm the subscription in time; try again later", name)))
	}
}

// run listens at the upstream for as long as ctx lasts, unless nothing is honoured
// there in the first place.
func (p *upstreamSubscription) run(ctx context.Context) {
	pause := newPause()
	for {
		start := time.Now()
		err := p.attempt(ctx)
		p.decide(mcp.Filter{}, p.all(err))
		if ctx.Err() != nil {
			return
		}
		if time.Since(start) >= steady {
			pause.Reset()
		}
		p.c.log.LogAttrs(ctx, slog.LevelInfo, "subscriptions lost, listening again",
			slog.String("upstream", p.s.naming.upstream), slog.Any("cause", err))
		waitFor(ctx, pause.NextBackOff())
	}
}

// attempt listens once, until that ends, which is always an error.
func (p *upstreamSubscription) attempt(ctx context.Context) error {
	call := p.call.Clone()
	call.Notify = func(e mcp.Event) {
		switch e.Method {
		case mcp.NoteAcknowledged:
			p.acknowledged(ctx, e)
		case mcp.NoteResourceUpdated:
			p.updated(ctx, e.Params)
		case mcp.NoteTask:
			p.changed(ctx, e.Params)
		default:
			p.s.told(p.call.Caller, changedBy(e.Method))
		}
	}
	if _, err := p.s.upstream.Handle(ctx, call); err != nil {
		return err
	}
	return errors.New("the upstream ended it")
}

// acknowledged takes what the upstream honours. When it is not the first time, what
// happened since the subscriptions were lost is unknown, so each counts as updated.
func (p *upstreamSubscription) acknowledged(ctx context.Context, e mcp.Event) {
	honoured, _ := mcp.FilterOf(e.Params) // what of it cannot be read is not honoured
	honoured.URIs = slices.DeleteFunc(honoured.URIs, func(uri string) bool { return p.forms[uri] == nil })
	honoured.Tasks = slices.DeleteFunc(honoured.Tasks, func(id string) bool { return p.tasks[id] == nil })
	if p.decide(honoured, e.Failed) {
		return
	}
	for _, native := range honoured.URIs {
		p.updated(ctx, mcp.ResourceUpdated(native).Params)
	}
	for _, native := range honoured.Tasks {
		p.fetchTask(ctx, native)
	}
}

// changed tells the client of a task, by the id that it has.
func (p *upstreamSubscription) changed(ctx context.Context, task mcp.Raw) {
	select {
	case <-p.open:
	case <-ctx.Done():
		return
	}
	for _, public := range p.tasks[mcp.TaskID(task)] {
		p.notify(mcp.Event{Method: mcp.NoteTask, Params: p.s.naming.task(task, public)})
	}
}

// look asks how a task is of which nothing was heard for a while, since its client may
// wait for nothing but what it is told.
func (p *upstreamSubscription) fetchTask(ctx context.Context, native string) {
	call := p.call.Clone()
	call.Method, call.Name, call.Params, call.Notify = mcp.MethodTasksGet, native, mcp.Raw(`{}`), func(mcp.Event) {}
	reply, err := p.s.upstream.Handle(ctx, call)
	if err == nil && reply != nil && reply.Result != nil {
		p.changed(ctx, reply.Result.Edit(mcp.Edit{Name: "resultType"}, mcp.Edit{Name: "_meta"}))
	}
}

// updated tells the client that a resource changed, by the URI that it subscribed to;
// a part of one that it subscribed to (2026-07-28 server/resources) by its public
// URI. Nothing is told before the client's acknowledgement.
func (p *upstreamSubscription) updated(ctx context.Context, params mcp.Raw) {
	uri, ok := params.Member("uri")
	if !ok {
		return
	}
	select {
	case <-p.open:
	case <-ctx.Done():
		return
	}
	native := uri.Text()
	forms := p.forms[native]
	if forms == nil {
		forms = []string{p.s.naming.uri(native)}
	}
	for _, form := range forms {
		p.notify(mcp.Event{Method: mcp.NoteResourceUpdated, Params: params.With("uri", mcp.String(form))})
	}
}

// all are all resources, as not granted for the same reason.
func (p *upstreamSubscription) all(why error) map[string]error {
	if _, ok := errors.AsType[*mcp.Error](why); !ok {
		return nil // nothing that a client may read
	}
	failed := make(map[string]error, len(p.forms))
	for native := range p.forms {
		failed[native] = why
	}
	return failed
}

// decide sets what is honoured, and why others are not, once, and reports whether it did.
// When nothing is, the part ends.
func (p *upstreamSubscription) decide(honoured mcp.Filter, failed map[string]error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.decided {
		return false
	}
	p.decided, p.granted, p.failed = true, honoured, failed
	close(p.answered)
	if len(honoured.URIs)+len(honoured.Tasks) == 0 {
		p.cancel()
	}
	return true
}

// honoured notes what is honoured, and why resources are not, as the client wrote it.
func (p *upstreamSubscription) honoured(uris, tasks map[string]bool, failed map[string]error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, native := range p.granted.URIs {
		for _, form := range p.forms[native] {
			uris[form] = true
		}
	}
	for native, why := range p.failed {
		for _, form := range p.forms[native] {
			failed[form] = why
		}
	}
	for _, native := range p.granted.Tasks {
		for _, form := range p.tasks[native] {
			tasks[form] = true
		}
	}
}
