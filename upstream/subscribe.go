package upstream

import (
	"context"
	"errors"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
)

// This file is resources/subscribe and unsubscribe: one of each for all who listen to a
// resource in a session.

// asking is a resources/subscribe that is under way.
type asking struct {
	done chan struct{} // closed when it is over
	ok   bool          // read after that
}

// subscribe counts a listener of a resource.
func (k *keep) subscribe(uri string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.uris[uri]++
}

// ask returns the request that subscribes to a resource; ours says that it is to be made
// now, and then settled. It is nil where that has been done.
func (k *keep) ask(uri string) (a *asking, ours bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	a, known := k.asking[uri]
	if known && (a == nil || !a.failed()) {
		return a, false
	}
	a = &asking{done: make(chan struct{})}
	k.asking[uri] = a
	return a, true
}

// settle ends a request. When it was in vain the next one who wants the resource asks.
func (k *keep) settle(uri string, a *asking, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if a.ok = ok; ok && k.asking[uri] == a {
		k.asking[uri] = nil
	}
	close(a.done)
}

func (a *asking) failed() bool {
	select {
	case <-a.done:
		return !a.ok
	default:
		return false
	}
}

// left waits until nobody unsubscribes a resource any more: who subscribes to it anew must
// not be overtaken by that.
func (k *keep) left(ctx context.Context, uri string) error {
	for {
		k.mu.Lock()
		leaving := k.leaving[uri]
		k.mu.Unlock()
		if leaving == nil {
			return nil
		}
		select {
		case <-leaving:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// leave notes that a resource is being unsubscribed until done is called, unless somebody
// has subscribed to it again, or does so already.
func (k *keep) leave(uri string) (done func(), ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.uris[uri] > 0 || k.leaving[uri] != nil {
		return nil, false
	}
	leaving := make(chan struct{})
	k.leaving[uri] = leaving
	return func() {
		k.mu.Lock()
		delete(k.leaving, uri)
		k.mu.Unlock()
		close(leaving)
	}, true
}

func (k *keep) unsubscribe(uri string) (last bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.uris[uri]--; k.uris[uri] > 0 {
		return false
	}
	delete(k.uris, uri)
	delete(k.asking, uri)
	return true
}

// subscribeAll subscribes to resources, and returns those that it subscribed to and why it
// could not to others. The error says that the session is lost.
func (s *session) subscribeAll(ctx context.Context, l *listening, all []string) (uris []string, failed map[string]error, err error) {
	if !s.server.subscribe {
		return nil, nil, nil
	}
	all = all[:min(len(all), maxPending/2)]
	s.slot.keep.expect(l, all) // an update may come on its stream before the answer does
	for _, uri := range all {
		switch err = s.subscribe(ctx, uri); {
		case err == nil:
			uris = append(uris, uri)
		case errors.Is(err, transport.ErrSessionGone):
			return uris, nil, err
		default:
			if failed == nil {
				failed = make(map[string]error)
			}
			failed[uri] = s.u.failure(ctx, err)
		}
	}
	return uris, failed, nil
}

// subscribe subscribes to a resource, or waits until somebody else has who does already.
func (s *session) subscribe(ctx context.Context, uri string) error {
	k := s.slot.keep
	k.subscribe(uri)
	for {
		a, ours := k.ask(uri)
		if a == nil {
			return nil
		}
		if ours {
			err := s.askFor(ctx, uri)
			k.settle(uri, a, err == nil)
			if err != nil {
				k.unsubscribe(uri)
			}
			return err
		}
		select {
		case <-a.done:
		case <-ctx.Done():
			k.unsubscribe(uri)
			return context.Cause(ctx)
		}
	}
}

// askFor asks the server for updates of a resource.
func (s *session) askFor(ctx context.Context, uri string) error {
	if err := s.slot.keep.left(ctx, uri); err != nil {
		return err
	}
	m, err := s.request(ctx, mcp.MethodResourcesSubscribe, mcp.Object("uri", mcp.String(uri)))
	if err == nil && m.Error != nil {
		err = s.declared.notOurs(wire.ReadError(m.Error))
	}
	return err
}

// unsubscribe ends what a listener subscribed to, where nobody else wants it. Its
// context has ended, so it has a limit of its own.
func (s *session) unsubscribe(l *listening) {
	for _, uri := range l.want.URIs {
		if !s.slot.keep.unsubscribe(uri) || s.over() {
			continue
		}
		done, ok := s.slot.keep.leave(uri)
		if !ok {
			continue
		}
		s.u.spawn(func() {
			defer done()
			ctx, cancel := context.WithTimeout(s.base, goodbye)
			defer cancel()
			_, err := s.request(ctx, mcp.MethodResourcesUnsubscribe, mcp.Object("uri", mcp.String(uri)))
			if err != nil && !errors.Is(err, context.Canceled) {
				s.u.log.Debug("not unsubscribed", "error", err)
			}
		})
	}
}
