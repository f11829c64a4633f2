package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/http1"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

const (
	acceptBoth   = "application/json, text/event-stream"
	typeJSON     = "application/json"
	typeEvents   = "text/event-stream"
	maxErrorBody = 64 << 10
	drainBytes   = 64 << 10
	drainTime    = 100 * time.Millisecond
	maxSessionID = 1024
)

// streamable is streamable HTTP: each message is a POST, answered as JSON or as an
// event stream (2025-11-25 basic/transports, 2026-07-28 basic/transports/streamable-http).
type streamable struct {
	http     http.RoundTripper
	httpFor  func(user string) http.RoundTripper // of requests with a user's credential; nil for http
	template *http.Request                       // what all requests have in common
	limit    int64
	spawn    func(func())
	outside  func(owner *identity) *mcp.Room // for what is read outside of calls

	credentials Credentials // nil for none
}

func newStreamable(d transportDeps) (Transport, error) { return makeStreamable(d) }

func makeStreamable(d transportDeps) (*streamable, error) {
	if d.http == nil {
		return nil, errors.New("no HTTP transport was given")
	}
	u, err := url.Parse(d.cfg.URL)
	if err != nil {
		return nil, errors.New("url: cannot be parsed")
	}
	header := make(http.Header, 8)
	for name, value := range d.cfg.Headers {
		header.Set(name, string(value))
	}
	header["Content-Type"] = []string{typeJSON}
	header["Accept"] = []string{acceptBoth}
	if header["User-Agent"] == nil {
		header["User-Agent"] = []string{"gatehouse"}
	}
	return &streamable{
		http:    d.http,
		httpFor: d.httpFor,
		template: &http.Request{
			Method: http.MethodPost, URL: u, Host: u.Host, Header: header,
			Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		},
		limit:       d.cfg.Limits.ResultBytes,
		outside:     d.outside,
		spawn:       d.spawn,
		credentials: d.credentials,
	}, nil
}

// Dial sends nothing: connections are those of the shared pool.
func (t *streamable) Dial(_ context.Context, owner *identity) (Conn, error) {
	return &httpConn{t: t, owner: owner, header: t.template.Header}, nil
}

// httpConn is a session, or, as long as the server gave no session id, merely a way
// to send requests.
type httpConn struct {
	t     *streamable
	owner *identity
	// header and session are written before the connection is shared: by the answer to
	// initialize, and by Bind. The map is not changed, requests share it.
	header  http.Header
	session string
}

func (c *httpConn) Lost() <-chan struct{} { return nil }

func (c *httpConn) Deliver(bool, func(wire.Message)) {}

func (c *httpConn) Header() http.Header { return c.header }

func (c *httpConn) Bind(rev *wire.Revision) {
	if rev.VersionHeader {
		c.setHeader(wire.HeaderVersion, rev.Name)
	}
}

func (c *httpConn) setHeader(name, value string) {
	c.header = c.header.Clone()
	c.header[name] = []string{value}
}

func (c *httpConn) Start(req *Request) (Stream, error) {
	header := req.Header
	if header == nil {
		header = c.header
	}
	resp, err := c.request(req.Life.ctx, req.Caller, http.MethodPost, header, req.Body)
	if err != nil {
		req.Life.end()
		return nil, err
	}
	req.Life.touch()
	s := &httpStream{t: c.t, owner: c.owner, resp: resp, life: req.Life, passing: passing(req.Method)}
	if resp.StatusCode != http.StatusOK {
		return nil, c.refused(s)
	}
	if req.Method == methodInitialize {
		if err := c.adopt(resp.Header); err != nil {
			s.Close()
			return nil, err
		}
	}
	switch mediaType(resp.Header) {
	case typeJSON:
	case typeEvents:
		s.events = wire.NewEventReader(s, int(c.t.limit))
	default:
		s.Close()
		return nil, fmt.Errorf("%w: content type %.80q", errGarbage, resp.Header.Get("Content-Type"))
	}
	return s, nil
}

// adopt takes the session id that comes with the answer to initialize.
func (c *httpConn) adopt(h http.Header) error {
	id := h.Get(wire.HeaderSession)
	if id == "" {
		return nil
	}
	if len(id) > maxSessionID || strings.ContainsFunc(id, func(r rune) bool { return r < 0x21 || r > 0x7e }) {
		return fmt.Errorf("%w: its session id is not visible ASCII of at most %d bytes", errGarbage, maxSessionID)
	}
	c.Resume(id)
	return nil
}

// Resume takes up a session.
func (c *httpConn) Resume(sessionID string) {
	c.session = sessionID
	c.setHeader(wire.HeaderSession, sessionID)
}

func (c *httpConn) Post(ctx context.Context, body []byte) error {
	resp, err := c.request(ctx, nil, http.MethodPost, c.header, body)
	if err != nil {
		return err
	}
	s := &httpStream{t: c.t, resp: resp}
	if resp.StatusCode/100 != 2 {
		return c.refused(s)
	}
	s.finish()
	return nil
}

func (c *httpConn) Standing(ctx context.Context, lastEventID string, alive func()) (Stream, error) {
	header := c.header.Clone()
	delete(header, "Content-Type")
	header["Accept"] = []string{typeEvents}
	if lastEventID != "" {
		header[wire.HeaderLastEventID] = []string{lastEventID}
	}
	resp, err := c.request(ctx, nil, http.MethodGet, header, nil)
	if err != nil {
		return nil, err
	}
	s := &httpStream{t: c.t, owner: c.owner, resp: resp, after: lastEventID, alive: alive}
	switch {
	case resp.StatusCode == http.StatusMethodNotAllowed:
		s.Close()
		return nil, errNoStanding
	case resp.StatusCode != http.StatusOK:
		return nil, c.refused(s)
	case mediaType(resp.Header) != typeEvents:
		s.Close()
		return nil, errNoStanding
	}
	s.events = wire.NewEventReader(s, int(c.t.limit))
	return s, nil
}

// Close ends the session at the server, which may not support that (405).
func (c *httpConn) Close(ctx context.Context) error {
	if c.session == "" {
		return nil
	}
	resp, err := c.request(ctx, nil, http.MethodDelete, c.header, nil)
	if err != nil {
		return err
	}
	(&httpStream{t: c.t, resp: resp}).finish()
	return nil
}

// send makes one request. A body, nil for none, goes in one write with its head: net/http
// does that for one that it knows to be in memory.
func (t *streamable) send(ctx context.Context, over http.RoundTripper, verb string, header http.Header, body []byte) (*http.Response, error) {
	req := t.template.WithContext(ctx)
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
	return resp, nil
}

// sendError tells whether the server can have seen a request that failed.
func sendError(err error) error {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" || errors.Is(err, errHandshake) || errors.Is(err, http1.ErrNotSent) {
		return fmt.Errorf("%w: %w", errNotSent, err)
	}
	return fmt.Errorf("%w: %w", errBroken, err)
}

// refused makes the error of an answer whose status is not the wanted one. A 404
// says that the session is gone (2025-11-25 basic/transports#session-management), as
// older servers say with 400.
func (c *httpConn) refused(s *httpStream) error {
	e := s.refused()
	if c.session == "" {
		return e
	}
	if e.lostSession() {
		return fmt.Errorf("%w: %w", errSessionGone, e)
	}
	return e
}

// lostSession reports whether a server says with a status that it does not know the
// session of a request.
func (e *statusError) lostSession() bool {
	code, text := 0, e.Text
	if e.hasError() {
		known := wire.ReadError(e.Message.Error)
		code, text = known.Code, known.Message
	}
	switch e.Status {
	case http.StatusNotFound:
		return code != mcp.CodeMethodNotFound
	case http.StatusBadRequest:
		return (code == 0 || code == -32000 || code == -32001 || code == mcp.CodeInvalidRequest) && sessionWords.MatchString(text)
	}
	return false
}

// sessionWords are in what older servers say about a session that they do not know.
var sessionWords = regexp.MustCompile(`(?i)session|not initialized`)
