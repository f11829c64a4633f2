//go:build !unix

package http1

// canReuse says that a connection cannot be looked at before it is used again.
const canReuse = false

func (c *conn) watch() {}

func (c *conn) alive() bool { return false }
