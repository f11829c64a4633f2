package bridge

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/auth/accounts"
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
)

// ask makes a request of the host at the server, and returns the answer.
func (b *Bridge) ask(ctx context.Context, m wire.Message, text []byte) (answer wire.Message, err error) {
	if m.Method == mcp.MethodInitialize {
		return b.open(ctx, m, text)
	}
	pauses := admit.NewBackoff()
	renewed, relisted, listened := false, false, false
	for {
		conn, s := b.conn(m)
		answer, err = b.send(ctx, conn, m, text)
		switch {
		case errors.Is(err, transport.ErrSessionGone) && s != nil && !renewed: // it did not run
			renewed = true
			err = b.renew(ctx, s)
		case m.Method == mcp.MethodListen && (lost(err) || listened && errors.Is(err, transport.ErrNotSent)):
			listened = true // the server is asked again: its acknowledgement tells the host
			err = pause(ctx, pauses.NextBackOff())
		case m.Method == mcp.MethodToolsCall && stateless(m) && !relisted && answer.Error != nil &&
			wire.ReadError(answer.Error).Code == mcp.CodeHeaderMismatch: // it did not run
			relisted = true
			err = b.relist(ctx, m)
		default:
			if err == nil && answer.Error == nil {
				b.note(s, m, text, answer)
			}
			return answer, err
		}
		if err != nil {
			return answer, err
		}
	}
}

// lost reports whether a stream has ended without the answer.
func lost(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, transport.ErrBroken) }

// note remembers what an answer means for later requests.
func (b *Bridge) note(s *session, m wire.Message, text []byte, answer wire.Message) {
	switch {
	case !stateless(m):
		s.keep(m, text)
	case m.Method == mcp.MethodToolsList:
		b.tools.learn(answer.Result)
	}
}

// send makes a request on a connection. It has the user sign in, and waits a little for a server that is away.
func (b *Bridge) send(ctx context.Context, conn *streamable.Conn, m wire.Message, text []byte) (answer wire.Message,
	err error) {
	pauses, began, signIns := admit.NewBackoff(), time.Now(), 0
	for {
		answer, err = b.once(ctx, conn, m, text)
		refused, ok := errors.AsType[*outbound.Error](err)
		switch {
		case ok && refused.SignIn && signIns < maxSignIns:
			signIns++
			err = b.login.signIn(ctx)
		case !ok && errors.Is(err, transport.ErrNotSent) && !errors.Is(err, transport.ErrHandshake) &&
			time.Since(began) < patience:
			err = pause(ctx, pauses.NextBackOff())
		default:
			return answer, err
		}
		if err != nil {
			return answer, err
		}
	}
}

// once makes a request one time, and follows its stream where the server goes on with it (2025-11-25
// basic/transports#resumability-and-redelivery).
func (b *Bridge) once(ctx context.Context, conn *streamable.Conn, m wire.Message, text []byte) (answer wire.Message,
	err error) {
	req := &transport.Request{Method: m.Method, Body: text, Header: b.header(m), Life: transport.NewLife(ctx, 0, 0)}
	stream, err := conn.Start(req)
	if status, ok := errors.AsType[*transport.StatusError](err); ok && status.HasError() &&
		status.Status != http.StatusUnauthorized && !errors.Is(err, transport.ErrSessionGone) {
		status.Message.ID = m.ID
		return status.Message, nil
	}
	for err == nil {
		answer, err = b.relay(stream, m.ID)
		after, wait := stream.Resumption()
		if !lost(err) || after == "" || stateless(m) {
			return answer, err
		}
		stream, err = b.resume(ctx, conn, after, wait)
	}
	return answer, err
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

// resume goes on with a stream after an event, when the server wants it.
func (b *Bridge) resume(ctx context.Context, conn *streamable.Conn, after string, wait time.Duration) (transport.Stream,
	error) {
	pauses, began := admit.NewBackoff(), time.Now()
	for {
		if err := pause(ctx, cmp.Or(wait, pauses.NextBackOff())); err != nil {
			return nil, err
		}
		stream, err := conn.OpenGET(ctx, after, nil)
		if !errors.Is(err, transport.ErrNotSent) || time.Since(began) > patience {
			return stream, err
		}
		wait = 0
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

// inFlags says with the flags of this program what package accounts says with the keys of a gateway.
var inFlags = strings.NewReplacer(
	"The operator of the gateway has to register it at", "This client has to be registered at",
	"register the gateway there, and set auth.client_id", "register this client there, and name it with --client-id",
	"set auth.authorization_server of the upstream to", "name it with --authorization-server",
	"auth.authorization_server", "--authorization-server",
	". Tell the gateway's operator", "",
	"The gateway's store", "What this client keeps",
	"the gateway", "this client")

// explain makes the error that the host reads.
func (b *Bridge) explain(m wire.Message, err error) error {
	if _, ok := errors.AsType[*mcp.Error](err); ok {
		return err
	}
	say := func(name failure.Name, executed mcp.Executed, format string, args ...any) error {
		return mcp.UpstreamError(name, b.host, executed, format, args...)
	}
	no, unknown := mcp.ExecutedNo, mcp.ExecutedUnknown
	status, refused := errors.AsType[*transport.StatusError](err)
	problem, failed := errors.AsType[*accounts.Problem](err)
	credential, missing := errors.AsType[*outbound.Error](err)
	switch {
	case failed:
		return say(failure.SignInNeeded, no, "You are not signed in at %s: %s. Try again when that is mended", b.host,
			inFlags.Replace(problem.Error()))
	case missing:
		return say(failure.SignInNeeded, no, "You are not signed in at %s: %s", b.host, credential.Why)
	case errors.Is(err, transport.ErrSessionGone):
		return say(failure.UpstreamSessionLost, no, "%s has ended the session: restart this server in your client", b.host)
	case refused && m.Method == mcp.MethodDiscover && status.Status/100 == 4 && status.Status != http.StatusUnauthorized &&
		status.Status != http.StatusForbidden: // of a server without the method: the host goes on with initialize
		return mcp.ErrMethod(m.Method)
	case refused && (status.Status == http.StatusUnauthorized || status.Status == http.StatusForbidden):
		return say(failure.UpstreamLogin, no,
			"%s refuses what proves who you are (HTTP %d): correct the key of --key-env, or ask its operator for access",
			b.host, status.Status)
	case refused && (status.Status == http.StatusNotFound || status.Status == http.StatusMethodNotAllowed):
		return say(failure.UpstreamStatus, no, "There is no MCP server at this address of %s (HTTP %d): correct the URL",
			b.host, status.Status)
	case refused && status.Status == http.StatusRequestEntityTooLarge:
		return say(failure.UpstreamRefuses, no, "The message is too large for %s", b.host)
	case refused:
		return say(failure.UpstreamStatus, unknown, "%s answers %v, which is no answer; try again later", b.host, status)
	case errors.Is(err, transport.ErrHandshake):
		return say(failure.UpstreamDown, no,
			"There is no safe connection to %s: %v. If your company's own authority has signed, name that with --ca-file",
			b.host, err)
	case errors.Is(err, transport.ErrNotSent):
		return say(failure.UpstreamDown, no,
			"%s cannot be reached: %v. Check that it runs and that the URL is right, then try again", b.host, err)
	case errors.Is(err, transport.ErrTooLarge):
		return say(failure.UpstreamTooLarge, unknown, "The answer of %s is larger than %d MiB", b.host, maxMessage>>20)
	case errors.Is(err, transport.ErrGarbage):
		return say(failure.UpstreamBadAnswer, unknown, "%s answers something that is not MCP (%v): check the URL", b.host,
			err)
	}
	return say(failure.UpstreamCut, unknown,
		"The connection to %s broke before the answer came: look whether it has run before you try again", b.host)
}
