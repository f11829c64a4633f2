package mcp

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestLasting: what lasts ends when its credential expires, or within a minute after it was
// withdrawn; what goes on, or was left before, is not touched.
func TestLasting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var withdrawn atomic.Value
		withdrawn.Store("")
		l := NewLasting(func(_ context.Context, c *Caller) bool { return c.Subject != withdrawn.Load() })
		ctx, stop := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- l.Run(ctx) }()
		start := func(subject string, life time.Duration) (context.Context, context.CancelFunc) {
			c := &Caller{Issuer: "i", Subject: subject}
			if life > 0 {
				c.Expires = time.Now().Add(life)
			}
			return l.While(t.Context(), c)
		}
		ann, endAnn := start("ann", 0)
		defer endAnn()
		bob, endBob := start("bob", 0)
		defer endBob()
		short, endShort := start("ann", time.Second)
		defer endShort()
		left, leave := start("ann", 0)
		leave()
		if context.Cause(left) == ErrOver {
			t.Error("what was left is over")
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if context.Cause(short) != ErrOver || ann.Err() != nil {
			t.Errorf("an expired one: %v; another: %v", context.Cause(short), ann.Err())
		}
		withdrawn.Store("ann")
		time.Sleep(time.Minute)
		synctest.Wait()
		if context.Cause(ann) != ErrOver || bob.Err() != nil {
			t.Errorf("a withdrawn one: %v; another: %v", context.Cause(ann), bob.Err())
		}
		withdrawn.Store("bob")
		l.Ask(t.Context())
		if context.Cause(bob) != ErrOver {
			t.Errorf("a withdrawn one that was asked for: %v", context.Cause(bob))
		}
		stop()
		if err := <-ran; err != nil {
			t.Error(err)
		}
	})
}
