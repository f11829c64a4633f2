package live

import (
	"context"
	"slices"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/refuse"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// Listen starts to listen on behalf of a caller, unless a listener runs already.
func (s *Session) Listen(ctx context.Context, caller mcp.Caller) {
	if s.subscribing.Acquire(ctx, 1) != nil {
		return
	}
	defer s.subscribing.Release(1)
	s.mu.Lock()
	already := s.listener != nil && !s.listener.ended.Load()
	s.missedSome = s.missedSome || s.listener != nil && !already
	s.mu.Unlock()
	if !already {
		s.replace(s.startListener(ctx, caller, session.Of(s.home).Subscriptions))
	}
}

// ListenIfOpen starts to listen if a stream is open that waits for events.
func (s *Session) ListenIfOpen(ctx context.Context, caller mcp.Caller) {
	if s.load().Streams > 0 {
		s.Listen(ctx, caller)
	}
}

// Subscribe adds a resource to those that are listened to, once its server has agreed. Errors:
// those of session.Store, *mcp.Error, and those of ctx.
func (s *Session) Subscribe(ctx context.Context, caller mcp.Caller, uri string) error {
	if err := s.subscribing.Acquire(ctx, 1); err != nil {
		return err
	}
	defer s.subscribing.Release(1)
	r := session.Of(s.home)
	s.mu.Lock()
	now := s.listener
	s.mu.Unlock()
	if slices.Contains(r.Subscriptions, uri) && now != nil && !now.ended.Load() && now.whyNot(uri) == nil {
		return nil
	}
	uris := append(slices.Clone(r.Subscriptions), uri)
	if err := s.relisten(ctx, caller, uris, uri); err != nil {
		return err
	}
	_, err := s.deps.Store.Update(ctx, s.home, func(r *session.Record) {
		if !slices.Contains(r.Subscriptions, uri) {
			r.Subscriptions = append(slices.Clone(r.Subscriptions), uri)
		}
	})
	if err != nil { // as if the client had not asked for it
		_ = s.relisten(ctx, caller, r.Subscriptions, "")
	}
	return err
}

// Unsubscribe removes a resource. Removing a subscription that does not exist succeeds.
// Errors: as Subscribe.
func (s *Session) Unsubscribe(ctx context.Context, caller mcp.Caller, uri string) error {
	if err := s.subscribing.Acquire(ctx, 1); err != nil {
		return err
	}
	defer s.subscribing.Release(1)
	had := 0
	r, err := s.deps.Store.Update(ctx, s.home, func(r *session.Record) {
		had = len(r.Subscriptions)
		r.Subscriptions = slices.DeleteFunc(slices.Clone(r.Subscriptions), func(other string) bool { return other == uri })
	})
	if err == nil && len(r.Subscriptions) < had {
		err = s.relisten(ctx, caller, r.Subscriptions, "")
	}
	return err
}

// relisten listens with another set of resources. The old listener ends after the new one is
// confirmed, so that nothing is missed; it stays if must, unless "", is not confirmed.
func (s *Session) relisten(ctx context.Context, caller mcp.Caller, uris []string, must string) error {
	next := s.startListener(ctx, caller, uris)
	if next == nil {
		return refuse.ClosingError(mcp.ExecutedNo)
	}
	err := next.confirmed(ctx)
	if err == nil && must != "" {
		err = next.whyNot(must)
	}
	if err != nil && must != "" {
		next.cancel()
		return err
	}
	s.replace(next)
	return nil
}

// replace makes next the session's listener.
func (s *Session) replace(next *listener) {
	if next == nil {
		return
	}
	s.mu.Lock()
	old := s.listener
	s.listener = next
	s.mu.Unlock()
	if old != nil {
		old.cancel()
	}
	if s.home.IsOver() || s.deps.Running.Drains() { // too late: the end of all listeners would miss it
		next.cancel()
	}
}

func (s *Session) stopListening() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener != nil {
		s.listener.cancel()
	}
}

// A session has a listener from its first stream on, which many never open. Until then, it
// remembers which lists its client has; its first listener tells which of them have changed.

// NoteList remembers the first page of a list that a client was answered with, as long as no
// listener runs.
func (s *Session) NoteList(c *mcp.Call, reply *mcp.Reply) {
	if reply == nil || reply.List == nil || mcp.ListsRead(c.Method) == 0 {
		return
	}
	if _, later := c.Params.Member("cursor"); later {
		return
	}
	sum := mcp.ListSum(0).Add(reply.List)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener != nil {
		return
	}
	if s.listed == nil {
		s.listed = make(map[string]mcp.ListSum)
	}
	s.listed[c.Method] = sum
}

// tellChangedLists tells the client which of its lists have changed, read through the listener's call.
func (s *Session) tellChangedLists(ctx context.Context, listens *mcp.Call) {
	s.mu.Lock()
	listed := s.listed
	s.listed = nil
	s.mu.Unlock()
	for method, sum := range listed {
		c := listens.Clone()
		c.Method, c.Params, c.Notify = method, nil, func(mcp.Event) {}
		reply, err := s.deps.Handler.Handle(ctx, c)
		if err == nil && reply != nil && reply.List != nil && mcp.ListSum(0).Add(reply.List) == sum {
			continue
		}
		for _, changed := range mcp.ListsRead(method).Events() {
			s.event(changed)
		}
	}
}
