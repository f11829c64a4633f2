package http1

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"syscall"
	"time"
)

const (
	// inBuffer is the size of a connection's receive buffer. It grows for a head that needs more,
	// until that is read.
	inBuffer = 4 << 10
	crlf     = "\r\n"
)

var (
	errLineTooLong = errors.New("http1: the head of the answer, or a line in it, is too large")
	errLineEnd     = errors.New("http1: a line of the answer does not end in CR LF")
)

// conn is a connection. It belongs to one exchange at a time, or to the pool.
type conn struct {
	nc        net.Conn
	host      string
	interrupt func()          // closes nc, even in use
	since     time.Time       // when it went to the pool
	raw       syscall.RawConn // nil where nc cannot be looked at
	look      func(fd uintptr) bool
	quiet     bool // what look found

	in    []byte // in[r:w] was received and is not consumed yet
	r, w  int
	heard bool // something came since the request
	head  head // of the present answer
}

func newConn(nc net.Conn, host string) *conn {
	c := &conn{nc: nc, host: host, in: make([]byte, inBuffer)}
	c.interrupt = c.close
	c.watch()
	return c
}

// close ignores errors: there is nothing to be done about them.
func (c *conn) close() { c.nc.Close() }

// roundTrip sends a request as it was written and receives the head of the answer.
func (c *conn) roundTrip(req *http.Request, out []byte, limit int) (*answer, error) {
	c.heard = false
	if n, err := c.nc.Write(out); err != nil {
		return nil, &staleError{err: err, sent: n > 0}
	}
	if err := c.readHead(limit); err != nil {
		if !c.heard {
			err = &staleError{err: err, sent: true}
		}
		return nil, err
	}
	return c.answer(req)
}

// fill receives more. What is not consumed stays, but may move to the front.
func (c *conn) fill() error {
	if c.r == c.w {
		c.r, c.w = 0, 0
	}
	if c.w == len(c.in) {
		in := c.in
		if c.r == 0 {
			in = make([]byte, 2*len(c.in))
		}
		c.r, c.w, c.in = 0, copy(in, c.in[c.r:c.w]), in
	}
	n, err := c.nc.Read(c.in[c.w:])
	c.w += n
	switch {
	case n > 0:
		c.heard = true
		return nil // an error comes again
	case err == nil:
		return io.ErrNoProgress
	}
	return err
}

// line finds the line that begins at a distance from what is consumed, and returns its length
// without its end. While the line is not complete it receives more or, if it is not to wait,
// returns -1. limit bounds the distance of the line's end.
func (c *conn) line(at, limit int, wait bool) (int, error) {
	for seen := at; ; {
		if n := bytes.IndexByte(c.in[c.r+seen:c.w], '\n'); n >= 0 {
			end := seen + n - 1
			switch {
			case end < at || c.in[c.r+end] != '\r':
				return 0, errLineEnd
			case end+len(crlf) > limit:
				return 0, errLineTooLong
			}
			return end - at, nil
		}
		switch seen = c.w - c.r; {
		case seen >= limit:
			return 0, errLineTooLong
		case !wait:
			return -1, nil
		}
		if err := c.fill(); err != nil {
			return 0, err
		}
	}
}

// read reads body bytes into p, past the buffer where that is empty and p is large.
func (c *conn) read(p []byte) (int, error) {
	if c.r == c.w {
		if len(p) >= len(c.in) {
			return c.nc.Read(p)
		}
		if err := c.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, c.in[c.r:c.w])
	c.r += n
	return n, nil
}

// reset makes the connection ready for the next exchange, or reports that it cannot be used again:
// something arrived without a request, or would not be noticed.
func (c *conn) reset() bool {
	if c.r != c.w {
		return false
	}
	if c.r, c.w = 0, 0; len(c.in) > inBuffer {
		c.in = make([]byte, inBuffer)
	}
	if cap(c.head.fields) > maxKept {
		c.head.fields = nil
	}
	return c.raw != nil
}
