package http1

import (
	"context"
	"io"
	"net/http"
	"sync/atomic"
)

// kind is how a body ends.
type kind uint8

const (
	none     kind = iota
	counted       // after as many bytes as Content-Length says
	chunked       // with a chunk of no bytes
	untilEnd      // with the connection
)

// body is the body of an answer. The connection goes back to the pool when all of it was read,
// and is closed otherwise. Close may be called while Read waits, and ends that.
type body struct {
	c     *conn
	pool  *pool
	ctx   context.Context
	stop  func() bool // parts the connection from ctx; false if ctx came first
	kind  kind
	again bool // the connection may be used again
	// over says that the body has ended, by Read or by Close: the one that sets it disposes of the
	// connection, which may belong to another exchange from then on.
	over atomic.Bool

	// Only for Read.
	left  int64 // of a counted body, or of the chunk
	chunk chunkState
	err   error // the end, once there was one
}

// Read reads. With the last bytes it returns io.EOF, if it knows that they are the
// last.
func (b *body) Read(p []byte) (int, error) {
	switch {
	case b.err != nil:
		return 0, b.err
	case b.over.Load():
		return 0, http.ErrBodyReadAfterClose
	case len(p) == 0:
		return 0, nil
	}
	n, err := b.read(p)
	if err != nil {
		b.end(err)
	}
	return n, b.err
}

func (b *body) read(p []byte) (n int, err error) {
	if b.kind == chunked {
		return b.readChunks(p)
	}
	n, err = b.c.read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	switch {
	case b.left == 0:
		return n, io.EOF
	case err == io.EOF && b.kind == counted:
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

func (b *body) end(err error) {
	switch {
	case err == io.EOF:
		b.finish()
	case b.over.Load():
		err = http.ErrBodyReadAfterClose
	case b.ctx.Err() != nil:
		err = context.Cause(b.ctx)
	}
	b.err = err
	b.drop()
}

// finish gives the connection back after the last byte of the body.
func (b *body) finish() {
	switch {
	case b.over.Swap(true):
	case b.stop() && b.again:
		b.pool.put(b.c)
	default:
		b.c.close()
	}
}

// drop closes the connection, unless the body is over.
func (b *body) drop() {
	if !b.over.Swap(true) {
		b.stop()
		b.c.close()
	}
}

// Close closes the connection unless all of the body was read.
func (b *body) Close() error {
	b.drop()
	return nil
}
