package live

import (
	"context"
	"slices"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/refuse"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// lockSubscriptions makes the caller the one who may change the listener.
func (s *Session) lockSubscriptions(ctx context.Context) error {
	select {
	case s.subscribing <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Session) unlockSubscriptions() { <-s.subscribing }

// Listen starts to listen on behalf of a caller unless somebody does already.
func (s *Session) Listen(ctx context.Context, r session.Record, caller mcp.Caller) {
	if s.lockSubscriptions(ctx) != nil {
		return
	}
	defer s.unlockSubscriptions()
	s.mu.Lock()
	already := s.listener != nil && !s.listener.ended.Load()
	s.missedSome = s.missedSome || s.listener != nil && !already
	s.mu.Unlock()
	if !already {
		s.replace(s.startListener(ctx, r, caller, r.Subscriptions))
	}
}

// ListenIfOpen starts to listen if there is a stream that waits for events.
func (s *Session) ListenIfOpen(ctx context.Context, r session.Record, caller mcp.Caller) {
	if s.load().Streams > 0 {
		s.Listen(ctx, r, caller)
	}
}

// Subscribe adds a resource to those that are listened to, once its server has agreed.
// Errors: those of session.Store, *mcp.Error, and those of ctx.
func (s *Session) Subscribe(ctx context.Context, r session.Record, caller mcp.Caller, uri string) error {
	if err := s.lockSubscriptions(ctx); err != nil {
		return err
	}
	defer s.unlockSubscriptions()
	r, err := s.deps.Store.Get(ctx, r.User, r.ID)
	if err != nil {
		return err
	}
	s.mu.Lock()
	now := s.listener
	s.mu.Unlock()
	if slices.Contains(r.Subscriptions, uri) && now.listens(uri) {
		return nil
	}
	uris := append(slices.Clone(r.Subscriptions), uri)
	if err := s.relisten(ctx, r, caller, uris, uri); err != nil {
		return err
	}
	_, err = s.deps.Store.Update(ctx, r.User, r.ID, func(r *session.Record) {
		if !slices.Contains(r.Subscriptions, uri) {
			r.Subscriptions = append(slices.Clone(r.Subscriptions), uri)
		}
	})
	if err != nil { // as if it had not been asked for
		_ = s.relisten(ctx, r, caller, r.Subscriptions, "")
	}
	return err
}

// Unsubscribe takes a resource out. A subscription that does not exist ends as well as any.
// Errors: as Subscribe.
func (s *Session) Unsubscribe(ctx context.Context, r session.Record, caller mcp.Caller, uri string) error {
	if err := s.lockSubscriptions(ctx); err != nil {
		return err
	}
	defer s.unlockSubscriptions()
	had := 0
	r, err := s.deps.Store.Update(ctx, r.User, r.ID, func(r *session.Record) {
		had = len(r.Subscriptions)
		r.Subscriptions = slices.DeleteFunc(slices.Clone(r.Subscriptions), func(other string) bool { return other == uri })
	})
	if err == nil && len(r.Subscriptions) < had {
		err = s.relisten(ctx, r, caller, r.Subscriptions, "")
	}
	return err
}

// relisten listens with another set of resources. It waits until that is confirmed,
// and only then ends the listener before it, so that nothing is missed. A resource
// that must be among the confirmed ones is named by must; without it, everything
// stays as it was.
func (s *Session) relisten(ctx context.Context, r session.Record, caller mcp.Caller, uris []string, must string) error {
	next := s.startListener(ctx, r, caller, uris)
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
	if s.gone.Err() != nil || s.deps.Draining.Err() != nil { // too late for whoever ends listeners to see it
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

// A session is listened for from its first stream on: what changes before would cost a
// listener for each session, and many never open a stream. So it is remembered what lists
// the client has, and its first listener tells which of them are others by then.

// NoteList remembers the first page of a list that a client has been answered with, as long
// as nobody listens on its behalf.
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

// tellChangedLists tells which of the lists that the client has are others now. The call is
// that which listens, from now on.
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
