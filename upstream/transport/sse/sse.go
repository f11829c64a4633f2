// Package sse reaches a server by HTTP with SSE, of the first revision. Everything that a server
// says comes on one event stream, and each message to it is a POST to the endpoint that the first
// event names (2024-11-05 basic/transports#http-with-sse). The stream is the session.
//
// It owns the stream and which endpoint is accepted. It leaves requests and their
// credentials to transport/streamable, and the sorting of messages to package transport.
// It starts two goroutines for each stream, and one for the POST of each request.
package sse

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/safehttp"
	"github.com/gatehouse-mcp/gatehouse/internal/trail"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport/streamable"
)

const (
	// eventsBefore is how many events may come before the one that names the endpoint.
	eventsBefore = 16
	maxEndpoint  = 4 << 10 // bytes
	// lateAnswer is how long a POST may still take when its request is over: many servers
	// answer the POST last.
	lateAnswer = time.Second
	postAnswer = 64 << 10 // bytes of the answer to a POST that are read
)

// ErrNoStream: what the server sends is no event stream, or not this one.
var ErrNoStream = transport.Garbage("no event stream")

// errStreamEnded: the event stream that a message was for has ended.
var errStreamEnded = fmt.Errorf("%w: the event stream has ended", transport.ErrBroken)

var words = transport.Words{
	Ended:   errStreamEnded,
	TooLong: "server sent an event that is too long, its stream is closed",
	NoRoom:  "server sent a large event for which there is no room, its stream is closed",
	Skipped: "event skipped that is no message",
	Garbage: "server sends too much that is no message, its stream is closed",
}

// New makes the Transport of a server on HTTP+SSE.
func New(env transport.Env, cfg streamable.Config) transport.Transport {
	return &sse{env, streamable.New(env, cfg)}
}

type sse struct {
	env  transport.Env
	http *streamable.Transport
}

// Dial opens the stream and waits for its first event.
func (t *sse) Dial(ctx context.Context, owner *transport.Identity) (transport.Conn, error) {
	life := transport.NewLife(ctx, 0, 0)
	c, err := t.open(life, owner)
	life.Pause() // the stream outlives the call that it is opened for, until Close
	if err == nil && ctx.Err() != nil {
		c.drop()
		err = fmt.Errorf("%w: %w", transport.ErrBroken, context.Cause(ctx))
	}
	if err != nil {
		life.End()
		return nil, err
	}
	t.env.Spawn(c.readAll)
	return c, nil
}

func (t *sse) open(life *transport.Life, owner *transport.Identity) (*conn, error) {
	posts := t.http.Conn(owner)
	posts.KeepCookies()
	resp, err := posts.Events(life, "")
	switch {
	case err != nil:
		return nil, err
	case resp.StatusCode != http.StatusOK:
		return nil, streamable.Refusal(resp)
	case !streamable.IsEvents(resp):
		resp.Body.Close()
		return nil, ErrNoStream
	}
	c := &conn{
		Pipe: transport.NewPipe(t.env, owner, resp.Body, words, nil), env: t.env, posts: posts,
		life: life, body: resp.Body,
	}
	c.events = wire.NewEventReader(c.Pipe, c.MaxDocument())
	endpoint, err := t.endpoint(c.events)
	if err != nil {
		c.drop()
		return nil, err
	}
	posts.At(endpoint)
	return c, nil
}

// endpoint reads up to the event that names the endpoint. It has to be at the origin of the
// stream: any other one would get the credential that is for this server.
func (t *sse) endpoint(events *wire.EventReader) (*url.URL, error) {
	for range eventsBefore {
		event, err := events.Next()
		switch {
		case err != nil:
			return nil, transport.ReadError(err)
		case event.Name != "endpoint" && (event.Name != "" && event.Name != "message" || len(event.Data) == 0):
			continue
		case event.Name != "endpoint" || len(event.Data) > maxEndpoint:
			return nil, ErrNoStream
		}
		base := t.http.URL()
		u, err := base.Parse(strings.TrimSpace(string(event.Data)))
		if err != nil || u.Opaque != "" || u.User != nil || safehttp.Origin(u) != safehttp.Origin(base) {
			return nil, mcp.UpstreamError(failure.UpstreamBadAnswer, t.env.Name, mcp.ExecutedNo,
				"Upstream %s wants its messages at another address than that of its event stream, which is refused; its url may have to be corrected", t.env.Name)
		}
		u.Fragment, u.RawFragment = "", ""
		return u, nil
	}
	return nil, ErrNoStream
}

// conn is one event stream and the POSTs that belong to it.
type conn struct {
	*transport.Pipe
	env    transport.Env
	posts  *streamable.Conn
	life   *transport.Life // of the stream
	body   io.ReadCloser
	events *wire.EventReader
}

// next returns the next event that may be a message, and nothing of another one. A second
// endpoint event is ignored: the session stays where it began.
func (c *conn) next() ([]byte, error) {
	event, err := c.events.Next()
	if event.Name != "" && event.Name != "message" {
		return nil, err
	}
	return event.Data, err
}

func (c *conn) Header() http.Header     { return c.posts.Header() }
func (c *conn) Bind(rev *wire.Revision) { c.posts.Bind(rev) }

// Deliver is called once. It may answer a message by a POST, which must not keep the stream
// from being read: some servers answer the POST only after that.
func (c *conn) Deliver(private bool, deliver func(wire.Message)) {
	news := make(chan wire.Message, transport.MaxQueued)
	c.Pipe.Deliver(private, func(m wire.Message) {
		if !c.Room.Take(transport.Weight(m)) {
			return
		}
		select {
		case news <- transport.Owned(m):
		default: // what a server says faster than it is taken is lost
			c.Room.Give(transport.Weight(m))
		}
	})
	c.env.Spawn(func() {
		for {
			select {
			case m := <-news:
				deliver(m)
				c.Room.Give(transport.Weight(m))
			case <-c.Lost():
				return
			}
		}
	})
}

func (c *conn) Start(req *transport.Request) (transport.Stream, error) {
	taken := make(chan struct{})
	s := c.Begin(req, taken)
	if s == nil {
		req.Life.End()
		return nil, fmt.Errorf("%w: %w", transport.ErrSessionGone, errStreamEnded)
	}
	caller := req.Caller
	if caller != nil {
		caller = new(*caller) // it is part of a call, which the POST may outlive
	}
	// Bind replaces the header
	header, life, body, to := streamable.Traced(c.posts.Header(), req.Trace), req.Life, req.Body, req.Trail
	c.env.Spawn(func() {
		defer close(taken)
		err := c.send(life, caller, to, header, body)
		if status, ok := errors.AsType[*transport.StatusError](err); ok && status.Answers(req) {
			s.Put(status.Message)
		} else if err != nil {
			s.Fail(err)
		}
	})
	return s, nil
}

// send POSTs a request. The answer comes on the stream, often before that to the POST, which
// is ignored.
func (c *conn) send(life *transport.Life, caller *mcp.Caller, to *trail.Trail, header http.Header, body []byte) error {
	ctx, cancel := c.within(context.WithoutCancel(life))
	defer cancel()
	defer context.AfterFunc(life, func() { time.AfterFunc(lateAnswer, cancel) })()
	resp, err := c.posts.POST(ctx, caller, to, header, body)
	if err != nil {
		return err
	}
	life.Touch()
	_, _ = io.CopyN(io.Discard, resp.Body, postAnswer)
	resp.Body.Close()
	return nil
}

func (c *conn) Post(ctx context.Context, body []byte) error {
	ctx, cancel := c.within(ctx)
	defer cancel()
	return c.posts.Post(ctx, body)
}

// within returns a context that also ends with the stream.
func (c *conn) within(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(c.life, cancel)
	return ctx, func() { stop(); cancel() }
}

// readAll reads until the stream ends.
func (c *conn) readAll() {
	lost := c.Sort(c.next, c.events.Buffered)
	c.body.Close()
	wanted := c.End(lost)
	c.life.Cancel(errStreamEnded)
	if !wanted {
		c.env.Log.Info("event stream ended")
	}
}

// drop ends a stream without a reader.
func (c *conn) drop() {
	c.body.Close()
	c.End(errStreamEnded)
}

// Close ends the session by ending the stream (2024-11-05 basic/lifecycle#shutdown), and
// the calls that it still has.
func (c *conn) Close(context.Context) error {
	c.Quit()
	c.life.Cancel(transport.ErrEnded)
	<-c.Lost()
	return nil
}
