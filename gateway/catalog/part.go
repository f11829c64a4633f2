package catalog

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// part is what a listen call subscribes at one upstream: a listen call there, made
// again whenever it is lost, as long as the client listens.
type part struct {
	c      *Catalog
	s      *source
	call   *mcp.Call
	notify func(mcp.Event)
	open   <-chan struct{}     // closed when events may be sent
	forms  map[string][]string // by original URI: as the client wrote it
	cancel context.CancelFunc  // ends the part

	answered chan struct{} // closed when decided is set
	mu       sync.Mutex    // guards the fields below
	decided  bool          // what is honoured does not change any more
	granted  []string      // original URIs
}

// newParts divides the URIs among the upstreams that may honour them. What belongs to
// nobody, or to an upstream that the caller may not know of, is left out, and so
// missing in the acknowledgement.
func (c *Catalog) newParts(ctx context.Context, call *mcp.Call, sees sight, uris []string, open <-chan struct{}) []*part {
	var parts []*part
	natives := make(map[int][]string)
	bySource := make(map[int]*part)
	for _, uri := range uris {
		to, k, ok := c.findURI(ctx, &call.Caller, uri)
		if !ok || k != resources || !sees.has(to.source) {
			continue
		}
		source, native := to.source, to.native
		if state := &c.view(&call.Caller).states[source]; state.heard && !state.offers.subscribe {
			continue
		}
		p := bySource[source]
		if p == nil {
			p = &part{
				c: c, s: c.sources[source], notify: call.Notify, open: open,
				forms: make(map[string][]string), answered: make(chan struct{}),
			}
			bySource[source], parts = p, append(parts, p)
		}
		if p.forms[native] == nil {
			natives[source] = append(natives[source], native)
		}
		p.forms[native] = append(p.forms[native], uri)
	}
	for _, p := range parts {
		p.call = call.Clone()
		p.call.Params = call.Params.With("notifications", mcp.Object("resourceSubscriptions", stringArray(natives[p.s.index])))
	}
	return parts
}

// awaitParts waits until all upstreams have answered, for a limited time. Those that
// have not by then are not waited for any more: what they were to honour is not
// promised.
func awaitParts(ctx context.Context, parts []*part) {
	timer := time.NewTimer(partWait)
	defer timer.Stop()
	for _, p := range parts {
		select {
		case <-p.answered:
		case <-timer.C:
			timer.Reset(0)
		case <-ctx.Done():
			return
		}
		p.decide(nil)
	}
}

// run listens at the upstream for as long as ctx lasts, unless nothing is honoured
// there in the first place.
func (p *part) run(ctx context.Context) {
	pause := newPause()
	for {
		start := time.Now()
		err := p.attempt(ctx)
		p.decide(nil)
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
func (p *part) attempt(ctx context.Context) error {
	call := p.call.Clone()
	call.Notify = func(e mcp.Event) {
		switch e.Method {
		case mcp.NoteAcknowledged:
			p.acknowledged(ctx, e.Params)
		case mcp.NoteResourceUpdated:
			p.updated(ctx, e.Params)
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
func (p *part) acknowledged(ctx context.Context, params mcp.Raw) {
	notifications, _ := params.Member("notifications")
	list, _ := notifications.Member("resourceSubscriptions")
	var natives []string
	list.Elements(func(uri mcp.Raw) bool {
		if native := uri.Text(); p.forms[native] != nil {
			natives = append(natives, native)
		}
		return len(natives) < maxSubscriptions
	})
	if p.decide(natives) {
		return
	}
	for _, native := range natives {
		p.updated(ctx, mcp.Object("uri", mcp.String(native)))
	}
}

// updated tells the client that a resource changed, by the URI that it subscribed to;
// a part of one that it subscribed to (2026-07-28 server/resources) by its public
// URI. Nothing is told before the client's acknowledgement.
func (p *part) updated(ctx context.Context, params mcp.Raw) {
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

// decide sets what is honoured, once, and reports whether it did. When that is
// nothing, the part ends.
func (p *part) decide(natives []string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.decided {
		return false
	}
	p.decided, p.granted = true, natives
	close(p.answered)
	if len(natives) == 0 {
		p.cancel()
	}
	return true
}

// honoured returns the URIs that are honoured, as the client wrote them.
func (p *part) honoured() (uris []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, native := range p.granted {
		uris = append(uris, p.forms[native]...)
	}
	return uris
}

func stringArray(values []string) mcp.Raw {
	out := mcp.Raw{'['}
	for i, v := range values {
		if i > 0 {
			out = append(out, ',')
		}
		out = mcp.AppendString(out, v)
	}
	return append(out, ']')
}
