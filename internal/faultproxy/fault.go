package faultproxy

import (
	"errors"
	"io"
	"math"
	"net"
	"time"
)

// Kinds of faults.
const (
	none = iota
	delay
	drip
	blackHole
	cut
	reset
)

// fault is what happens to connections.
type fault struct {
	kind int
	by   time.Duration
}

// end ends a connection by close or reset, as the fault says.
func (f fault) end(conn *net.TCPConn) {
	if f.kind == reset {
		_ = conn.SetLinger(0)
	}
	conn.Close()
}

// next returns how many of size bytes go on next, and how long they still have to wait. age
// is how long ago they were read.
func (f fault) next(size int, age time.Duration) (n int, wait time.Duration) {
	switch f.kind {
	case delay:
		return size, f.by - age
	case drip:
		return min(size, 1), f.by
	case blackHole:
		return 0, math.MaxInt64
	}
	return size, 0
}

// pass copies bytes in one direction until the end.
func (p *Proxy) pass(to, from *net.TCPConn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		read := time.Now()
		for data := buf[:n]; len(data) > 0; {
			size, ok := p.turn(len(data), read)
			if !ok {
				return
			}
			if _, err := to.Write(data[:size]); err != nil {
				from.Close() // ends the other direction too
				return
			}
			data = data[size:]
		}
		switch {
		case errors.Is(err, io.EOF):
			if _, ok := p.turn(0, read); ok {
				_ = to.CloseWrite()
			}
			return
		case err != nil:
			fault{kind: reset}.end(to)
			return
		}
	}
}

// turn waits until some of size bytes, or an end, may go on, and returns how many. ok is
// false when the proxy is closed.
func (p *Proxy) turn(size int, read time.Time) (n int, ok bool) {
	for {
		f, changed := p.current()
		n, wait := f.next(size, time.Since(read))
		if wait <= 0 {
			return n, p.ctx.Err() == nil
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
			return n, true
		case <-changed:
		case <-p.ctx.Done():
		}
		timer.Stop()
		if p.ctx.Err() != nil {
			return 0, false
		}
	}
}
