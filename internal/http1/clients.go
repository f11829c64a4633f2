package http1

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"
)

// Clients is for a Server whose clients may be anybody. It serves only plain requests: a POST in
// HTTP/1.1 with a Content-Length that fits, head and body, into 4 KiB, and that nothing follows
// before it is answered. All else is for a server that knows all of HTTP. So whatever two readers
// could read in two ways is read by one of them alone.
type Clients struct {
	// Other gets a connection on which anything else comes than a plain request, with all bytes
	// of that which were received. It closes the connection.
	Other func(nc net.Conn, received []byte)
	// Context returns the context of a connection's requests.
	Context func(nc net.Conn) context.Context
	// State is told of the states of a connection, as http.Server.ConnState is. Other's
	// connections have no end here.
	State func(nc net.Conn, state http.ConnState)
	// Panicked is told of a panic in a handler, but for http.ErrAbortHandler. It ends the connection.
	Panicked func(cause any)
	// First bounds the wait for the first request and for the rest of each, Idle that for any
	// further one, and Write is how long an answer may take, unless its handler says otherwise.
	First, Idle, Write time.Duration
}

// NewClientServer makes a Server for the plain requests of clients.
func NewClientServer(handler http.Handler, clients Clients) *Server {
	s := NewServer(handler, inBuffer)
	s.clients = &clients
	return s
}

// errOther means that what comes is not for us.
var errOther = errors.New("http1: the request is not plain")

var headEnd = []byte(crlf + crlf)

// plain receives a plain request. After errOther, all that was received is at the beginning of the
// buffer.
func (c *conn) plain(of *Clients) (*http.Request, error) {
	if c.r == c.w {
		if err := c.fill(); err != nil {
			return nil, err
		}
	}
	end := bytes.Index(c.in[c.r:c.w], headEnd)
	if end < 0 || c.readLines(end+len(headEnd), anyLine) != nil {
		return nil, errOther
	}
	r, err := c.takeRequest()
	if err != nil || !isPlain(r) || r.ContentLength > int64(inBuffer-c.r) {
		return nil, errOther
	}
	for late := false; c.w-c.r < int(r.ContentLength); late = true {
		if !late {
			_ = c.nc.SetReadDeadline(time.Now().Add(of.First)) // an error comes again when it is read
		}
		if c.more() != nil {
			return nil, errOther
		}
	}
	if c.w-c.r > int(r.ContentLength) {
		return nil, errOther
	}
	if err := c.takeBody(r); err != nil {
		return nil, err
	}
	c.reset()
	return r, nil
}

// isPlain reports whether nothing in the head of a request asks for more than an answer on a
// connection that stays.
func isPlain(r *http.Request) bool {
	if r.Method != http.MethodPost || len(r.Header["Content-Length"]) != 1 {
		return false
	}
	for name, values := range r.Header {
		switch {
		case name == "Content-Length":
		case name == "Connection":
			if len(values) != 1 || !strings.EqualFold(values[0], "keep-alive") {
				return false
			}
		case name == "Pragma", isFraming(name): // net/http makes a Cache-Control of the former
			return false
		}
	}
	return true
}

// begin prepares a connection. These methods do nothing for Transports.
func (of *Clients) begin(c *serving) {
	if of == nil {
		return
	}
	of.State(c.nc, http.StateNew)
	c.base = of.Context(c.nc)
	_ = c.nc.SetReadDeadline(time.Now().Add(of.First)) // an error comes again when it is read
}

// rest says that a connection waits for its next request.
func (of *Clients) rest(c *serving) {
	if of == nil {
		return
	}
	_ = c.nc.SetReadDeadline(time.Now().Add(of.Idle)) // as above
	of.State(c.nc, http.StateIdle)
}

func (of *Clients) tell(nc net.Conn, state http.ConnState) {
	if of != nil {
		of.State(nc, state)
	}
}

// recover ends the panic of a handler.
func (of *Clients) recover() {
	if cause := recover(); cause != nil && cause != http.ErrAbortHandler {
		of.Panicked(cause)
	}
}

// date is the value of a Date header, made once a second.
type date struct {
	at   int64 // in seconds
	text []byte
}

func (d *date) now() []byte {
	now := time.Now()
	if at := now.Unix(); at != d.at {
		d.at, d.text = at, now.UTC().AppendFormat(d.text[:0], http.TimeFormat)
	}
	return d.text
}
