package upstream

import (
	"context"
	"errors"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/upstream/admit"
	"github.com/gatehouse-mcp/gatehouse/upstream/stateful/restore"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
)

// maxWanted bounds how many resources, and how many tasks, one listener is told of.
const maxWanted = restore.MaxPending / 2

// subscribeAll subscribes to resources, and returns those that it subscribed to and why it
// could not to others. The error says that the session is lost.
func (s *session) subscribeAll(ctx context.Context, l *restore.Listener, all []string) (uris []string, failed map[string]error, err error) {
	if !s.server.Subscribe {
		return nil, nil, nil
	}
	all = all[:min(len(all), maxWanted)]
	l.Want(mcp.Filter{URIs: all}) // an update may come on its stream before the answer does
	for _, uri := range all {
		err = s.slot.state.Subscribe(ctx, uri, func() error { return s.subscribe(ctx, uri) })
		switch {
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

// subscribe asks the server for updates of a resource.
func (s *session) subscribe(ctx context.Context, uri string) error {
	m, err := s.request(ctx, mcp.MethodResourcesSubscribe, mcp.Object("uri", mcp.String(uri)))
	if err == nil && m.Error != nil {
		err = s.declared.NotOurs(wire.ReadError(m.Error))
	}
	return err
}

// unsubscribe ends what a listener subscribed to, where nobody else wants it. Its
// context has ended, so it has a limit of its own.
func (s *session) unsubscribe(uris []string) {
	for _, uri := range uris {
		done := s.slot.state.Unsubscribe(uri)
		if done == nil {
			continue
		}
		if s.over() {
			done()
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

// subscribeAgain subscribes again to a resource. Where the server refuses it, that is the end of it.
func (s *session) subscribeAgain(ctx context.Context, uri string) error {
	_, err := s.request(ctx, mcp.MethodResourcesSubscribe, mcp.Object("uri", mcp.String(uri)))
	if err != nil && s.base.Err() == nil {
		s.u.log.Warn("subscription not restored yet", "error", err)
	}
	return err
}

// subscribeAllAgain subscribes again to resources, and returns those of which it could not.
// What was missed in between counts as a change.
func (s *session) subscribeAllAgain(uris []string) (failed []string) {
	for _, uri := range uris {
		if s.over() {
			return nil
		}
		ctx, cancel := context.WithTimeout(s.base, s.u.cfg.Timeout.Call)
		err := s.subscribeAgain(ctx, uri)
		cancel()
		switch {
		case errors.Is(err, transport.ErrSessionGone): // the next one has them all
			s.u.pool.lose(s)
			return nil
		case err != nil:
			failed = append(failed, uri)
			continue
		}
		s.slot.state.Tell(mcp.Event{Method: mcp.NoteResourceUpdated, Params: mcp.Object("uri", mcp.String(uri))})
	}
	return failed
}

// resubscribe subscribes, some time later, to what could not be subscribed to in a new
// session, until the server has taken that or nobody wants it any more: who listens has been
// promised to hear of changes.
func (s *session) resubscribe(uris []string) {
	for pauses := admit.NewBackoff(); len(uris) > 0 && wait(s.base, pauses.NextBackOff()) == nil; {
		uris = s.subscribeAllAgain(s.slot.state.Wanted(uris))
	}
}
