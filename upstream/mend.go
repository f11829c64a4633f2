package upstream

import (
	"context"
	"errors"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/upstream/admit"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
)

// Subscriptions get lost with the session that they were made in. They are made again,
// until the server has taken them or nobody wants them any more: who listens has been
// promised to hear of changes.

// askAgain subscribes again to a resource. Where the server refuses it, that is the end of it.
func (s *session) askAgain(ctx context.Context, uri string) error {
	_, err := s.request(ctx, mcp.MethodResourcesSubscribe, mcp.Object("uri", mcp.String(uri)))
	if err != nil && s.base.Err() == nil {
		s.u.log.Warn("subscription not restored yet", "error", err)
	}
	return err
}

// resubscribe subscribes again to resources, and returns those of which it could not. What
// was missed in between counts as a change.
func (s *session) resubscribe(uris []string) (failed []string) {
	for _, uri := range uris {
		if s.over() {
			return nil
		}
		ctx, cancel := context.WithTimeout(s.base, s.u.cfg.Timeout.Call)
		err := s.askAgain(ctx, uri)
		cancel()
		switch {
		case errors.Is(err, transport.ErrSessionGone): // the next one has them all
			s.u.pool.lose(s)
			return nil
		case err != nil:
			failed = append(failed, uri)
			continue
		}
		s.slot.keep.event(wire.Message{Kind: wire.Notification, Method: mcp.NoteResourceUpdated, Params: mcp.Object("uri", mcp.String(uri))})
	}
	return failed
}

// mend subscribes to what could not be subscribed to again, some time later.
func (s *session) mend(uris []string) {
	for pauses := admit.NewBackoff(); len(uris) > 0 && wait(s.base, pauses.NextBackOff()) == nil; {
		uris = s.resubscribe(s.slot.keep.wanted(uris))
	}
}

// wanted returns those of the resources that somebody subscribed to.
func (k *keep) wanted(uris []string) (some []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, uri := range uris {
		if k.uris[uri] > 0 {
			some = append(some, uri)
		}
	}
	return some
}
