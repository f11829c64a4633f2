package front

import (
	"context"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// A stream that lasts is idle nearly all of the time, and there are many of them. For as
// long as a handler runs, net/http keeps all that a request needs, with buffers of 10 KiB
// and a stack of 16: more than half of what such a stream would cost. So it takes its
// connection over, and the handler returns.

// maxAfter is how many bytes a client may send after a request whose answer lasts. They
// are not looked at: it was told that the connection closes with the answer.
const maxAfter = 16 << 10

var connClose = []string{"close"}

// closeAfter has the connection of an answer that lasts close with it, where it carries
// nothing else.
func closeAfter(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 1 {
		w.Header()["Connection"] = connClose
	}
}

// ownConn is a connection that a stream has taken over. It is an http.ResponseWriter whose
// head was written.
type ownConn struct {
	net.Conn
	f       *Front
	chunked bool          // as the head has said
	closed  chan struct{} // by watch, when nothing more can be read
}

// outlast has serve write an answer that lasts. Once serve has called lasts with the
// stream, that takes the connection over and outlast returns; where it cannot, and where
// there is no stream after all, outlast returns when serve does. The context ends when
// the client goes.
func (f *Front) outlast(r *http.Request, serve func(ctx context.Context, lasts func(*stream))) {
	ctx, gone := context.WithCancel(context.WithoutCancel(r.Context()))
	unlink := context.AfterFunc(r.Context(), gone)
	defer unlink()
	begun, ended := make(chan *stream, 1), make(chan struct{})
	broke := false // set before ended
	go func() {    // until the stream ends: serve counts it, so that Close waits
		var s *stream
		defer close(ended)
		defer gone()
		defer func() {
			if cause := recover(); cause != nil {
				broke = true
				f.recovered(cause, "")
				if s != nil {
					s.cut()
				}
			}
		}()
		serve(ctx, func(lasting *stream) {
			s = lasting
			begun <- s
		})
	}()
	select {
	case s := <-begun:
		if f.takeOver(s, r, gone) {
			return
		}
		<-ended
	case <-ended:
	}
	if broke {
		panic(http.ErrAbortHandler) // half an answer must not look whole
	}
}

// takeOver makes the connection of an answer its stream's own, which closes it when it
// ends. gone is called when the client has gone. It reports false where that cannot be:
// the stream has ended, or the ResponseWriter has no connection to give away.
func (f *Front) takeOver(s *stream, r *http.Request, gone func()) bool {
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
	_ = s.rc.SetWriteDeadline(time.Now().Add(s.time)) // for the head
	conn, _, err := s.rc.Hijack()
	s.mu.Lock()
	if err == nil {
		c := &ownConn{Conn: conn, f: f, chunked: r.ProtoAtLeast(1, 1), closed: make(chan struct{})}
		s.w, s.rc, s.own = c, http.NewResponseController(c), c
		f.mu.Lock()
		f.owned[c] = struct{}{}
		f.mu.Unlock()
		go c.watch(gone) // until finish, which waits for it
	}
	s.writing = false
	if len(s.unsent) > 0 && !s.ended {
		s.wake()
	}
	s.changed.Broadcast()
	return err == nil
}

// watch reads until the client goes, or the connection is closed.
func (c *ownConn) watch(gone func()) {
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

// Header, of http.ResponseWriter, is of no use any more.
func (c *ownConn) Header() http.Header { return http.Header{} }

// WriteHeader, of http.ResponseWriter, is of no use any more.
func (c *ownConn) WriteHeader(int) {}

// FlushError, which http.ResponseController wants, has nothing to do.
func (c *ownConn) FlushError() error { return nil }

// Write writes a piece of the answer at once.
func (c *ownConn) Write(p []byte) (int, error) {
	if !c.chunked || len(p) == 0 { // of which a chunk would be the last one
		return c.Conn.Write(p)
	}
	parts := [][]byte{append(strconv.AppendInt(nil, int64(len(p)), 16), "\r\n"...), p, []byte("\r\n")}
	if len(p) <= joined {
		parts = [][]byte{slices.Concat(parts...)}
	}
	for _, part := range parts {
		if _, err := c.Conn.Write(part); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// finish closes the connection, in good order if whole.
func (c *ownConn) finish(whole bool, within time.Duration) {
	if whole && c.chunked {
		_ = c.SetWriteDeadline(time.Now().Add(within))
		_, _ = c.Conn.Write([]byte("0\r\n\r\n")) // else nobody is there to see it
	}
	_ = c.Close() // likewise
	<-c.closed
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	delete(c.f.owned, c)
}

// cutOwned closes the connections of all streams that last.
func (f *Front) cutOwned() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.owned {
		_ = c.Close() // its stream finds out
	}
}
