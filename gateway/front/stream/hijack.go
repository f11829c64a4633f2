package stream

import (
	"context"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// Most long-lived streams are idle nearly all of the time, and there are many of them. While a
// handler runs, net/http keeps everything that a request needs, with 10 KiB of buffers and a
// 16 KiB stack: more than half of the cost of such a stream. So the stream takes its
// connection over, and the handler returns.

// maxAfter bounds the bytes that a client may send after such a request. They are ignored: the
// answer's head says that the connection closes after it.
const maxAfter = 16 << 10

// joined is the size in bytes up to which a chunk is copied together and written at once.
const joined = 32 << 10

var connClose = []string{"close"}

// CloseAfter makes the connection of a long-lived answer close with it, if the connection
// carries nothing else.
func CloseAfter(rw http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 1 {
		rw.Header()["Connection"] = connClose
	}
}

// conn is a connection that was hijacked for a stream: a ResponseWriter after its head.
type conn struct {
	net.Conn
	writer  *Writer
	chunked bool          // as the head says
	closed  chan struct{} // closed by watch when nothing more can be read
}

// Outlast runs serve, which may write an answer that outlasts the handler. s is its stream, if
// that has begun: a panic of serve ends it. When serve calls lasts with a stream, Outlast hijacks
// the connection and returns. If that is not possible, or there is no stream, Outlast returns when
// serve does. The context ends when the client goes, or cannot be written to any more.
func (w *Writer) Outlast(r *http.Request, s *Stream, serve func(ctx context.Context, lasts func(*Stream))) {
	ctx, gone := context.WithCancel(context.WithoutCancel(r.Context()))
	defer context.AfterFunc(r.Context(), gone)()
	begun, ended := make(chan *Stream, 1), make(chan struct{})
	panicked := false // set before ended
	go func() {       // until the stream ends: the caller counts serve
		defer close(ended)
		defer gone()
		defer func() {
			if cause := recover(); cause != nil {
				panicked = true
				if cause != http.ErrAbortHandler {
					w.Panicked(cause)
				}
				if s != nil { // without a proper end: half of it must not look whole
					s.mu.Lock()
					s.fail()
					s.mu.Unlock()
					s.End("", nil)
				}
			}
		}()
		serve(ctx, func(lasting *Stream) {
			s = lasting
			s.mu.Lock()
			if s.gone = gone; s.broken {
				gone()
			}
			s.mu.Unlock()
			begun <- s
		})
	}()
	select {
	case s := <-begun:
		if s.hijack(r, gone) {
			return
		}
		<-ended
	case <-ended:
	}
	if panicked {
		panic(http.ErrAbortHandler) // half an answer must not look whole
	}
}

// hijack gives the connection of an answer to its stream, which closes it at its end. gone is
// called when the client has gone. hijack returns false if that is not possible: the stream
// has ended, or the ResponseWriter has no connection to give.
func (s *Stream) hijack(r *http.Request, gone func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.writing {
		s.changed.Wait()
	}
	if s.ended || s.broken {
		return false
	}
	s.writing = true
	s.mu.Unlock()
	s.writer.Deadline(s.rc) // for the head
	inner, _, err := s.rc.Hijack()
	s.mu.Lock()
	if err == nil {
		c := &conn{Conn: inner, writer: s.writer, chunked: r.ProtoAtLeast(1, 1), closed: make(chan struct{})}
		s.w, s.rc, s.conn = c, http.NewResponseController(c), c
		s.writer.hijacked.Store(c, nil)
		go c.watch(gone) // until finish, which waits for it
	}
	s.writing = false
	if s.unsent != nil && !s.ended {
		s.wake()
	}
	s.changed.Broadcast()
	return err == nil
}

// watch reads until the client goes, or the connection is closed.
func (c *conn) watch(gone func()) {
	buf := make([]byte, 64)
	for left := maxAfter; left > 0; {
		n, err := c.Conn.Read(buf)
		if err != nil {
			break
		}
		left -= n
	}
	gone()
	close(c.closed)
}

// Header and WriteHeader have no effect: the head has been written.
func (c *conn) Header() http.Header { return http.Header{} }

func (c *conn) WriteHeader(int) {}

// FlushError is for http.ResponseController. There is nothing to flush.
func (c *conn) FlushError() error { return nil }

// Write writes a part of the answer at once.
func (c *conn) Write(p []byte) (int, error) {
	if !c.chunked || len(p) == 0 { // an empty chunk would be the last one
		return c.Conn.Write(p)
	}
	chunk := net.Buffers{append(strconv.AppendInt(nil, int64(len(p)), 16), "\r\n"...), p, []byte("\r\n")}
	if len(p) <= joined {
		chunk = net.Buffers{slices.Concat(chunk...)}
	}
	if _, err := chunk.WriteTo(c.Conn); err != nil {
		return 0, err
	}
	return len(p), nil
}

// finish closes the connection, in good order if the answer is whole.
func (c *conn) finish(whole bool) {
	if whole && c.chunked {
		_ = c.SetWriteDeadline(time.Now().Add(c.writer.Timeout))
		_, _ = c.Conn.Write([]byte("0\r\n\r\n")) // if it fails, the client has gone
	}
	_ = c.Close() // likewise
	<-c.closed
	c.writer.hijacked.Delete(c)
}

// CutHijacked closes the connections of all long-lived streams.
func (w *Writer) CutHijacked() {
	for c := range w.hijacked.Range {
		_ = c.(*conn).Close() // its stream notices
	}
}
