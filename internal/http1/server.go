package http1

import (
	"bytes"
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
// request when all of its body is there. The request's context ends with the connection.
type Server struct {
	handler http.Handler
	head    int

	mu     sync.Mutex        // guards the fields below
	busy   map[*serving]bool // whether a request runs on a connection
	closed bool
}

// NewServer makes a Server. headBytes bounds the head of a request.
func NewServer(handler http.Handler, headBytes int) *Server {
	return &Server{handler: handler, head: headBytes, busy: make(map[*serving]bool)}
}

// serving is a connection of a Server. One goroutine receives, another one runs the handler.
type serving struct {
	*conn
	server   *Server
	requests chan request
	answered chan struct{} // closed when the connection is not used again
	out      []byte        // reused for what is sent
}

type request struct {
	*http.Request
	cancel context.CancelFunc
}

// Serve serves the requests on a connection, one after another, and closes the connection. It
// returns when the connection has ended. state goes into the requests; it may be nil.
func (s *Server) Serve(nc net.Conn, state *tls.ConnectionState) {
	c := &serving{conn: newConn(nc, ""), server: s, requests: make(chan request), answered: make(chan struct{}, 1)}
	var receiving sync.WaitGroup
	defer s.forget(c)
	defer receiving.Wait()
	defer close(c.answered)
	defer c.close()
	if !s.mark(c, false) {
		return
	}
	receiving.Go(func() { c.receive(state) })
	for r := range c.requests {
		_ = nc.SetWriteDeadline(time.Time{}) // an error comes again when the answer is written
		w := &writer{c: c, header: make(http.Header)}
		s.handler.ServeHTTP(w, r.Request)
		r.cancel()
		if w.finish() != nil || !s.mark(c, false) {
			return
		}
		c.answered <- struct{}{}
	}
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

// receive receives requests until the connection ends. A Transport sends nothing before it has
// the answer, so that the end of the connection is noticed while a request runs.
func (c *serving) receive(state *tls.ConnectionState) {
	defer close(c.requests)
	open, end := context.WithCancel(context.Background()) // until the connection ends
	defer end()
	from := c.nc.RemoteAddr().String()
	for {
		r, err := c.request(c.server.head)
		if err != nil || !c.server.mark(c, true) {
			return
		}
		r.TLS, r.RemoteAddr = state, from
		ctx, cancel := context.WithCancel(open)
		c.requests <- request{r.WithContext(ctx), cancel}
		if c.fill() != nil {
			return
		}
		if _, ok := <-c.answered; !ok {
			return
		}
	}
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
	if err != nil || target[0] != '/' || !isToken(method) || version != "HTTP/1.1" || len(host) != 1 || !isHost(host[0]) || f.chunked || f.length > MaxRequest {
		return nil, errRequest
	}
	delete(header, "Host")
	r := &http.Request{Method: method, URL: u, RequestURI: target, Host: host[0], Proto: version, ProtoMajor: 1, ProtoMinor: 1, Header: header, Body: http.NoBody}
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
