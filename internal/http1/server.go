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

var (
	// errRequest means that a Transport would not have sent a request like this.
	errRequest = errors.New("http1: the request is malformed")
	errTaken   = errors.New("http1: the connection was hijacked")
)

// Server serves requests on connections that it is given: those of Transports, or with Clients,
// the plain ones of anybody. The handler gets a request when all of its body is there. The
// request's context ends when the handler returns or the connection ends.
type Server struct {
	handler http.Handler
	head    int
	clients *Clients // nil for Transports
	late    late

	mu      sync.Mutex        // guards the fields below
	busy    map[*serving]bool // whether a request runs on a connection
	closed  bool
	serving sync.WaitGroup // calls of Serve; none is added after closed is set
}

// NewServer makes a Server for Transports. headBytes bounds the head of a request.
func NewServer(handler http.Handler, headBytes int) *Server {
	return &Server{handler: handler, head: headBytes, busy: make(map[*serving]bool)}
}

// serving is a connection of a Server.
type serving struct {
	*conn
	base    context.Context // of the requests
	late    *late           // of the Server
	watched chan error      // the result of watch
	date    date

	// Only for late.
	began  time.Time     // the request
	cancel func()        // ends it
	turn   *list.Element // nil when the connection is watched

	mu    sync.Mutex // guards the fields below
	taken bool       // the connection is somebody else's
	over  bool       // the handler has returned
}

// Serve serves the requests on a connection, one after another, and closes the connection, unless
// a handler hijacks it or Clients.Other gets it. It returns when the connection has ended or has
// been given away. state goes into the requests; it may be nil.
func (s *Server) Serve(nc net.Conn, state *tls.ConnectionState) {
	c := &serving{conn: newConn(nc, ""), base: context.Background(), late: &s.late, watched: make(chan error, 1)}
	if !s.admit(c) {
		c.close()
		return
	}
	defer s.serving.Done()
	if s.clients != nil { // elsewhere, the caller recovers
		defer s.clients.recover()
	}
	defer func() {
		s.forget(c)
		if !c.taken {
			c.close()
			s.clients.tell(nc, http.StateClosed)
		}
	}()
	s.clients.begin(c)
	from := nc.RemoteAddr().String()
	for again := true; again; {
		r, err := s.receive(c)
		if errors.Is(err, errOther) && s.mark(c, true) {
			c.taken = true
			s.clients.Other(nc, c.in[:c.w])
			return
		}
		if err != nil || !s.mark(c, true) {
			return
		}
		s.clients.tell(nc, http.StateActive)
		r.TLS, r.RemoteAddr = state, from
		again = s.answer(c, r)
	}
}

// receive receives the next request.
func (s *Server) receive(c *serving) (*http.Request, error) {
	if s.clients == nil {
		return c.request(s.head)
	}
	return c.plain(s.clients)
}

// answer runs the handler. It returns false if the connection cannot be used again.
func (s *Server) answer(c *serving, r *http.Request) (again bool) {
	ctx, cancel := context.WithCancel(c.base) // until the handler returns, or the connection ends
	defer cancel()
	c.over = false
	w := &writer{c: c, header: make(http.Header), clients: s.clients}
	s.late.begin(c, cancel)
	defer func() {
		if c.taken || s.late.end(c) {
			return
		}
		if !again {
			c.close() // ends watch
		}
		again = <-c.watched == nil && again
	}()
	if s.clients == nil {
		_ = c.nc.SetWriteDeadline(time.Time{}) // an error comes again when the answer is written
	}
	s.handler.ServeHTTP(w, r.WithContext(ctx))
	cancel()
	if c.taken || w.finish() != nil || !s.mark(c, false) || w.last {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	s.clients.rest(c)
	return true
}

// watch waits for the next request, or the end of the connection. A Transport sends nothing
// before it has the answer.
func (c *serving) watch(cancel func()) {
	c.mu.Lock()
	taken := c.taken
	if !taken && !c.over {
		_ = c.nc.SetReadDeadline(time.Time{}) // what was set bounds the wait for a request
	}
	c.mu.Unlock()
	err := errTaken
	if !taken {
		err = c.fill()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil && !c.taken {
		cancel()
	}
	c.watched <- err
}

// hijack takes the connection away from the Server. No watch runs afterwards.
func (c *serving) hijack() error {
	c.mu.Lock()
	again := c.taken
	c.taken = true
	c.mu.Unlock()
	if again {
		return http.ErrHijacked
	}
	if !c.late.end(c) {
		_ = c.nc.SetReadDeadline(time.Unix(1, 0)) // ends it
		<-c.watched
	}
	return c.nc.SetDeadline(time.Time{})
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

// Shutdown is Close, and waits until all connections have ended or ctx has. What then still runs
// is cut off, and the error is that of ctx.
func (s *Server) Shutdown(ctx context.Context) error {
	s.Close()
	over := make(chan struct{})
	go func() { // until the last handler returns
		s.serving.Wait()
		close(over)
	}()
	select {
	case <-over:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.busy {
		c.close()
	}
	return ctx.Err()
}

// admit registers a connection. It returns false after Close.
func (s *Server) admit(c *serving) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.busy[c] = false
	s.serving.Add(1)
	return true
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

// request receives a request of a Transport with its body.
func (c *conn) request(limit int) (*http.Request, error) {
	if err := c.readLines(limit, anyLine); err != nil {
		return nil, err
	}
	r, err := c.takeRequest()
	if err != nil || r.ContentLength > MaxRequest {
		return nil, errRequest
	}
	if err := c.takeBody(r); err != nil {
		return nil, err
	}
	if c.r != c.w {
		return nil, errRequest
	}
	c.reset()
	return r, nil
}

// anyLine is for readLines: takeRequest judges the first line.
func anyLine([]byte) error { return nil }

// takeRequest takes the head of a request out of the buffer. The request lacks its body.
func (c *conn) takeRequest() (*http.Request, error) {
	text, header, f, err := c.take()
	if err != nil {
		return nil, err
	}
	line, _, _ := strings.Cut(text, crlf)
	method, line, _ := strings.Cut(line, " ")
	target, version, _ := strings.Cut(line, " ")
	u, err := url.ParseRequestURI(target)
	host := header["Host"]
	if err != nil || target[0] != '/' || !isToken(method) || version != "HTTP/1.1" || len(host) != 1 || !isHost(host[0]) || f.chunked {
		return nil, errRequest
	}
	delete(header, "Host")
	return &http.Request{Method: method, URL: u, RequestURI: target, Host: host[0], Proto: version, ProtoMajor: 1, ProtoMinor: 1, Header: header,
		Body: http.NoBody, ContentLength: max(f.length, 0)}, nil
}

// takeBody receives the body of a request.
func (c *conn) takeBody(r *http.Request) error {
	if r.ContentLength == 0 {
		return nil
	}
	body := make([]byte, r.ContentLength)
	for n := 0; n < len(body); {
		got, err := c.read(body[n:])
		if n += got; err != nil {
			return err
		}
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return nil
}
