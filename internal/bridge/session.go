package bridge

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/upstream/admit"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport/streamable"
)

// maxKept bounds the requests that are made again in the next session.
const maxKept = 1000

// session is that of a stateful host at the server.
type session struct {
	conn  *streamable.Conn
	hello request // initialize
	said  mcp.Raw // its result
	// end ends its GET stream; nil before that is opened. Bridge.mu guards it.
	end context.CancelFunc
	// differs is why no other session can take its place; Bridge.renewing guards it.
	differs error

	mu   sync.Mutex // guards kept
	kept []request  // what the server knows of the host: the log level, subscriptions
}

type request struct {
	wire.Message
	text []byte
}

// keep remembers a request if the next session needs it, too.
func (s *session) keep(m wire.Message, text []byte) {
	of := func(method string) func(request) bool {
		return func(r request) bool {
			return r.Method == method && string(r.Params.At("uri")) == string(m.Params.At("uri"))
		}
	}
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch m.Method {
	case mcp.MethodSetLevel, mcp.MethodResourcesSubscribe:
		s.kept = slices.DeleteFunc(s.kept, of(m.Method))
		if len(s.kept) < maxKept {
			s.kept = append(s.kept, request{m, text})
		}
	case mcp.MethodResourcesUnsubscribe:
		s.kept = slices.DeleteFunc(s.kept, of(mcp.MethodResourcesSubscribe))
	}
}

// conn returns the connection for a message, and its session; nil for none.
func (b *Bridge) conn(m wire.Message) (*streamable.Conn, *session) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.session == nil || stateless(m) {
		return b.plain, nil
	}
	return b.session.conn, b.session
}

// open makes initialize at the server, and so begins a session, in place of the one before.
func (b *Bridge) open(ctx context.Context, m wire.Message, text []byte) (wire.Message, error) {
	s, answer, err := b.greet(ctx, request{m, text})
	if err == nil && s != nil {
		if before := b.replace(s); before != nil {
			bye, stop := context.WithTimeout(ctx, byeTime)
			defer stop()
			_ = before.conn.Close(bye) // it ends by itself, too
		}
	}
	return answer, err
}

// greet makes initialize. The session is nil if the server refuses.
func (b *Bridge) greet(ctx context.Context, hello request) (*session, wire.Message, error) {
	conn := b.http.Conn(&transport.Identity{})
	answer, err := b.send(ctx, conn, hello.Message, hello.text)
	if err != nil || answer.Error != nil {
		return nil, answer, err
	}
	version := answer.Result.At("protocolVersion").Text()
	rev := wire.Lookup(version)
	if rev == nil { // it is between the host and the server
		rev = &wire.Revision{Name: version, VersionHeader: true}
	}
	conn.Bind(rev)
	return &session{conn: conn, hello: hello, said: answer.Result}, answer, nil
}

// replace makes s the session, and returns the one before; nil for none.
func (b *Bridge) replace(s *session) (before *session) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before, b.session = b.session, s
	if before != nil && before.end != nil {
		before.end()
	}
	return before
}

// renew begins another session where the server has ended this one (2025-11-25
// basic/transports#session-management). The host need not know: the server has said the same to initialize, and
// learns again what it knew of the host. Lists and resources may have changed meanwhile.
func (b *Bridge) renew(ctx context.Context, gone *session) error {
	select {
	case b.renewing <- struct{}{}:
		defer func() { <-b.renewing }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if _, now := b.conn(wire.Message{}); now != gone {
		return nil
	}
	if gone.differs != nil {
		return gone.differs
	}
	s, answer, err := b.greet(ctx, gone.hello)
	switch {
	case err != nil:
		return err
	case s == nil:
		return wire.ReadError(answer.Error)
	}
	replaced := false
	defer func() {
		if !replaced {
			bye, stop := context.WithTimeout(context.WithoutCancel(ctx), byeTime)
			defer stop()
			_ = s.conn.Close(bye) // it ends by itself, too
		}
	}()
	for _, member := range []string{"protocolVersion", "capabilities"} {
		if string(s.said.At(member)) != string(gone.said.At(member)) {
			gone.differs = mcp.UpstreamError(failure.UpstreamSessionLost, b.host, mcp.ExecutedNo,
				"%s has ended the session, and offers something else in a new one: restart this server in your client", b.host)
			return gone.differs
		}
	}
	if err := s.conn.Post(ctx, wire.AppendNotification(nil, mcp.NoteInitialized, nil)); err != nil {
		return err
	}
	gone.mu.Lock()
	s.kept = slices.Clone(gone.kept)
	gone.mu.Unlock()
	for _, r := range s.kept {
		if answer, err := b.send(ctx, s.conn, r.Message, r.text); err != nil || answer.Error != nil {
			b.log.Warn("the new session lacks something of the one before", failure.UpstreamSessionLost.Attr(),
				"method", r.Method, "error", err)
		}
	}
	b.replace(s)
	replaced = true
	b.listen(s)
	for kind, note := range map[string]string{"tools": mcp.NoteToolsListChanged, "prompts": mcp.NotePromptsListChanged,
		"resources": mcp.NoteResourcesListChanged} {
		if s.said.At("capabilities", kind, "listChanged").IsTrue() {
			b.writeLine(wire.AppendNotification(nil, note, nil))
		}
	}
	return nil
}

// listen keeps the stream of what belongs to no request open, as long as the session is.
func (b *Bridge) listen(s *session) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.end != nil || b.closed {
		return
	}
	ctx, cancel := context.WithCancel(b.base)
	s.end = cancel
	b.wg.Go(func() {
		defer cancel()
		b.hear(ctx, s)
	})
}

// hear passes on what the GET streams of a session have, one after the other.
func (b *Bridge) hear(ctx context.Context, s *session) {
	after, opened, pauses := "", false, admit.NewBackoff()
	for {
		wait := pauses.NextBackOff()
		stream, err := s.conn.OpenGET(ctx, after, nil)
		switch {
		case errors.Is(err, transport.ErrNoGETStream), errors.Is(err, transport.ErrSessionGone) && !opened:
			return // a server without one; a request will find out whether the session is there
		case errors.Is(err, transport.ErrSessionGone):
			if err := b.renew(ctx, s); err != nil && ctx.Err() == nil {
				b.log.Warn("the server has ended the session", failure.UpstreamSessionLost.Attr(), "error", err)
			}
			return
		case err != nil:
			if _, refused := errors.AsType[*transport.StatusError](err); refused {
				after = "" // it may not know the event
			}
		default:
			opened = true
			pauses.Reset()
			_, _ = b.relay(stream, nil)
			after, wait = stream.Resumption()
			if wait == 0 {
				wait = pauses.NextBackOff()
			}
		}
		if pause(ctx, wait) != nil {
			return
		}
	}
}
