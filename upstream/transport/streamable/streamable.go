// Package streamable reaches a server by streamable HTTP. Each message is a POST, answered as JSON
// or as an event stream (2025-11-25 basic/transports, 2026-07-28 basic/transports/streamable-http).
//
// It owns the requests, their credentials, and the reading of the answers. Package sse sends
// its requests by it, too. It leaves connections to an http.RoundTripper (transport/dial).
// It starts a goroutine for an event stream that goes on after its response.
package streamable

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
)

const (
	acceptBoth   = "application/json, text/event-stream"
	typeJSON     = "application/json"
	typeEvents   = "text/event-stream"
	maxSessionID = 1024 // bytes
)

// Config is a server on HTTP.
type Config struct {
	// URL is its endpoint, a valid one.
	URL string
	// Headers go with every request; those of the protocol itself win.
	Headers map[string]mcp.Secret
	// Hop is the name of the gateway in Via, "" for none.
	Hop string
	// HTTP sends the requests. Required.
	HTTP http.RoundTripper
	// HTTPFor returns what sends those that have the credential of a user
	// (Credentials.PerUser), by mcp.Caller.User; nil for HTTP.
	HTTPFor func(user string) http.RoundTripper
	// Credentials are nil for none.
	Credentials Credentials
}

// Transport is streamable HTTP with one server.
type Transport struct {
	env      transport.Env
	cfg      Config
	template *http.Request // what all requests have in common
}

// New makes a Transport.
func New(env transport.Env, cfg Config) *Transport {
	u, _ := url.Parse(cfg.URL) // it is valid
	header := make(http.Header, 8)
	for name, value := range cfg.Headers {
		header.Set(name, string(value))
	}
	header["Content-Type"] = []string{typeJSON}
	header["Accept"] = []string{acceptBoth}
	header["Accept-Encoding"] = []string{"identity"}
	if header["User-Agent"] == nil {
		header["User-Agent"] = []string{mcp.UserAgent()}
	}
	if cfg.Hop != "" {
		header["Via"] = []string{"1.1 " + cfg.Hop}
	}
	return &Transport{env: env, cfg: cfg, template: &http.Request{
		Method: http.MethodPost, URL: u, Host: u.Host, Header: header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}}
}

// URL is the endpoint; not to be changed.
func (t *Transport) URL() *url.URL { return t.template.URL }

// Dial sends nothing: connections are those of the shared pool.
func (t *Transport) Dial(_ context.Context, owner *transport.Identity) (transport.Conn, error) {
	return t.Conn(owner), nil
}

// Conn is what Dial returns.
func (t *Transport) Conn(owner *transport.Identity) *Conn {
	return &Conn{t: t, owner: owner, header: t.template.Header}
}

// Conn is a session, or, as long as the server has given no session id, only a sender of requests.
type Conn struct {
	t     *Transport
	owner *transport.Identity
	// header, inSession and cookies are written before the connection is shared: by initialize
	// and its answer, and by Bind, Resume, At and KeepCookies. The map is not changed, requests
	// share it.
	header    http.Header
	inSession bool
	cookies   *cookies // nil outside of sessions
}

// At sends all further requests to another endpoint at the same origin, as a session on an event
// stream needs it.
func (c *Conn) At(endpoint *url.URL) {
	t := *c.t
	t.template = t.template.WithContext(context.Background())
	t.template.URL = endpoint
	c.t, c.inSession = &t, true
}

// Lost is nil: there is no connection to lose.
func (c *Conn) Lost() <-chan struct{} { return nil }

// Deliver does nothing: there is the GET stream.
func (c *Conn) Deliver(bool, func(wire.Message)) {}

// Header are the headers of all requests, for transport.Conn.
func (c *Conn) Header() http.Header { return c.cookies.in(c.header) }

// Bind sets the revision's header.
func (c *Conn) Bind(rev *wire.Revision) {
	if rev.VersionHeader {
		c.setHeader(wire.HeaderVersion, rev.Name)
	}
}

// Resume takes up a session.
func (c *Conn) Resume(sessionID, kept string) {
	c.inSession, c.cookies = true, keptCookies(kept)
	c.setHeader(wire.HeaderSession, sessionID)
}

// KeepCookies begins a session, as initialize does.
func (c *Conn) KeepCookies() { c.cookies = &cookies{} }

func (c *Conn) setHeader(name, value string) {
	c.header = c.header.Clone()
	c.header[name] = []string{value}
}

// Start sends a request by POST.
func (c *Conn) Start(req *transport.Request) (transport.Stream, error) {
	if req.Method == mcp.MethodInitialize {
		c.KeepCookies()
	}
	header := req.Header
	if header == nil {
		header = c.header
	}
	resp, err := c.request(req.Life, req.Caller, req.Trail, http.MethodPost, Traced(header, req.Trace), req.Body)
	if err != nil {
		req.Life.End()
		return nil, err
	}
	req.Life.Touch()
	s := &stream{t: c.t, owner: c.owner, resp: resp, id: req.ID, life: req.Life, passing: passing(req.Method)}
	if resp.StatusCode != http.StatusOK {
		err := c.refused(resp)
		if status, ok := err.(*transport.StatusError); ok && status.Answers(req) {
			s.messages, s.ended = append(s.one[:0], status.Message), true
			return s, nil
		}
		req.Life.End()
		return nil, err
	}
	if req.Method == mcp.MethodInitialize {
		if err := c.adopt(resp.Header); err != nil {
			s.Close()
			return nil, err
		}
	}
	switch mediaType(resp.Header) {
	case typeJSON:
	case typeEvents:
		s.events = wire.NewEventReader(s, int(c.t.env.ResultBytes))
	default:
		s.Close()
		return nil, transport.Garbage("content type %.80q", resp.Header.Get("Content-Type"))
	}
	return s, nil
}

// adopt takes the session id that comes with the answer to initialize.
func (c *Conn) adopt(h http.Header) error {
	id := h.Get(wire.HeaderSession)
	if id == "" {
		c.cookies = nil
		return nil
	}
	if len(id) > maxSessionID || strings.ContainsFunc(id, func(r rune) bool { return r < 0x21 || r > 0x7e }) {
		return transport.Garbage("its session id is not visible ASCII of at most %d bytes", maxSessionID)
	}
	c.Resume(id, c.cookies.text())
	return nil
}

// Post sends a message that has no answer.
func (c *Conn) Post(ctx context.Context, body []byte) error {
	resp, err := c.POST(ctx, nil, nil, c.header, body)
	if err == nil {
		drain(resp)
	}
	return err
}

// OpenGET opens the session's event stream by GET.
func (c *Conn) OpenGET(ctx context.Context, lastEventID string, alive func()) (transport.Stream, error) {
	resp, err := c.Events(ctx, lastEventID)
	if err != nil {
		return nil, err
	}
	switch {
	case resp.StatusCode == http.StatusMethodNotAllowed, resp.StatusCode == http.StatusOK && !IsEvents(resp):
		resp.Body.Close()
		return nil, transport.ErrNoGETStream
	case resp.StatusCode != http.StatusOK:
		return nil, c.refused(resp)
	}
	s := &stream{t: c.t, owner: c.owner, resp: resp, after: lastEventID, alive: alive}
	s.events = wire.NewEventReader(s, int(c.t.env.ResultBytes))
	return s, nil
}

// Close ends the session at the server, which may not support that (405).
func (c *Conn) Close(ctx context.Context) error {
	if !c.inSession {
		return nil
	}
	resp, err := c.request(ctx, nil, nil, http.MethodDelete, c.header, nil)
	if err == nil {
		drain(resp)
	}
	return err
}

// refused makes the error of an answer without the wanted status.
func (c *Conn) refused(resp *http.Response) error {
	refusal := Refusal(resp)
	if c.inSession {
		return refusal.InSession()
	}
	return refusal
}
