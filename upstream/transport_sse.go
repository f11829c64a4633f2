package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

const (
	// eventsBefore is how many events may come before the one that names the endpoint.
	eventsBefore = 16
	maxEndpoint  = 4 << 10 // bytes
	// lateAnswer is how long a POST may still take whose request is over: many servers
	// answer it after the request itself.
	lateAnswer = 10 * drainTime
	// overtakeTime is how long a cancellation waits for its request's POST to be answered.
	overtakeTime = 5 * drainTime
)

var (
	// errStreamEnded: the event stream that a message was for has ended.
	errStreamEnded = fmt.Errorf("%w: the event stream has ended", errBroken)
	// errNoStream: what the server sends is no event stream, or not this one.
	errNoStream = errors.New("no event stream")
)

// sse is HTTP with SSE, of the first revision: all that a server says comes on one event
// stream, and each message to it is a POST to where the first event of the stream says
// (2024-11-05 basic/transports#http-with-sse). The stream is the session.
type sse struct {
	*streamable
	name   string
	log    *slog.Logger
	health *health
}

func newSSE(d transportDeps) (Transport, error) {
	t, err := makeStreamable(d)
	if err != nil {
		return nil, err
	}
	return &sse{streamable: t, name: d.cfg.Name, log: d.log, health: d.health}, nil
}

// Dial opens the stream and waits for its first event.
func (t *sse) Dial(ctx context.Context, owner *identity) (Conn, error) {
	// The stream outlives the call that it is opened for, until Close.
	life, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	c, err := t.open(life, owner)
	if !stop() && err == nil {
		c.body.Close()
		err = fmt.Errorf("%w: %w", errBroken, context.Cause(ctx))
	}
	if err != nil {
		cancel(nil)
		return nil, err
	}
	c.cancel = cancel
	t.spawn(c.read)
	return c, nil
}

func (t *sse) open(life context.Context, owner *identity) (*sseConn, error) {
	header := t.template.Header.Clone()
	delete(header, "Content-Type")
	header["Accept"] = []string{typeEvents}
	get := &httpConn{t: t.streamable, owner: owner, header: header}
	resp, err := get.request(life, nil, http.MethodGet, header, nil)
	if err != nil {
		return nil, err
	}
	s := &httpStream{t: t.streamable, resp: resp}
	switch {
	case resp.StatusCode != http.StatusOK:
		return nil, s.refused()
	case mediaType(resp.Header) != typeEvents:
		s.Close()
		return nil, fmt.Errorf("%w: %w", errNoStream, errGarbage)
	}
	counted := &metered{Reader: resp.Body, room: t.outside(owner)}
	events := wire.NewEventReader(counted, max(minMaxLine, int(t.limit)))
	endpoint, err := t.endpoint(events)
	if err != nil {
		s.Close()
		counted.room.Free()
		return nil, err
	}
	posts := *t.streamable
	posts.template = t.template.Clone(context.Background())
	posts.template.URL = endpoint
	return &sseConn{
		t: t, posts: &httpConn{t: &posts, owner: owner, header: t.template.Header},
		life: life, body: resp.Body, events: events, counted: counted, mux: newMux(t.limit, errStreamEnded),
		news: make(chan wire.Message, maxQueued), closing: make(chan struct{}), lost: make(chan struct{}),
	}, nil
}

// endpoint reads on to the event that names the endpoint. It has to be at the origin of
// the stream: whoever could name another one would get the credential that is for this.
func (t *sse) endpoint(events *wire.EventReader) (*url.URL, error) {
	for range eventsBefore {
		event, err := events.Next()
		switch {
		case err != nil:
			return nil, readError(err)
		case event.Name != "endpoint" && (event.Name != "" && event.Name != "message" || len(event.Data) == 0):
			continue
		case event.Name != "endpoint" || len(event.Data) > maxEndpoint:
			return nil, fmt.Errorf("%w: %w", errNoStream, errGarbage)
		}
		base := t.template.URL
		u, err := base.Parse(strings.TrimSpace(string(event.Data)))
		if err != nil || u.Opaque != "" || u.User != nil || !sameOrigin(u, base) {
			return nil, mcp.UpstreamError(mcp.CodeUpstreamBadAnswer, t.name, mcp.ExecutedNo,
				"Upstream %s wants its messages at another address than that of its event stream, which is refused; its url may have to be corrected", t.name)
		}
		u.Fragment, u.RawFragment = "", ""
		return u, nil
	}
	return nil, fmt.Errorf("%w: %w", errNoStream, errGarbage)
}

// sameOrigin compares scheme, host and port (RFC 6454 §5).
func sameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(a.Hostname(), b.Hostname()) && portOf(a) == portOf(b)
}

func portOf(u *url.URL) string {
	if port := u.Port(); port != "" || u.Scheme != "http" && u.Scheme != "https" {
		return port
	}
	if u.Scheme == "https" {
		return "443"
	}
	return "80"
}

// sseConn is one event stream and the POSTs that belong to it: a goroutine that reads,
// one that hands out what belongs to no request, and one for each POST of a request.
type sseConn struct {
	t      *sse
	posts  *httpConn
	life   context.Context // of the stream
	cancel context.CancelCauseFunc
	body   io.ReadCloser
	events *wire.EventReader
	// counted is what events reads from; its room has what waits in news, too
	counted *metered
	mux     *mux
	news    chan wire.Message
	lost    chan struct{} // closed when nothing more can be read

	once    sync.Once
	closing chan struct{} // closed by Close
}

func (c *sseConn) Header() http.Header     { return c.posts.Header() }
func (c *sseConn) Bind(rev *wire.Revision) { c.posts.Bind(rev) }
func (c *sseConn) Resume(string)           {}
func (c *sseConn) Lost() <-chan struct{}   { return c.lost }

// Standing: everything comes on the one stream.
func (c *sseConn) Standing(context.Context, string, func()) (Stream, error) {
	return nil, errNoStanding
}

// Deliver is called once. What is delivered may be answered by a POST, which must not
// keep the stream from being read: some servers answer it only when that was.
func (c *sseConn) Deliver(private bool, deliver func(wire.Message)) {
	c.mux.setDeliver(private, func(m wire.Message) {
		if !c.counted.room.Take(weight(m)) {
			return
		}
		select {
		case c.news <- owned(m):
		default: // a server that says more than is taken in loses it
			c.counted.room.Give(weight(m))
		}
	})
	c.t.spawn(func() {
		for {
			select {
			case m := <-c.news:
				deliver(m)
				c.counted.room.Give(weight(m))
			case <-c.lost:
				return
			}
		}
	})
}

func (c *sseConn) Start(req *Request) (Stream, error) {
	s := c.mux.add(req)
	if s == nil {
		req.Life.end()
		return nil, fmt.Errorf("%w: %w", errSessionGone, errStreamEnded)
	}
	var caller *mcp.Caller
	if req.Caller != nil {
		own := *req.Caller // part of a call, which the POST may outlive
		caller = &own
	}
	header := c.posts.header // Bind replaces it
	s.taken = make(chan struct{})
	c.t.spawn(func() {
		defer close(s.taken)
		c.send(s, caller, header, req.Body)
	})
	return s, nil
}

// send POSTs a request. The answer comes on the stream, often before the POST is
// answered, and what a POST is answered is not looked at.
func (c *sseConn) send(s *muxStream, caller *mcp.Caller, header http.Header, body []byte) {
	ctx, cancel := c.within(context.WithoutCancel(s.life.ctx))
	defer cancel()
	defer context.AfterFunc(s.life.ctx, func() { time.AfterFunc(lateAnswer, cancel) })()
	resp, err := c.post(ctx, caller, header, body)
	if err != nil {
		s.fail(err)
		return
	}
	s.life.touch()
	_, _ = io.CopyN(io.Discard, resp.Body, drainBytes)
	resp.Body.Close()
}

func (c *sseConn) Post(ctx context.Context, body []byte) error {
	ctx, cancel := c.within(ctx)
	defer cancel()
	resp, err := c.post(ctx, nil, c.posts.header, body)
	if err != nil {
		return err
	}
	(&httpStream{t: c.t.streamable, resp: resp}).finish()
	return nil
}

// within returns a context that also ends with the stream.
func (c *sseConn) within(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(c.life, cancel)
	return ctx, func() { stop(); cancel() }
}

// post makes a POST and returns an answer that is not a refusal. A server that does not
// know the session has not taken the message.
func (c *sseConn) post(ctx context.Context, caller *mcp.Caller, header http.Header, body []byte) (*http.Response, error) {
	select {
	case <-c.lost:
		return nil, errStreamEnded
	default:
	}
	resp, err := c.posts.request(ctx, caller, http.MethodPost, header, body)
	if err != nil || resp.StatusCode/100 == 2 {
		return resp, err
	}
	refused := (&httpStream{t: c.t.streamable, resp: resp}).refused()
	if refused.lostSession() {
		return nil, fmt.Errorf("%w: %w", errSessionGone, refused)
	}
	return nil, refused
}

// read sorts the messages until the stream ends.
func (c *sseConn) read() {
	var garbage tolerance
	for {
		event, err := c.events.Next()
		if err != nil {
			switch {
			case errors.Is(err, wire.ErrTooLarge):
				c.t.log.Warn("server sent an event that is too long, its stream is closed", "limit", max(minMaxLine, int(c.t.limit)))
			case errors.Is(err, errNoRoom):
				c.mux.lost = fmt.Errorf("%w: %w", errNoRoom, errStreamEnded)
				c.t.log.Warn("server sent a large event for which there is no room, its stream is closed")
			}
			break
		}
		c.counted.next(c.events.Buffered())
		if len(event.Data) == 0 || event.Name != "" && event.Name != "message" || c.mux.take(event.Data) {
			continue // also a second endpoint: the session stays where it began
		}
		c.t.health.garbage.Add(1)
		c.t.log.Debug("event skipped that is no message", "bytes", len(event.Data))
		if garbage.spent() {
			c.t.log.Warn("server sends too much that is no message, its stream is closed")
			break
		}
	}
	wanted := false
	select {
	case <-c.closing:
		wanted = true
	default:
	}
	c.body.Close()
	close(c.lost) // first: who hears of the end below and calls again gets another stream
	c.mux.end()
	c.counted.room.Free()
	c.cancel(errStreamEnded)
	if !wanted {
		c.t.log.Info("event stream ended")
	}
}

// Close ends the session by ending the stream (2024-11-05 basic/lifecycle#shutdown), and
// the calls that it still has.
func (c *sseConn) Close(context.Context) error {
	c.once.Do(func() { close(c.closing) })
	c.cancel(errEnded)
	<-c.lost
	return nil
}
