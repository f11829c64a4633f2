package stateful

import (
	"context"
	"errors"
	"slices"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream/admit"
	"github.com/gatehouse-mcp/gatehouse/upstream/dialect"
	"github.com/gatehouse-mcp/gatehouse/upstream/stateful/restore"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
)

// maxWanted bounds how many resources, and how many tasks, one listener may follow.
const maxWanted = restore.MaxPending / 2

// listen builds a subscription from what stateful servers offer: the GET stream and
// resources/subscribe. It survives the loss of a session.
func (d *Dialect) listen(ctx context.Context, e *dialect.Era, c *mcp.Call) (*mcp.Reply, error) {
	want, err := mcp.FilterOf(c.Params)
	if err != nil {
		return nil, err
	}
	s, err := d.acquire(ctx, e, c)
	if err != nil {
		return nil, err
	}
	l := s.state.Listen(c.Tasks == mcp.CoreTasks && s.server.Tasks)
	defer func() {
		s.unsubscribe(l.Close())
		s.release()
	}()
	s.getStream.open()
	ack, ok := s.honour(ctx, l, want)
	if !ok { // the session is lost; the next one restores its subscriptions
		s.lose()
		if s, err = d.another(ctx, e, c, s); err != nil {
			return nil, err
		}
		s.getStream.open()
		if ack, ok = s.honour(ctx, l, want); !ok {
			return nil, transport.ErrEnded
		}
	}
	c.Notify(ack)
	tell := func() error {
		events, err := l.Take()
		for _, event := range events {
			if event, ok := s.inForm(ctx, c, event); ok {
				c.Notify(event)
			}
		}
		return err
	}
	for {
		select {
		case <-l.Wake():
			if err := tell(); err != nil {
				return nil, err
			}
		case <-ctx.Done():
			_ = tell() // a listener that takes the place of this one came too late for these events
			return nil, context.Cause(ctx)
		case <-s.base.Done():
			if d.env.Base.Err() != nil {
				return nil, dialect.ErrClosed
			}
			if _, err := l.Take(); err != nil { // the client's session has ended, not only this one
				return nil, err
			}
			if s, err = d.another(ctx, e, c, s); err != nil {
				return nil, err
			}
			s.state.Missed()
		}
	}
}

// another returns the session that replaces a lost one, and releases the lost one. If it
// fails, it returns the lost one with the error.
func (d *Dialect) another(ctx context.Context, e *dialect.Era, c *mcp.Call, lost *session) (*session, error) {
	next, err := d.acquire(ctx, e, c)
	if err != nil {
		return lost, err
	}
	if next.at != lost.at {
		next.release()
		return lost, transport.ErrEnded
	}
	lost.release()
	return next, nil
}

// honour subscribes to the wanted resources that the server offers, and returns the
// acknowledgement. If the session turns out to be lost, it reports false and leaves nothing
// subscribed.
func (s *session) honour(ctx context.Context, l *restore.Listener, want mcp.Filter) (said mcp.Event, ok bool) {
	honoured := mcp.Filter{Lists: want.Lists & s.server.Lists}
	failed := make(map[string]error) // why resources are not honoured
	if !s.server.Subscribe {
		want.URIs = nil
	}
	want.URIs = want.URIs[:min(len(want.URIs), maxWanted)]
	l.Want(mcp.Filter{URIs: want.URIs}) // an update may arrive on its stream before the answer
	for _, uri := range want.URIs {
		err := s.state.Subscribe(ctx, uri, func() error { return s.subscribe(ctx, uri) })
		switch {
		case err == nil:
			honoured.URIs = append(honoured.URIs, uri)
		case errors.Is(err, transport.ErrSessionGone):
			l.Want(mcp.Filter{})
			for _, uri := range honoured.URIs {
				if done := s.state.Unsubscribe(uri); done != nil {
					done()
				}
			}
			return said, false
		default:
			failed[uri] = s.d.cfg.Failure(ctx, err)
		}
	}
	if s.server.Tasks {
		honoured.Tasks = want.Tasks[:min(len(want.Tasks), maxWanted)]
	}
	l.Want(honoured)
	return mcp.Event{Method: mcp.NoteAcknowledged, Params: honoured.In(nil), Failed: failed}, true
}

// subscribe asks the server for updates of a resource.
func (s *session) subscribe(ctx context.Context, uri string) error {
	_, err := s.request(ctx, mcp.MethodResourcesSubscribe, mcp.Object("uri", mcp.String(uri)))
	return err
}

// unsubscribe ends the subscriptions of a listener that no other listener wants. The listener's
// context has ended, so unsubscribe has its own time limit.
func (s *session) unsubscribe(uris []string) {
	for _, uri := range uris {
		done := s.state.Unsubscribe(uri)
		if done == nil {
			continue
		}
		if s.over() {
			done()
			continue
		}
		s.env.Spawn(func() {
			defer done()
			ctx, cancel := context.WithTimeout(s.base, dialect.Goodbye)
			defer cancel()
			_, err := s.request(ctx, mcp.MethodResourcesUnsubscribe, mcp.Object("uri", mcp.String(uri)))
			if err != nil && !errors.Is(err, context.Canceled) {
				s.env.Log.Debug("not unsubscribed", "error", err)
			}
		})
	}
}

// subscribeAgain subscribes to a resource again. A refusal of the server is final, and no
// error.
func (s *session) subscribeAgain(ctx context.Context, uri string) error {
	err := s.subscribe(ctx, uri)
	if _, refused := errors.AsType[*mcp.Error](err); refused {
		return nil
	}
	if err != nil && s.base.Err() == nil {
		s.env.Log.Warn("subscription not restored yet", failure.Unsubscribed.Attr(), "error", err)
	}
	return err
}

// resubscribe retries, at intervals, the subscriptions that failed in a new session, until the
// server accepts or refuses them or no listener wants them any more: listeners have been promised
// to hear of changes. Each resource then counts as changed.
func (s *session) resubscribe(uris []string) {
	again := func(uri string) (done bool) {
		ctx, cancel := context.WithTimeout(s.base, s.env.Timeout.Call)
		defer cancel()
		err := s.subscribeAgain(ctx, uri)
		switch {
		case errors.Is(err, transport.ErrSessionGone): // the next session resubscribes to all of them
			s.lose()
		case err == nil:
			s.state.Tell(mcp.ResourceUpdated(uri))
		}
		return err == nil || s.over()
	}
	for pauses := admit.NewBackoff(); len(uris) > 0 && dialect.Wait(s.base, pauses.NextBackOff()) == nil; {
		uris = slices.DeleteFunc(s.state.Wanted(uris), again)
	}
}
