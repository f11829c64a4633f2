package http1

import (
	"bytes"
	"container/list"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// errRequest means that a Transport would not have sent a request like this.
var errRequest = errors.New("http1: the request is malformed")

// Server serves the requests of Transports on connections that it is given. The handler gets a
// request when all of its body is there. The request's context ends when the handler returns or
// the connection ends.
type Server struct {
	handler http.Handler
	head    int
	late    late

	mu     sync.Mutex        // guards the fields below
	busy   map[*serving]bool // whether a request runs on a connection
	closed bool
}

// NewServer makes a Server. headBytes bounds the head of a request.
func NewServer(handler http.Handler, headBytes int) *Server {
	return &Server{handler: handler, head: headBytes, busy: make(map[*serving]bool)}
}

// serving is a connection of a Server.
type serving struct {
	*conn
	watched chan error // the result of watch

	// Only for late.
	began  time.Time     // the request
	cancel func()        // ends it
	turn   *list.Element // nil when the connection is watched
}

// Serve serves the requests on a connection, one after another, and closes the connection. It
// returns when the connection has ended. state goes into the requests; it may be nil.
func (s *Server) Serve(nc net.Conn, state *tls.ConnectionState) {
	c := &serving{conn: newConn(nc, ""), watched: make(chan error, 1)}
	defer s.forget(c)
	defer c.close()
	from := nc.RemoteAddr().String()
	for again := s.mark(c, false); again; {
		r, err := c.request(s.head)
		if err != nil || !s.mark(c, true) {
			return
		}
		r.TLS, r.RemoteAddr = state, from
		again = s.answer(c, r)
	}
}

// answer runs the handler. It returns false if the connection cannot be used again.
func (s *Server) answer(c *serving, r *http.Request) (again bool) {
	ctx, cancel := context.WithCancel(context.Background()) // until the handler returns, or the connection ends
	defer cancel()
	s.late.begin(c, cancel)
	defer func() {
		if s.late.end(c) {
			return
		}
		if !again {
			c.close() // ends watch
		}
		again = <-c.watched == nil && again
	}()
	_ = c.nc.SetWriteDeadline(time.Time{}) // an error comes again when the answer is written
	w := &writer{c: c, header: make(http.Header)}
	s.handler.ServeHTTP(w, r.WithContext(ctx))
	cancel()
	return w.finish() == nil && s.mark(c, false)
}

// watch waits for the next request, or the end of the connection. A Transport sends nothing
// before it has the answer.
func (c *serving) watch(cancel func()) {
	err := c.fill()
	if err != nil {
		cancel()
	}
	c.watched <- err
}

// Close closes the connections: those on which no request runs at once, others after the
// answer.
func (s *Server) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for c, busy := range s.busy {
		if !busy {
			c.close()
		}
	}
}

// mark records whether a request runs on a connection. It returns false if none may begin.
func (s *Server) mark(c *serving, busy bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy[c] = busy
	return !s.closed
}

func (s *Server) forget(c *serving) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.busy, c)
}

// request receives a request with its body.
func (c *conn) request(limit int) (*http.Request, error) {
	if err := c.readLines(limit, func([]byte) error { return nil }); err != nil {
		return nil, err
	}
	text, header, f, err := c.take()
	if err != nil {
		return nil, err
	}
	line, _, _ := strings.Cut(text, crlf)
	method, line, _ := strings.Cut(line, " ")
	target, version, _ := strings.Cut(line, " ")
	u, err := url.ParseRequestURI(target)
	host := header["Host"]
	if err != nil || target[0] != '/' || !isToken(method) || version != "HTTP/1.1" || len(host) != 1 || !isHost(host[0]) ||
		f.chunked || f.length > MaxRequest {
		return nil, errRequest
	}
	delete(header, "Host")
	r := &http.Request{Method: method, URL: u, RequestURI: target, Host: host[0],
		Proto: version, ProtoMajor: 1, ProtoMinor: 1, Header: header, Body: http.NoBody}
	if f.length > 0 {
		body := make([]byte, f.length)
		for n := 0; n < len(body); {
			got, err := c.read(body[n:])
			if n += got; err != nil {
				return nil, err
			}
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), f.length
	}
	if c.r != c.w {
		return nil, errRequest
	}
	c.reset()
	return r, nil
}
