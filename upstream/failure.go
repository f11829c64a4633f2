package upstream

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"

	"github.com/gatehouse-mcp/gatehouse/auth/outbound"
	"github.com/gatehouse-mcp/gatehouse/internal/egress"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/redact"
	"github.com/gatehouse-mcp/gatehouse/upstream/admit"
	"github.com/gatehouse-mcp/gatehouse/upstream/dialect"
	"github.com/gatehouse-mcp/gatehouse/upstream/pool"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport/dial"
)

// failed turns the error of a call into one that the client may read.
func (u *Upstream) failed(ctx context.Context, c *mcp.Call, err error) error {
	return dialect.Inner(u.cfg.Name, c, u.failure(ctx, err))
}

// failure turns an error into one that the client may read, with the cause for the
// operator. It returns the context's error if the caller has left.
func (u *Upstream) failure(ctx context.Context, err error) error {
	told := u.forClient(ctx, err)
	if e, ok := told.(*mcp.Error); ok && e.Cause == "" && u.ours(e) {
		own := *e // several callers may have been waiting for what failed
		own.Cause = u.cause(err)
		if _, ok := errors.AsType[*undecided](err); ok {
			own.Cause += "; what it speaks is not known, since neither server/discover nor initialize was answered: \"revision\" pins it"
		}
		return &own
	}
	return told
}

func (u *Upstream) forClient(ctx context.Context, err error) error {
	if e, ok := errors.AsType[*mcp.Error](err); ok {
		return e
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	executed := mcp.ExecutedUnknown
	if errors.Is(err, dialect.ErrNotStarted) || errors.Is(err, transport.ErrNotSent) {
		executed = mcp.ExecutedNo
	}
	if none, ok := errors.AsType[*outbound.Error](err); ok && none.SignIn {
		return u.fails(failure.SignInNeeded, mcp.ExecutedNo, "Upstream %s needs you to sign in there: %s", none.Why)
	} else if ok {
		return u.fails(failure.UpstreamLogin, mcp.ExecutedNo, "Upstream %s cannot be used: %s", none.Why)
	}
	if status, ok := errors.AsType[*transport.StatusError](err); ok && !errors.Is(err, transport.ErrSessionGone) {
		return u.statusFailure(status, executed)
	}
	switch {
	case errors.Is(err, admit.ErrDraining), executed == mcp.ExecutedNo && u.base.Err() != nil:
		return u.fails(failure.UpstreamClosing, mcp.ExecutedNo, "Upstream %s is being closed; try again")
	case errors.Is(err, transport.ErrNotSent), errors.Is(err, pool.ErrDown):
		return u.fails(failure.UpstreamDown, mcp.ExecutedNo,
			"Upstream %s cannot be reached: %s; try again later", reason(err))
	case errors.Is(err, transport.ErrTimeout) && executed == mcp.ExecutedNo:
		return u.fails(failure.UpstreamTimeout, executed, "Upstream %s did not open a session in time; try again later")
	case errors.Is(err, transport.ErrTimeout):
		return u.fails(failure.UpstreamTimeout, executed,
			"Upstream %s did not answer in time; it may still have done what was asked")
	case errors.Is(err, dialect.ErrClosed):
		return u.fails(failure.UpstreamClosing, executed,
			"Upstream %s was closed during the call; it may have done what was asked")
	case errors.Is(err, dialect.ErrSessionEnded):
		return u.fails(failure.UpstreamSessionLost, executed,
			"The session with upstream %s ended during the call; it may have done what was asked")
	case errors.Is(err, admit.ErrOverloaded):
		return u.fails(failure.UpstreamBusy, mcp.ExecutedNo, "Upstream %s has too much to do; try again later")
	case errors.Is(err, transport.ErrNoRoom):
		return u.fails(failure.NoRoom, executed,
			"The gateway has no room for the large answer of upstream %s now; it may have done what was asked")
	case errors.Is(err, transport.ErrSessionGone):
		return u.fails(failure.UpstreamSessionLost, mcp.ExecutedNo,
			"Upstream %s lost its session and refused the new one, too; try again later")
	case errors.Is(err, transport.ErrTooLarge):
		return u.fails(failure.UpstreamTooLarge, executed, "The answer of upstream %s is larger than %d bytes; ask for less",
			u.cfg.Limits.ResultBytes)
	case errors.Is(err, dialect.ErrWrongEra):
		return u.fails(failure.UpstreamBadAnswer, mcp.ExecutedNo,
			"Upstream %s answers neither server/discover nor initialize; check its address")
	case errors.Is(err, transport.ErrGarbage):
		return u.fails(failure.UpstreamBadAnswer, executed,
			"Upstream %s sent something that is not MCP (%v); check its address", innermost(err))
	case executed == mcp.ExecutedNo:
		return u.fails(failure.UpstreamCut, executed,
			"The connection to upstream %s was lost, and it did not get the call; try again later")
	}
	return u.fails(failure.UpstreamCut, executed,
		"The connection to upstream %s was lost before its answer came; it may have done what was asked")
}

// fails makes an error about this server. The first verb of format stands for its name.
func (u *Upstream) fails(why failure.Name, executed mcp.Executed, format string, args ...any) *mcp.Error {
	return mcp.UpstreamError(why, u.cfg.Name, executed, format, append([]any{u.cfg.Name}, args...)...)
}

// statusFailure returns the error for an HTTP status. A challenge of the server is about
// our credentials and is not passed on.
func (u *Upstream) statusFailure(e *transport.StatusError, executed mcp.Executed) *mcp.Error {
	switch {
	case (e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden) && u.PerUser():
		return u.fails(failure.UpstreamLogin, mcp.ExecutedNo,
			"Upstream %s does not let you (HTTP %d); ask its operator whether you may use it", e.Status)
	case e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden:
		return u.fails(failure.UpstreamLogin, mcp.ExecutedNo,
			"Upstream %s refused the gateway's credentials (HTTP %d); its operator has to set them", e.Status)
	case e.Status == http.StatusTooManyRequests:
		return u.admit.Limited(e.RetryAfter)
	case e.HasError():
		return dialect.NotOurs(wire.ReadError(e.Message.Error))
	case e.Status/100 == 3:
		return u.fails(failure.UpstreamStatus, mcp.ExecutedNo,
			"Upstream %s redirects (HTTP %d), which is not followed; its address has to be corrected", e.Status)
	case e.Status == http.StatusBadGateway || e.Status == http.StatusServiceUnavailable ||
		e.Status == http.StatusGatewayTimeout:
		return u.fails(failure.UpstreamDown, executed, "Upstream %s is not available (HTTP %d); try again later", e.Status)
	case e.Status/100 == 4:
		return u.fails(failure.UpstreamStatus, mcp.ExecutedNo,
			"Upstream %s refused the request (HTTP %d); its operator has to find out why", e.Status)
	}
	if executed == mcp.ExecutedNo {
		return u.fails(failure.UpstreamStatus, executed,
			"Upstream %s failed (HTTP %d); its operator has to find out why", e.Status)
	}
	return u.fails(failure.UpstreamStatus, executed,
		"Upstream %s failed (HTTP %d); it may have done what was asked", e.Status)
}

// reason says in words, without addresses, why a server cannot be reached.
func reason(err error) string {
	network, ok := errors.AsType[net.Error](err)
	proxy, proxied := errors.AsType[*egress.ProxyError](err)
	switch {
	case proxied && proxy.Status != 0:
		return fmt.Sprintf("the proxy before it refused (%d %s)", proxy.Status, http.StatusText(proxy.Status))
	case proxied && errors.Is(err, context.DeadlineExceeded):
		return "the proxy before it does not answer in time"
	case proxied:
		return "the proxy before it does not connect"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case as[*net.DNSError](err) != nil:
		return "its name does not resolve"
	case errors.Is(err, dial.ErrHostService):
		return "its name leads to an address that is refused"
	case as[*tls.CertificateVerificationError](err) != nil:
		return "its certificate is not valid"
	case errors.Is(err, transport.ErrHandshake) && !errors.Is(err, context.DeadlineExceeded):
		return "the TLS handshake with it failed"
	case errors.Is(err, transport.ErrTimeout), errors.Is(err, context.DeadlineExceeded),
		ok && network.Timeout():
		return "it does not answer in time"
	case errors.Is(err, pool.ErrDown):
		return "its process or event stream ended too often"
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return "its program or working directory does not exist"
	case errors.Is(err, fs.ErrPermission):
		return "its program may not be run"
	}
	return "the connection failed"
}

// aboutCredentials reports whether an error concerns only the credential in use: it says nothing
// about other users.
func aboutCredentials(err error) bool {
	status, ok := errors.AsType[*transport.StatusError](err)
	return as[*outbound.Error](err) != nil || ok &&
		(status.Status == http.StatusUnauthorized || status.Status == http.StatusForbidden)
}

// PerUser reports whether each user's calls carry that user's credential. The lists are
// then per user, and calls without a user's credential fail.
func (u *Upstream) PerUser() bool { return u.env.PerUser }

// maxCause bounds a cause, and mostSaid what is in it of stderr, in bytes.
const (
	maxCause = 500
	mostSaid = 350
)

// cause tells the operator what went wrong, at which host or program, and what the server says of
// it. Of a URL it names only the host, since paths and queries may be secrets.
func (u *Upstream) cause(err error) string {
	text := cmp.Or(as[*transport.StatusError](err), as[*egress.ProxyError](err), as[*egress.CertificateError](err),
		as[*net.DNSError](err), as[*net.OpError](err), as[*exec.Error](err), as[*fs.PathError](err), innermost(err)).Error()
	if status, ok := errors.AsType[*transport.StatusError](err); ok && status.Said() != "" {
		text += ": " + u.plain(status.Said())
	} else if len(u.cfg.Command) > 0 && as[*exec.Error](err) == nil && as[*fs.PathError](err) == nil {
		text += u.lastWords(errors.Is(err, transport.ErrTimeout))
	}
	if len(text) > maxCause {
		text = strings.ToValidUTF8(text[:maxCause], "") + "..."
	}
	where := u.hostOrProgram()
	if proxy := u.cfg.proxy(); proxy != "" && as[*egress.ProxyError](err) == nil {
		where += ", through the proxy at " + proxy
	}
	return fmt.Sprintf("%s: %s", where, text)
}

// lastWords says how the last process of a program ended, and what it has said on stderr. silent
// says that it did not answer.
func (u *Upstream) lastWords(silent bool) (words string) {
	said, ended := u.health.program.Load().Last()
	if ended != "" {
		words = " (" + ended + ")"
	}
	if said = u.plain(said); said != "" {
		if over := len(said) - mostSaid; over > 0 {
			said = "..." + strings.ToValidUTF8(said[over:], "")
		}
		return words + "; it has said on stderr: " + said
	}
	if silent && ended == "" {
		words = "; it has said nothing on stderr either. One that has to be fetched, such as with npx or uvx, may not reach where from: " +
			"a proxy and certificates (HTTPS_PROXY, NODE_EXTRA_CA_CERTS, SSL_CERT_FILE) have to be in \"env\""
	}
	return words
}

// plain makes what a server says fit for an operator: one line, without the secrets that it got.
func (u *Upstream) plain(said string) string {
	for _, secret := range u.secrets() {
		said = strings.ReplaceAll(said, secret, redact.Mark)
	}
	said = redact.Text(said)
	return strings.Join(strings.FieldsFunc(said,
		func(r rune) bool { return r == utf8.RuneError || !unicode.IsGraphic(r) || unicode.IsSpace(r) }), " ")
}

// secrets are those of the configuration that cannot be mistaken for words.
func (u *Upstream) secrets() (all []string) {
	const least = 6 // letters
	of := slices.Concat(slices.Collect(maps.Values(u.cfg.Env)), slices.Collect(maps.Values(u.cfg.Headers)),
		u.cfg.Auth.Secrets())
	for _, secret := range of {
		if len(secret) >= least {
			all = append(all, string(secret))
		}
	}
	return all
}

// hostOrProgram says where the server is: a host, or the name of a program.
func (u *Upstream) hostOrProgram() string {
	if len(u.cfg.Command) > 0 {
		return u.cfg.Command[0]
	}
	at, _ := url.Parse(u.cfg.URL) // Validate has read it
	return at.Host
}

// as returns the E that err is or wraps, nil for none.
func as[E error](err error) error {
	if e, ok := errors.AsType[E](err); ok {
		return e
	}
	return nil
}

// innermost returns the innermost wrapped error: those around it repeat addresses.
func innermost(err error) error {
	inner := errors.Unwrap(err)
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		if all := joined.Unwrap(); len(all) > 0 {
			inner = all[len(all)-1]
		}
	}
	if inner == nil {
		return err
	}
	return innermost(inner)
}
