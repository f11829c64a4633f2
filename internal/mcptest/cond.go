package mcptest

import (
	"bytes"
	"context"
	"sync"
)

// Cond is a mutex with a wait for changes of what it guards, as in a sync.Cond, but until a
// context ends. The zero value is ready to use.
type Cond struct {
	sync.Mutex
	news chan struct{} // closed by Wake; nil when no goroutine waits
}

// Wake makes all waiting goroutines check again. The caller holds the mutex.
func (c *Cond) Wake() {
	if c.news != nil {
		close(c.news)
		c.news = nil
	}
}

// Await returns when holds is true, or with ctx's error. It calls holds with the mutex
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

// Log collects what several goroutines write to it. The zero value is ready to use.
type Log struct {
	cond Cond // guards text
	text bytes.Buffer
}

// Write appends to the log. It never fails.
func (l *Log) Write(p []byte) (int, error) {
	l.cond.Lock()
	defer l.cond.Unlock()
	l.cond.Wake()
	return l.text.Write(p)
}

// String returns the log so far.
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

// Count returns how often a text occurs in the log.
func (l *Log) Count(text string) int {
	l.cond.Lock()
	defer l.cond.Unlock()
	return bytes.Count(l.text.Bytes(), []byte(text))
}

// Await returns when a text occurs n times in the log, or with ctx's error.
func (l *Log) Await(ctx context.Context, text string, n int) error {
	return l.cond.Await(ctx, func() bool { return bytes.Count(l.text.Bytes(), []byte(text)) >= n })
}
