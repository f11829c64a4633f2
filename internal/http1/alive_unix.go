//go:build unix

package http1

import "syscall"

// canReuse says that a connection can be looked at before it is used again.
const canReuse = true

// watch prepares alive.
func (c *conn) watch() {
	sc, ok := c.nc.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return
	}
	c.raw = raw
	var one [1]byte
	c.look = func(fd uintptr) bool {
		n, err := syscall.Read(int(fd), one[:])
		c.quiet = n < 0 && (err == syscall.EAGAIN || err == syscall.EWOULDBLOCK)
		return true // do not wait for more
	}
}

// alive reports whether an idle connection stayed silent: neither its end arrived, nor an
// unrequested answer that would be taken for the next one.
func (c *conn) alive() bool {
	c.quiet = false
	err := c.raw.Read(c.look)
	return err == nil && c.quiet
}
