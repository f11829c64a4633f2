package streamable

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/http1"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/retryafter"
	"github.com/gatehouse-mcp/gatehouse/internal/trail"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
)

const (
	// MaxRetryAfter bounds how long a server can keep calls away.
	MaxRetryAfter = 300 * time.Second

	maxErrorBody = 64 << 10
	maxErrorText = 200 // bytes
	errorTime    = time.Second
	drainBytes   = 64 << 10
	drainTime    = 100 * time.Millisecond
	maxHops      = 3 // from one path to another for one request
)

// Credentials authenticates the requests to one server on HTTP. These are the gateway's own:
// no proof that a client sent goes to a server.
type Credentials interface {
	// PerUser reports whether each user has a credential of its own. Then nothing that a
	// server keeps or answers for one user is shared with another.
	PerUser() bool
	// Authorize sets the header that authenticates a request made for this caller; the zero Caller
	// is no user. Errors are an *outbound.Error.
	Authorize(ctx context.Context, caller mcp.Caller, h http.Header) (stamp uint64, err error)
	// Refused notes that the server answered 401 or 403, with this WWW-Authenticate, to the request
	// with the stamp. It reports whether to make it once more. The error is an *outbound.Error, if
	// it says more than the answer.
	Refused(ctx context.Context, caller mcp.Caller, stamp uint64, status int, challenge string) (again bool, err error)
}

// Traced returns the headers of a request with those of W3C Trace Context: of its span, or else those
// of the client.
func Traced(header http.Header, trace *mcp.Trace) http.Header {
	if trace == nil {
		return header
	}
	parent, state := trace.Header, trace.HeaderState
	if trace.Spanned() {
		parent, state = trace.Parent, trace.State
	}
	if parent == "" {
		return header
	}
	header = maps.Clone(header) // requests share it
	header["Traceparent"] = []string{parent}
	delete(header, "Tracestate")
	if state != "" {
		header["Tracestate"] = []string{state}
	}
	return header
}

// POST sends a message with our credential, on behalf of caller, nil for the owner of the
// connection. The trail of a call, nil for none, notes the credential. An answer with a status
// other than 2xx is an error.
func (c *Conn) POST(ctx context.Context, caller *mcp.Caller, to *trail.Trail, header http.Header,
	body []byte) (*http.Response, error) {
	resp, err := c.request(ctx, caller, to, http.MethodPost, header, body)
	if err == nil && resp.StatusCode/100 != 2 {
		return nil, c.refused(resp)
	}
	return resp, err
}

// Events asks for an event stream by GET: what comes after the event with this id, or all of
// it for "". The answer may have any status.
func (c *Conn) Events(ctx context.Context, lastEventID string) (*http.Response, error) {
	header := c.header.Clone()
	delete(header, "Content-Type")
	header["Accept"] = []string{typeEvents}
	if lastEventID != "" {
		header[wire.HeaderLastEventID] = []string{lastEventID}
	}
	return c.request(ctx, nil, nil, http.MethodGet, header, nil)
}

// request makes a request with our credential and the session's cookies.
func (c *Conn) request(ctx context.Context, caller *mcp.Caller, to *trail.Trail, verb string, header http.Header,
	body []byte) (*http.Response, error) {
	resp, err := c.authorized(ctx, caller, to, verb, c.cookies.in(header), body)
	if err == nil {
		c.cookies.take(resp)
	}
	return resp, err
}

// authorized makes a request with our credential. One that the server refuses for that did not
// run, and is made once more with another one.
func (c *Conn) authorized(ctx context.Context, caller *mcp.Caller, to *trail.Trail, verb string, header http.Header,
	body []byte) (*http.Response, error) {
	credentials, over := c.t.cfg.Credentials, c.t.cfg.HTTP
	if credentials == nil {
		return c.t.send(ctx, over, verb, header, body)
	}
	var who mcp.Caller
	if caller != nil {
		who = *caller
	} else {
		who = c.owner.Caller()
	}
	if c.t.cfg.HTTPFor != nil && credentials.PerUser() {
		over = c.t.cfg.HTTPFor(who.User())
	}
	for again := false; ; again = true {
		own := maps.Clone(header) // requests share it
		step := to.Begin("credential", "")
		stamp, err := credentials.Authorize(ctx, who, own)
		if step.End(""); err != nil {
			return nil, fmt.Errorf("%w: %w", transport.ErrNotSent, err)
		}
		resp, err := c.t.send(ctx, over, verb, own, body)
		if err != nil || !refusesCredential(resp) {
			return resp, err
		}
		challenge := strings.Join(resp.Header.Values("WWW-Authenticate"), ", ")
		another, err := credentials.Refused(ctx, who, stamp, resp.StatusCode, challenge)
		if err == nil && (again || !another) {
			return resp, nil
		}
		drain(resp)
		if err != nil { // a request that was refused so did not run
			return nil, fmt.Errorf("%w: %w", transport.ErrNotSent, err)
		}
	}
}

// refusesCredential reports whether an answer may be about our credential, and not about what was
// asked.
func refusesCredential(resp *http.Response) bool {
	return resp.StatusCode == http.StatusUnauthorized ||
		resp.StatusCode == http.StatusForbidden && (resp.Header["Www-Authenticate"] != nil ||
			mediaType(resp.Header) != typeJSON)
}

// send makes one request, and follows the server to other paths.
func (t *Transport) send(ctx context.Context, over http.RoundTripper, verb string, header http.Header,
	body []byte) (*http.Response, error) {
	for at, hops := t.template.URL, 0; ; hops++ {
		resp, err := t.sendTo(ctx, at, over, verb, header, body)
		if err != nil || resp.StatusCode != http.StatusTemporaryRedirect && resp.StatusCode != http.StatusPermanentRedirect {
			return resp, err
		}
		next, err := resp.Location()
		if err != nil || next.User != nil || next.Scheme != at.Scheme || !strings.EqualFold(next.Host, at.Host) ||
			hops == maxHops {
			return resp, nil
		}
		drain(resp)
		at = next
	}
}

// sendTo makes one request. A body, nil for none, is written together with its head: net/http
// does that for a body that it knows to be in memory.
func (t *Transport) sendTo(ctx context.Context, at *url.URL, over http.RoundTripper, verb string, header http.Header,
	body []byte) (*http.Response, error) {
	req := t.template.WithContext(ctx)
	req.URL = at
	req.Method, req.Header = verb, header
	if body != nil {
		req.Body = io.NopCloser(bytes.NewReader(body))
		req.ContentLength = int64(len(body))
		// A connection that turns out to be closed before anything was written is replaced;
		// net/http repeats a POST in no other case.
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	}
	resp, err := over.RoundTrip(req)
	if err != nil {
		return nil, sendError(err)
	}
	resp.Request = req // transports may have sent another one
	if resp.Header["Content-Encoding"] != nil {
		err = decode(resp)
	}
	return resp, err
}

// sendError tells whether the server can have seen a request that failed.
func sendError(err error) error {
	if errors.Is(err, transport.ErrNotSent) {
		return err
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" || errors.Is(err, transport.ErrHandshake) ||
		errors.Is(err, http1.ErrNotSent) {
		return fmt.Errorf("%w: %w", transport.ErrNotSent, err)
	}
	return fmt.Errorf("%w: %w", transport.ErrBroken, err)
}

// Refusal reads an answer without the wanted status.
func Refusal(resp *http.Response) *transport.StatusError {
	e := &transport.StatusError{
		Status: resp.StatusCode, RetryAfter: retryafter.Read(resp.Header, time.Now(), MaxRetryAfter),
		Challenge: strings.Join(resp.Header.Values("WWW-Authenticate"), ", "),
	}
	if to, err := resp.Location(); err == nil && resp.StatusCode/100 == 3 {
		to.User, to.RawQuery, to.Fragment = nil, "", "" // these may hold secrets
		e.Redirect = to.String()
	}
	timer := time.AfterFunc(errorTime, func() { resp.Body.Close() })
	body, err := wire.ReadAll(resp.Body, resp.ContentLength, maxErrorBody)
	timer.Stop()
	resp.Body.Close()
	if err != nil || IsEvents(resp) {
		return e
	}
	if m, err := wire.ScanUpstream(body); err == nil {
		e.Message = m
	} else {
		e.Text = string(body[:min(len(body), maxErrorText)])
	}
	return e
}

// drain reads what may still come, within bounds, so that the connection can be used again. A
// server that goes on for longer loses the connection.
func drain(resp *http.Response) {
	if resp.ContentLength != 0 {
		timer := time.AfterFunc(drainTime, func() { resp.Body.Close() })
		_, _ = io.CopyN(io.Discard, resp.Body, drainBytes)
		timer.Stop()
	}
	resp.Body.Close()
}

// IsEvents reports whether an answer is an event stream.
func IsEvents(resp *http.Response) bool { return mediaType(resp.Header) == typeEvents }

func mediaType(h http.Header) string {
	value := h.Get("Content-Type")
	if value == typeJSON || value == typeEvents {
		return value
	}
	mediaType, _, err := mime.ParseMediaType(value)
	if err != nil && !errors.Is(err, mime.ErrInvalidMediaParameter) {
		return ""
	}
	return mediaType
}
