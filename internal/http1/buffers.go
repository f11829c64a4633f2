package http1

import "sync"

// buffers holds memory for what is sent, a request or a part of an answer, until it has been sent:
// there may be thousands of idle connections.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// borrow returns an empty buffer. Give it back.
func borrow() *[]byte { return buffers.Get().(*[]byte) }

func giveBack(b *[]byte) {
	*b = (*b)[:0]
	buffers.Put(b)
}
