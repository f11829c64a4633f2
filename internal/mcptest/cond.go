package mcptest

import (
	"bytes"
	"context"
	"sync"
)

// Cond is a mutex that can be waited at until what it guards has changed, as with a
// sync.Cond, and until a context ends. The zero value is good.
type Cond struct {
	sync.Mutex
	news chan struct{} // closed by Wake; nil when nobody waits
}

// Wake has all who wait look again. The mutex has to be held.
func (c *Cond) Wake() {
	if c.news != nil {
		close(c.news)
		c.news = nil
	}
}

// Await returns when something holds, or with ctx's error. holds is called with the mutex
// held.
func (c *Cond) Await(ctx context.Context, holds func() bool) error {
	for {
		c.Lock()
		if holds() {
			c.Unlock()
			return nil
		}
		if c.news == nil {
			c.news = make(chan struct{})
		}
		news := c.news
		c.Unlock()
		select {
		case <-news:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Log is what is written to it, by several goroutines. The zero value is good.
type Log struct {
	cond Cond // guards text
	text bytes.Buffer
}

// Write adds to the log. It never fails.
func (l *Log) Write(p []byte) (int, error) {
	l.cond.Lock()
	defer l.cond.Unlock()
	l.cond.Wake()
	return l.text.Write(p)
}

// String is the log so far.
func (l *Log) String() string {
	l.cond.Lock()
	defer l.cond.Unlock()
	return l.text.String()
}

// Reset empties the log.
func (l *Log) Reset() {
	l.cond.Lock()
	defer l.cond.Unlock()
	l.text.Reset()
}

// Count is how often a text stands in the log.
func (l *Log) Count(text string) int {
	l.cond.Lock()
	defer l.cond.Unlock()
	return bytes.Count(l.text.Bytes(), []byte(text))
}

// Await returns when a text stands in the log n times, or with ctx's error.
func (l *Log) Await(ctx context.Context, text string, n int) error {
	return l.cond.Await(ctx, func() bool { return bytes.Count(l.text.Bytes(), []byte(text)) >= n })
}
