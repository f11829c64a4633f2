package mcptest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
)

// maxLine bounds, in bytes, a message on a pipe.
const maxLine = 16 << 20

// pipe is a session over a transport with a single channel for everything from the server:
// HTTP+SSE or stdio. As over Streamable HTTP, a call ends with its function.
type pipe struct {
	server  *Server
	key     string // used by the server even if the revision has no sessions
	session string // as shown to the test
	ctx     context.Context
	cancel  context.CancelFunc

	mu    sync.Mutex // guards the fields below: one writer at a time
	write func(message string) error
	over  bool
	calls sync.WaitGroup
}

func (s *Server) newPipe(ctx context.Context, write func(string) error) *pipe {
	p := &pipe{server: s, key: "pipe-" + s.mint(), write: write}
	if s.revision.Stateful {
		p.session = p.key
	}
	p.ctx, p.cancel = context.WithCancel(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pipes[p.key] = p
	return p
}

// end waits for the calls of a pipe. Nothing is sent for them any more.
func (p *pipe) end() {
	p.server.forget(p.key)
	p.cancel()
	p.mu.Lock()
	p.over = true
	p.mu.Unlock()
	p.calls.Wait()
}

// forget removes the pipe of a key and reports whether there was one.
func (s *Server) forget(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.pipes[key]
	delete(s.pipes, key)
	return ok
}

func (p *pipe) say(message string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.over && p.write(message) != nil {
		p.cancel()
	}
}

// take handles one message, without waiting for the outcome.
func (p *pipe) take(got Received) {
	got.Session = p.session
	do, _ := p.server.record(got)
	switch {
	case got.IsResponse():
		p.server.answered(got.Message)
	case got.ID == nil:
		p.server.notified(p.key, got)
		if got.Method == "notifications/initialized" {
			p.run(got, func(c *Call) { c.join(func() {}) }, (*Call).stay)
		}
	default:
		p.run(got, func(*Call) {}, do)
	}
}

// run works on a call. begin finishes before the next message is handled.
func (p *pipe) run(got Received, begin, do func(*Call)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return
	}
	c := &Call{Received: got, server: p.server, pipe: p, key: p.key + " " + string(got.ID)}
	p.server.enter(p.ctx, c) // before the next message, which may cancel it
	begin(c)
	p.calls.Go(func() { p.server.work(c, do) })
}

// serveLines serves one session over stdio, one message on each line. It ends with its
// input or with the server.
func (s *Server) serveLines(conn io.ReadWriteCloser) {
	p := s.newPipe(s.ctx, func(message string) error {
		_, err := io.WriteString(conn, message+"\n")
		return err
	})
	defer p.end()
	defer conn.Close()
	defer context.AfterFunc(p.ctx, func() { conn.Close() })()
	lines := bufio.NewScanner(conn)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		if m, err := parse(lines.Bytes()); err == nil { // anything else is ignored
			p.take(Received{Message: m})
		}
	}
}

// ListenLines opens a loopback address where every connection is a session over stdio.
// Carry connects the standard input and output of a process to it.
func (s *Server) ListenLines() (address string, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	stop := context.AfterFunc(s.ctx, func() { listener.Close() })
	s.lines.Go(func() {
		defer stop()
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			s.lines.Go(func() { s.serveLines(conn) })
		}
	})
	return listener.Addr().String(), nil
}

// Carry copies lines between a process's input and output and a session of ListenLines
// until either ends.
func Carry(address string, in io.Reader, out io.Writer) error {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	done := make(chan error, 2)
	go func() {
		_, err := io.Copy(conn, in)
		done <- err
	}()
	go func() {
		_, err := io.Copy(out, conn)
		done <- err
	}()
	return <-done // the process ends now
}

// serveSSE handles one request of an HTTP+SSE client (2024-11-05
// basic/transports#http-with-sse): a GET opens a session, POSTs name it.
func (s *Server) serveSSE(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodGet:
		s.streamSSE(w, r)
	case http.MethodPost:
		s.messageSSE(w, r)
	default:
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}

func (s *Server) streamSSE(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	write := func(event, data string) error {
		_, err := fmt.Fprintf(w, "event: %s\ndata: %s\n\n", event, data)
		return errors.Join(err, http.NewResponseController(w).Flush())
	}
	w.Header().Set("Content-Type", "text/event-stream")
	p := s.newPipe(ctx, func(message string) error { return write("message", message) })
	defer p.end()
	p.mu.Lock()
	err := write("endpoint", "?session="+p.key)
	p.mu.Unlock()
	if err == nil {
		<-p.ctx.Done()
	}
}

func (s *Server) messageSSE(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxLine))
	if err != nil {
		return // the client is gone
	}
	m, err := parse(body)
	s.mu.Lock()
	p := s.pipes[r.URL.Query().Get("session")]
	s.mu.Unlock()
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
	case p == nil:
		http.Error(w, "unknown session", http.StatusNotFound)
	default:
		w.WriteHeader(http.StatusAccepted)
		p.take(Received{HTTP: r.Method, Header: r.Header.Clone(), Message: m})
	}
}

// Lose loses one session: over HTTP, its requests are answered with 404; over stdio, its
// process ends.
func (s *Server) Lose(session string) {
	s.mu.Lock()
	delete(s.sessions, session)
	p := s.pipes[session]
	delete(s.pipes, session)
	s.mu.Unlock()
	if p != nil && !s.sse {
		p.cancel()
	}
}
