package upstream

import (
	"context"
	"errors"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/upstream/admit"
	"github.com/gatehouse-mcp/gatehouse/upstream/dialect"
	"github.com/gatehouse-mcp/gatehouse/upstream/stateful/restore"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
)

// listenStateful makes a subscription out of what stateful servers have: the
// standing stream and resources/subscribe. It outlives a session that is lost.
func (u *Upstream) listenStateful(ctx context.Context, e *era, c *mcp.Call) (*mcp.Reply, error) {
	want, err := mcp.FilterOf(c.Params)
	if err != nil {
		return nil, err
	}
	s, err := u.sessionFor(ctx, e, c)
	if err != nil {
		return nil, err
	}
	l := s.slot.state.Listen(c.Tasks == mcp.CoreTasks && s.server.Tasks)
	defer func() {
		s.unsubscribe(l.Close())
		u.pool.release(s)
	}()
	s.stand()
	ack, ok := s.honour(ctx, l, want)
	if !ok { // the session is lost; another one has what this one had
		u.pool.lose(s)
		if s, err = u.another(ctx, e, c, s); err != nil {
			return nil, err
		}
		s.stand()
		if ack, ok = s.honour(ctx, l, want); !ok {
			return nil, transport.ErrEnded
		}
	}
	c.Notify(ack)
	for {
		select {
		case <-l.Wake():
			events, err := l.Take()
			for _, event := range events {
				if event, ok := s.inForm(ctx, c, event); ok {
					c.Notify(event)
				}
			}
			if err != nil {
				return nil, err
			}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-s.base.Done():
			if u.base.Err() != nil {
				return nil, errClosed
			}
			if _, err := l.Take(); err != nil { // the client's session has ended, not only this one
				return nil, err
			}
			if s, err = u.another(ctx, e, c, s); err != nil {
				return nil, err
			}
			s.slot.state.Missed()
		}
	}
}

// another returns the session that takes the place of a lost one, which is released. With
// an error it returns the lost one.
func (u *Upstream) another(ctx context.Context, e *era, c *mcp.Call, lost *session) (*session, error) {
	next, err := u.sessionFor(ctx, e, c)
	if err != nil {
		return lost, err
	}
	if next.slot != lost.slot {
		u.pool.release(next)
		return lost, transport.ErrEnded
	}
	u.pool.release(lost)
	return next, nil
}

// honour subscribes to what the server has of what is wanted, and returns what is to be
// said of that. It reports false, and nothing is subscribed, where the session turns out to
// be lost.
func (s *session) honour(ctx context.Context, l *restore.Listener, want mcp.Filter) (said mcp.Event, ok bool) {
	honoured := mcp.Filter{Lists: want.Lists & s.server.Lists}
	var failed map[string]error
	var err error
	honoured.URIs, failed, err = s.subscribeAll(ctx, l, want.URIs)
	if errors.Is(err, transport.ErrSessionGone) {
		l.Want(mcp.Filter{})
		for _, uri := range honoured.URIs {
			if done := s.slot.state.Unsubscribe(uri); done != nil {
				done()
			}
		}
		return said, false
	}
	if s.server.Tasks {
		honoured.Tasks = want.Tasks[:min(len(want.Tasks), maxWanted)]
	}
	l.Want(honoured)
	return mcp.Event{Method: mcp.NoteAcknowledged, Params: honoured.In(nil), Failed: failed}, true
}

// listenStateless passes a subscription through (2026-07-28 basic/patterns/subscriptions).
func (u *Upstream) listenStateless(ctx context.Context, e *era, c *mcp.Call) (*mcp.Reply, error) {
	conn, release, err := u.statelessConn(ctx, e, c)
	if err != nil {
		return nil, err
	}
	defer release()
	life, err := u.life(ctx, true)
	if err != nil {
		return nil, err
	}
	room := u.memory.Outside(u.cfg.Name, admit.User(&c.Caller))
	defer room.Free()
	life.Room.Store(room)
	id := u.ids.Add(1)
	declared := dialect.Capabilities{Raw: "{}"}
	if c.Session == "" {
		declared = u.neutral(e.rev)
	} else if want, _ := mcp.FilterOf(c.Params); len(want.Tasks) > 0 {
		declared = dialect.Declare(c.Caps, e.rev)
	}
	out := dialect.Request{ID: id, Call: c, Rev: e.rev, Meta: u.statelessMeta(e.rev, declared.Raw, "")}
	stream, err := conn.Start(&transport.Request{
		ID: id, Method: c.Method, Caller: &c.Caller, Life: life,
		Body: out.Append(nil), Header: statelessHeader(conn, e.rev, c.Method, ""),
	})
	if err != nil {
		return nil, statelessRefusal(life.Why(err))
	}
	defer stream.Close()
	for {
		m, err := stream.Next()
		switch {
		case err != nil:
			return nil, life.Why(err)
		case answers(m, id) && m.Error != nil:
			return nil, wire.ReadError(m.Error)
		case answers(m, id):
			return &mcp.Reply{Result: mcp.Raw(`{}`)}, nil
		}
		switch m.Method {
		case mcp.NoteAcknowledged, mcp.NoteToolsListChanged, mcp.NotePromptsListChanged,
			mcp.NoteResourcesListChanged, mcp.NoteSkillsListChanged, mcp.NoteResourceUpdated:
			params := m.Params.Without("_meta")
			if params == nil {
				params = mcp.Raw(`{}`)
			}
			c.Notify(mcp.Event{Method: m.Method, Params: params})
		case mcp.NoteTask:
			// What asks what it was told cannot be asked is nothing to be told of.
			if task, err := u.openTask(declared, m.Params.Without("_meta")); err == nil && declared.Tasks {
				c.Notify(mcp.Event{Method: m.Method, Params: task})
			}
		}
	}
}
