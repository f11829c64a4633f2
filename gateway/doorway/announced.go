package doorway

import (
	"errors"
	"io"
	"net"
	"time"

	"github.com/pires/go-proxyproto"
)

// headerTime limits the time a proxy takes to send the header of the PROXY protocol.
const headerTime = 5 * time.Second

// noHeader is the answer to a connection of a proxy that does not begin with the header.
const noHeader = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n" +
	"400 Bad Request: a header of the PROXY protocol has to come first from this proxy (connections.proxy_protocol)\n"

var errTooMany = errors.New("doorway: too many connections of one address")

// announced takes the client of a proxy's connection from the header of the PROXY protocol. Without
// a client in the header, as in a check of the proxy's own, it is the proxy's.
func (v *visitor) announced(h *proxyproto.Header) error {
	d := v.door
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, open := d.open[v]; !open {
		return net.ErrClosed
	}
	if h.Command.IsLocal() || h.SourceAddr == nil {
		v.proxy = false // no header of a request says more
		return nil
	}
	peer := addressOf(h.SourceAddr.String())
	proxy, from := isProxy(d.proxies, peer), clientOf(peer)
	if !proxy && !d.leaves(from) {
		d.metrics.refused.Inc()
		return errTooMany
	}
	d.uncount(v)
	v.peer, v.name, v.proxy, v.from = peer, nameOf(peer), proxy, from
	d.of[from]++
	return nil
}

// refuse answers a connection without the header that it needs.
func (v *visitor) refuse() {
	_ = v.SetWriteDeadline(time.Now().Add(time.Second)) // fails once it has ended
	_, _ = io.WriteString(v.Conn.(*proxyproto.Conn).Raw(), noHeader)
}
