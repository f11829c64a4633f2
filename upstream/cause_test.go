package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream/dialect"
	"github.com/gatehouse-mcp/gatehouse/upstream/pool"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
)

// TestCause: an operator learns exactly what went wrong and where, without those parts of
// an address that may be secret; a client learns neither.
func TestCause(t *testing.T) {
	const secret = "s3cret"
	asked := func(err error) error { return &url.Error{Op: "Post", URL: "https://crm.example/" + secret, Err: err} }
	web := &Upstream{base: t.Context(), cfg: Config{Name: "crm",
		URL: "https://user:" + secret + "@crm.example/" + secret + "?key=" + secret}}
	program := &Upstream{base: t.Context(), cfg: Config{Name: "crm", Command: []string{"uvxx", "--token", secret}}}
	ended, silent := &transport.Program{}, &transport.Program{}
	_, _ = ended.Write([]byte("no such file\n  by \x1b[1mme\x1b[0m\n"))
	ended.End("exit status 1")
	crashed := &Upstream{base: t.Context(), cfg: Config{Name: "crm", Command: []string{"crmd"}}}
	crashed.health.program.Store(ended)
	fetched := &Upstream{base: t.Context(), cfg: Config{Name: "crm", Command: []string{"npx"}}}
	fetched.health.program.Store(silent)
	for _, tt := range []struct {
		at   *Upstream
		err  error
		want string
	}{
		{crashed, fmt.Errorf("%w: %w", dialect.ErrNotStarted, pool.ErrDown),
			"crmd: it ends again and again (exit status 1); it has said on stderr: no such file by [1mme [0m"},
		{fetched, fmt.Errorf("%w: %w", transport.ErrNotSent, transport.ErrTimeout),
			"npx: timeout; it has said nothing on stderr either. One that has to be fetched, such as with npx or uvx, " +
				`may not reach where from: a proxy and certificates (HTTPS_PROXY, NODE_EXTRA_CA_CERTS, SSL_CERT_FILE) have to be in "env"`},
		{web, asked(&net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}),
			"crm.example: dial tcp: connection refused"},
		{web, asked(&net.DNSError{Err: "no such host", Name: "crm.example"}),
			"crm.example: lookup crm.example: no such host"},
		{web, asked(&tls.CertificateVerificationError{Err: errors.New("x509: certificate has expired")}),
			"crm.example: x509: certificate has expired"},
		{web, &transport.StatusError{Status: 404}, "crm.example: HTTP status 404"},
		{web, fmt.Errorf("%w: %w", transport.ErrBroken, asked(io.ErrUnexpectedEOF)), "crm.example: unexpected EOF"},
		{web, errors.New(strings.Repeat("x", 1000)), "crm.example: " + strings.Repeat("x", maxCause) + "..."},
		{program, fmt.Errorf("%w: %w", transport.ErrNotSent, &exec.Error{Name: "uvxx", Err: exec.ErrNotFound}),
			`uvxx: exec: "uvxx": executable file not found in $PATH`},
	} {
		e, ok := errors.AsType[*mcp.Error](tt.at.failure(t.Context(), tt.err))
		if !ok || e.Cause != tt.want {
			t.Errorf("%v: the cause is %+v, want %q", tt.err, e, tt.want)
			continue
		}
		if told := e.Message + string(e.Data) + e.Error(); strings.Contains(told, "uvxx") ||
			strings.Contains(told, "no such file") || strings.Contains(told, "crm.example") ||
			strings.Contains(told+e.Cause, secret) {
			t.Errorf("a client is told %s %s, the operator %s", e.Message, e.Data, e.Cause)
		}
		if why := mcp.Why(e); !strings.Contains(why, tt.want) || strings.Contains(why, "try again") {
			t.Errorf("the operator is told %q", why)
		}
	}
}

// TestAnErrorOfManyCallersIsNotChanged: callers that wait for the same session get the same
// error, at the same time.
func TestAnErrorOfManyCallersIsNotChanged(t *testing.T) {
	u := &Upstream{base: t.Context(), cfg: Config{Name: "crm", URL: "https://crm.example"}}
	shared := mcp.UpstreamError(failure.UpstreamBadAnswer, "crm", mcp.ExecutedNo, "Upstream crm refused to initialize")
	e, ok := errors.AsType[*mcp.Error](u.failure(t.Context(), fmt.Errorf("%w: %w", dialect.ErrNotStarted, shared)))
	if !ok || e.Cause == "" || e.Message != shared.Message {
		t.Errorf("told %+v", e)
	}
	if shared.Cause != "" {
		t.Errorf("what others read meanwhile has the cause %q now", shared.Cause)
	}
}

// TestClosedBeforeTheCallWasSent: a call that meets a reload is told so, and may be made again,
// however the connection failed; what the server may have seen is not.
func TestClosedBeforeTheCallWasSent(t *testing.T) {
	base, stop := context.WithCancelCause(t.Context())
	u := &Upstream{base: base, cfg: Config{Name: "crm", URL: "https://crm.example"}}
	dialled := fmt.Errorf("%w: %w", transport.ErrNotSent, &net.OpError{Op: "dial", Net: "tcp", Err: context.Canceled})
	name := func(err error) failure.Name {
		t.Helper()
		e, ok := errors.AsType[*mcp.Error](u.failure(t.Context(), err))
		if !ok {
			t.Fatalf("%v: it became no error for clients", err)
		}
		return mcp.FailureOf(e)
	}
	if got := name(dialled); got != failure.UpstreamDown {
		t.Errorf("before it is closed: %s", got)
	}
	stop(dialect.ErrClosed)
	if got := name(dialled); got != failure.UpstreamClosing {
		t.Errorf("once it is closed: %s", got)
	}
	if got := name(transport.ErrBroken); got != failure.UpstreamCut {
		t.Errorf("a call that the server may have seen: %s", got)
	}
}
