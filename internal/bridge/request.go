package bridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"time"

	"github.com/gatehouse-mcp/gatehouse/auth/outbound"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/upstream/admit"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport/streamable"
)

const (
	// patience is how long a request waits for a server that cannot be reached.
	patience = 15 * time.Second
	// maxSignIns is how often one request has its user sign in: for more rights, say.
	maxSignIns = 2
	// maxTools bounds the tools that are remembered.
	maxTools = 10_000
)

// stateless reports whether a message is complete in itself, without a session.
func stateless(m wire.Message) bool { return m.Params.At("_meta", wire.MetaVersion) != nil }

// send makes a request on a connection, nil for that of the session, and returns the answer. It has the user sign in,
// waits a little for a server that is away, begins another session where this one is gone, and goes on with a stream
// that breaks off (2025-11-25 basic/transports#resumability-and-redelivery).
func (b *Bridge) send(ctx context.Context, conn *streamable.Conn, m wire.Message) (wire.Message, error) {
	if conn == nil && m.Method == mcp.MethodInitialize {
		return b.open(ctx, m)
	}
	listens := m.Method == mcp.MethodListen // it begins again: the server's acknowledgement tells the host
	pauses, reached, after := admit.NewBackoff(), time.Now(), ""
	signIns, began, renewed := 0, false, false
	for {
		on, s := conn, (*session)(nil)
		if on == nil {
			on, s = b.conn(m)
		}
		var answer wire.Message
		var wait time.Duration
		stream, err := b.start(ctx, on, m, after)
		if err == nil {
			if answer, err = b.relay(stream, m.ID); !stateless(m) {
				after, wait = stream.Resumption()
			}
			reached, began = time.Now().Add(wait), true
			pauses.Reset()
		}
		credential, refused := errors.AsType[*outbound.Error](err)
		status, failed := errors.AsType[*transport.StatusError](err)
		away := errors.Is(err, transport.ErrNotSent) && !errors.Is(err, transport.ErrHandshake) && !refused
		lost := errors.Is(err, io.EOF) || errors.Is(err, transport.ErrBroken) ||
			failed && status.Status/100 == 5 && began // of a balancer whose server restarts
		switch {
		case refused && credential.SignIn && signIns < maxSignIns:
			signIns++
			err = b.login.signIn(ctx)
		case errors.Is(err, transport.ErrSessionGone) && s != nil && after == "" && !renewed: // it did not run
			renewed = true
			err = b.renew(ctx, s)
		case (away || lost) && listens:
			if pause(ctx, cmp.Or(wait, pauses.NextBackOff())) == nil {
				err = nil
			}
		case (away || lost && after != "") && time.Since(reached) < patience:
			if pause(ctx, min(cmp.Or(wait, pauses.NextBackOff()), patience-time.Since(reached))) == nil {
				err = nil
			}
		default:
			return answer, unanswered(after, err)
		}
		if err != nil {
			return wire.Message{}, unanswered(after, err)
		}
	}
}

// unanswered returns the error of a request. With an event of its stream, the server has it, whatever became of the
// stream.
func unanswered(after string, err error) error {
	if err == nil || after == "" || errors.Is(err, transport.ErrSessionGone) || errors.Is(err, transport.ErrTooLarge) ||
		errors.Is(err, transport.ErrGarbage) {
		return err
	}
	return fmt.Errorf("%w: %v", transport.ErrBroken, err)
}

// start makes a request, or goes on with its stream after an event.
func (b *Bridge) start(ctx context.Context, conn *streamable.Conn, m wire.Message, after string) (transport.Stream,
	error) {
	if after != "" {
		return conn.OpenGET(ctx, after, nil)
	}
	return conn.Start(&transport.Request{Method: m.Method, Body: text(m), Header: b.header(m),
		Life: transport.NewLife(ctx, 0, 0)})
}

// header returns the headers of a stateless request, nil for those of the session.
func (b *Bridge) header(m wire.Message) http.Header {
	if !stateless(m) {
		return nil
	}
	h := maps.Clone(b.plain.Header())
	h.Set(wire.HeaderVersion, m.Params.At("_meta", wire.MetaVersion).Text())
	h.Set(wire.HeaderMethod, m.Method)
	member := mcp.NameMember(m.Method)
	if member == "" {
		return h
	}
	name := m.Params.At(member).Text()
	h.Set(wire.HeaderName, wire.EncodeHeader(name))
	if m.Method != mcp.MethodToolsCall {
		return h
	}
	b.mu.Lock()
	params := b.params[name]
	b.mu.Unlock()
	for _, p := range params {
		if value, ok := p.Value(m.Params.At("arguments")); ok {
			h.Set(wire.HeaderParamPrefix+p.Name, value)
		}
	}
	return h
}

// learn remembers which arguments of tools a stateless server has repeated in headers (2026-07-28
// basic/transports/streamable-http#custom-headers-from-tool-parameters), by a list that the host reads.
func (b *Bridge) learn(list mcp.Raw) {
	b.mu.Lock()
	defer b.mu.Unlock()
	list.At("tools").Elements(func(tool mcp.Raw) bool {
		params, _ := wire.ParamHeaders(tool.At("inputSchema")) // none where the schema breaks the rules
		b.params[tool.At("name").Text()] = params
		return len(b.params) < maxTools
	})
}

// relay passes on what a stream has, and returns the answer.
func (b *Bridge) relay(stream transport.Stream, id mcp.Raw) (wire.Message, error) {
	defer stream.Close()
	for {
		m, err := stream.Next()
		switch {
		case err != nil:
			return m, err
		case m.Kind != wire.Response:
			b.write(m)
		case m.ID == nil || string(m.ID) == string(id):
			m.ID = id
			return m, nil
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// explain makes the error that the host reads.
func (b *Bridge) explain(m wire.Message, err error) error {
	say := func(name failure.Name, executed mcp.Executed, format string, args ...any) error {
		return mcp.UpstreamError(name, b.host, executed, "%s "+format, append([]any{b.host}, args...)...)
	}
	known, ours := errors.AsType[*mcp.Error](err)
	credential, missing := errors.AsType[*outbound.Error](err)
	status, refused := errors.AsType[*transport.StatusError](err)
	unauthorized := refused && (status.Status == http.StatusUnauthorized || status.Status == http.StatusForbidden)
	switch {
	case ours:
		return known
	case missing && credential.SignIn:
		return say(failure.SignInNeeded, mcp.ExecutedNo, "needs a sign-in: %s", credential.Why)
	case missing:
		return say(failure.UpstreamLogin, mcp.ExecutedNo, "has no token for you now: %s", credential.Why)
	case errors.Is(err, transport.ErrSessionGone):
		return say(failure.UpstreamSessionLost, mcp.ExecutedUnknown,
			"has ended the session: restart this server in your client")
	case refused && status.HasError() && status.Status != http.StatusUnauthorized:
		return wire.ReadError(status.Message.Error)
	case unauthorized:
		return say(failure.UpstreamLogin, mcp.ExecutedNo,
			"refuses what proves who you are (%v): correct the value of --header-env, or ask its operator for access", status)
	case refused && m.Method == mcp.MethodDiscover && status.Status/100 == 4: // the host goes on with initialize
		return mcp.ErrMethod(m.Method)
	case refused:
		return say(failure.UpstreamStatus, mcp.ExecutedUnknown, "does not answer as an MCP server (%v): check the URL, "+
			"and try again later", status)
	case errors.Is(err, transport.ErrHandshake):
		return say(failure.UpstreamDown, mcp.ExecutedNo,
			"has no safe connection: %v. If your company's own authority has signed, name that with --ca-file", err)
	case errors.Is(err, transport.ErrNotSent):
		return say(failure.UpstreamDown, mcp.ExecutedNo, "cannot be reached: %v. Check that it runs, and the URL", err)
	case errors.Is(err, transport.ErrTooLarge):
		return say(failure.UpstreamTooLarge, mcp.ExecutedUnknown, "has an answer of more than %d MiB", maxMessage>>20)
	case errors.Is(err, transport.ErrGarbage):
		return say(failure.UpstreamBadAnswer, mcp.ExecutedUnknown, "answers something that is not MCP (%v): check the URL",
			err)
	}
	return say(failure.UpstreamCut, mcp.ExecutedUnknown,
		"was lost before the answer came: look whether it has run before you try again")
}
