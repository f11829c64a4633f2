package http1

import (
	"sync"
	"time"
)

// pool keeps idle connections. It reuses the one used last first, so that those that are not
// needed grow old.
type pool struct {
	perHost int
	keep    time.Duration

	mu     sync.Mutex // guards the fields below; not held over I/O
	idle   map[string][]*conn
	closed bool // until the next take
	sweeps *time.Timer
}

func newPool(perHost int, keep time.Duration) *pool {
	return &pool{perHost: perHost, keep: keep, idle: make(map[string][]*conn)}
}

// take returns a connection to a host that is still good, nil if there is none.
func (p *pool) take(host string) *conn {
	for {
		c := p.pop(host)
		if c == nil || time.Since(c.since) <= p.keep && c.alive() {
			return c
		}
		c.close()
	}
}

func (p *pool) pop(host string) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = false
	list := p.idle[host]
	if len(list) == 0 {
		return nil
	}
	last := len(list) - 1
	c := list[last]
	list[last] = nil
	p.idle[host] = list[:last]
	return c
}

// put takes back a connection after its answer was read to its end.
func (p *pool) put(c *conn) {
	if !c.reset() || !p.push(c) {
		c.close()
	}
}

func (p *pool) push(c *conn) bool {
	c.since = time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.idle[c.host]
	if p.closed || len(list) >= p.perHost {
		return false
	}
	p.idle[c.host] = append(list, c)
	if p.sweeps == nil {
		p.sweeps = time.AfterFunc(p.keep, p.sweep)
	}
	return true
}

// sweep closes connections that were idle for too long. It runs again as long as any is left.
func (p *pool) sweep() {
	var old []*conn
	p.mu.Lock()
	limit := time.Now().Add(-p.keep)
	p.sweeps = nil
	for host, list := range p.idle {
		n := 0 // the oldest stand first
		for n < len(list) && !list[n].since.After(limit) {
			n++
		}
		old = append(old, list[:n]...)
		left := append([]*conn(nil), list[n:]...)
		if p.idle[host] = left; len(left) == 0 {
			delete(p.idle, host)
		}
	}
	if len(p.idle) > 0 {
		p.sweeps = time.AfterFunc(p.keep/4+time.Millisecond, p.sweep)
	}
	p.mu.Unlock()
	closeAll(old)
}

func (p *pool) close() {
	var all []*conn
	p.mu.Lock()
	p.closed = true
	if p.sweeps != nil {
		p.sweeps.Stop()
		p.sweeps = nil
	}
	for host, list := range p.idle {
		all = append(all, list...)
		delete(p.idle, host)
	}
	p.mu.Unlock()
	closeAll(all)
}

func closeAll(conns []*conn) {
	for _, c := range conns {
		c.close()
	}
}
