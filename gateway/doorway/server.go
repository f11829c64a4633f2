package doorway

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"

	"github.com/gatehouse-mcp/gatehouse/internal/http1"
)

// Server serves a Listener. Small plain requests, as nearly all are, are internal/http1's, which
// needs less for them. A connection on which anything else comes is net/http's from then on.
type Server struct {
	all    *http.Server  // for every kind of request
	plain  *http1.Server // nil: net/http serves everything
	door   *Listener
	others chan net.Conn // connections that all gets
	failed chan error    // from Accept
}

// NewServer makes a server of what an http.Server serves, with its times. It sets its hooks. base is
// the context of all requests.
func NewServer(base context.Context, all *http.Server, door *Listener, c Config) *Server {
	s := &Server{all: all, door: door, others: make(chan net.Conn), failed: make(chan error)}
	all.BaseContext = func(net.Listener) context.Context { return base }
	all.ConnState, all.ConnContext, all.IdleTimeout = door.state, door.context, c.IdleTimeout
	if c.HTTPServer == serverOwn {
		s.plain = http1.NewClientServer(all.Handler, http1.Clients{
			Other:    s.other,
			Context:  func(conn net.Conn) context.Context { return door.context(base, conn) },
			State:    door.state,
			Panicked: func(cause any) { all.ErrorLog.Printf("panic in a handler: %v", cause) },
			First:    all.ReadHeaderTimeout, Idle: c.IdleTimeout, Write: all.WriteTimeout,
		})
	}
	return s
}

// Serve serves until Shutdown or Close, with http.ErrServerClosed, or until the listener fails.
func (s *Server) Serve() error {
	var accepting sync.WaitGroup
	defer accepting.Wait()
	defer s.door.Close() // ends it
	accepting.Go(s.accept)
	return s.all.Serve((*others)(s))
}

// accept accepts connections. After a failure, net/http waits before it wants another one.
func (s *Server) accept() {
	for {
		conn, err := s.door.Accept()
		switch {
		case err != nil:
			select {
			case s.failed <- err:
			case <-s.door.closing:
			}
			if errors.Is(err, net.ErrClosed) {
				return
			}
		case s.plain == nil:
			s.give(conn)
		default:
			go s.plain.Serve(conn, nil) // Shutdown waits for it
		}
	}
}

// other is http1.Clients.Other.
func (s *Server) other(conn net.Conn, received []byte) {
	v := conn.(*visitor)
	v.unread, v.counted = received, true
	if !s.give(v) {
		s.door.state(v, http.StateClosed)
	}
}

// give gives a connection to net/http. It returns false if nothing is served any more.
func (s *Server) give(conn net.Conn) bool {
	select {
	case s.others <- conn:
		return true
	case <-s.door.closing:
		conn.Close()
		return false
	}
}

// Shutdown ends listening and idle connections, and waits until all others have ended or ctx has.
func (s *Server) Shutdown(ctx context.Context) error {
	if s.plain == nil {
		return s.all.Shutdown(ctx)
	}
	s.plain.Close()
	return errors.Join(s.all.Shutdown(ctx), s.plain.Shutdown(ctx))
}

// Close ends everything that Shutdown has left.
func (s *Server) Close() error { return s.all.Close() }

// others is the listener for net/http.
type others Server

// Accept implements net.Listener.
func (o *others) Accept() (net.Conn, error) {
	select {
	case conn := <-o.others:
		return conn, nil
	case err := <-o.failed:
		return nil, err
	case <-o.door.closing:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (o *others) Close() error { return o.door.Close() }

// Addr implements net.Listener.
func (o *others) Addr() net.Addr { return o.door.Addr() }
