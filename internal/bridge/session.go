package bridge

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/upstream/admit"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport/streamable"
)

// session is that of a stateful host at the server.
type session struct {
	conn    *streamable.Conn
	request wire.Message // initialize
	answer  wire.Message
}

// revision is the one that the host and the server have agreed on.
func (s *session) revision() string { return s.answer.Result.At("protocolVersion").Text() }

// conn returns the connection for a message, and its session; nil for none.
func (b *Bridge) conn(m wire.Message) (*streamable.Conn, *session) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.session == nil || stateless(m) {
		return b.plain, nil
	}
	return b.session.conn, b.session
}

// open begins a session for the host, in place of the one before.
func (b *Bridge) open(ctx context.Context, request wire.Message) (wire.Message, error) {
	s, err := b.initialize(ctx, request)
	if err != nil {
		return wire.Message{}, err
	}
	b.mu.Lock()
	before := b.session
	b.session = s
	b.mu.Unlock()
	if before != nil {
		end(ctx, before.conn) // and with it what listen does
	}
	return s.answer, nil
}

// end ends a session at the server, where it ends by itself, too.
func end(ctx context.Context, conn *streamable.Conn) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), byeTime)
	defer stop()
	_ = conn.Close(ctx)
}

// initialize begins a session.
func (b *Bridge) initialize(ctx context.Context, request wire.Message) (*session, error) {
	conn := b.http.Conn(&transport.Identity{})
	answer, err := b.send(ctx, conn, request)
	switch {
	case err != nil:
		return nil, err
	case answer.Error != nil:
		return nil, wire.ReadError(answer.Error)
	}
	s := &session{conn, request, answer}
	conn.Bind(&wire.Revision{Name: s.revision(), VersionHeader: true})
	return s, nil
}

// renew begins another session, as the host has begun it, where the server has ended this one (2025-11-25
// basic/transports#session-management). The host learns that lists may have changed.
func (b *Bridge) renew(ctx context.Context, gone *session) error {
	b.renewal.Lock()
	defer b.renewal.Unlock()
	if _, now := b.conn(wire.Message{}); now != gone {
		return nil
	}
	s, err := b.initialize(ctx, gone.request)
	if err != nil {
		return err
	}
	if s.revision() != gone.revision() { // the host speaks that of before
		end(ctx, s.conn)
		return mcp.UpstreamError(failure.UpstreamSessionLost, b.host, mcp.ExecutedNo,
			"%s has another revision than before: restart this server in your client", b.host)
	}
	if err := s.conn.Post(ctx, wire.AppendNotification(nil, mcp.NoteInitialized, nil)); err != nil {
		return err
	}
	b.mu.Lock()
	b.session = s
	b.mu.Unlock()
	b.listen(s)
	for _, kind := range []string{"tools", "prompts", "resources"} {
		if s.answer.Result.At("capabilities", kind, "listChanged").IsTrue() {
			b.writeLine(wire.AppendNotification(nil, "notifications/"+kind+"/list_changed", nil))
		}
	}
	return nil
}

// listen passes on what the server says in a session outside of requests: by GET streams, one after the other.
func (b *Bridge) listen(s *session) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	b.wg.Go(func() {
		after, pauses := "", admit.NewBackoff()
		for {
			var wait time.Duration
			stream, err := s.conn.OpenGET(b.lasting, after, nil)
			_, refused := errors.AsType[*transport.StatusError](err)
			switch {
			case err == nil:
				pauses.Reset()
				_, _ = b.relay(stream, nil)
				after, wait = stream.Resumption()
			case errors.Is(err, transport.ErrNoGETStream), errors.Is(err, transport.ErrSessionGone):
				return
			case refused:
				after = "" // it may not know the event
			}
			if pause(b.lasting, cmp.Or(wait, pauses.NextBackOff())) != nil {
				return
			}
		}
	})
}
