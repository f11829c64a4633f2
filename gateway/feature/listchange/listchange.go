// Package listchange tells callers who listen that a list changed, but only if it looks
// different to them: they must not learn that something hidden changed.
//
// It owns how lists are compared. It stands above the stages that shape a list by what its
// caller may know of (policy, gateway/feature/skills), and below those that shape it for
// other reasons. It keeps one sum for each list that a call listens to, for as long as the
// call lasts, and starts no goroutines.
package listchange

import (
	"context"
	"errors"
	"math"
	"sync"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// Sight tells whose lists are whole; policy.Guard is one.
type Sight interface {
	// SeesAll reports whether the caller may know of everything that there is.
	SeesAll(caller *mcp.Caller) bool
}

// Middleware holds back, for callers who may not know of everything, notifications that
// lists changed which look the same to them, and lets all else through.
func Middleware(sight Sight) mcp.Middleware {
	return func(next mcp.Handler) mcp.Handler {
		return mcp.HandlerFunc(func(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
			if c.Method != mcp.MethodListen || sight.SeesAll(&c.Caller) {
				return next.Handle(ctx, c)
			}
			return next.Handle(ctx, watched(ctx, next, c))
		})
	}
}

// watched is a call whose events are held back where nothing changed for its caller.
func watched(ctx context.Context, next mcp.Handler, c *mcp.Call) *mcp.Call {
	w := &watch{call: c, next: next, last: make(map[mcp.Lists]mcp.ListSum)}
	inner := c.Clone()
	inner.Notify = func(e mcp.Event) {
		if e.Method == mcp.NoteAcknowledged {
			honoured, _ := mcp.FilterOf(e.Params)
			for _, change := range honoured.Lists.Events() {
				w.changed(ctx, mcp.ListsChanged(change.Method))
			}
		} else if list := mcp.ListsChanged(e.Method); list != 0 && !w.changed(ctx, list) {
			return
		}
		c.Notify(e)
	}
	return inner
}

// watch is the lists that a caller listens to, as they saw them last.
type watch struct {
	call *mcp.Call
	next mcp.Handler

	mu   sync.Mutex // guards last; not held while a list is read
	last map[mcp.Lists]mcp.ListSum
}

// changed reports whether a list looks different from the last time. When in doubt it does.
func (w *watch) changed(ctx context.Context, list mcp.Lists) bool {
	now, ok := Sum(ctx, w.next, w.call, list)
	w.mu.Lock()
	defer w.mu.Unlock()
	before, known := w.last[list]
	if !ok {
		delete(w.last, list)
		return true
	}
	w.last[list] = now
	return !known || now != before
}

// Sum sums up lists as the caller of a call reads them from a handler. A list that does
// not exist is empty; ok is false where one cannot be read.
func Sum(ctx context.Context, from mcp.Handler, as *mcp.Call, lists mcp.Lists) (sum mcp.ListSum, ok bool) {
	for _, method := range lists.Methods() {
		sum = sum.Then()
		c := as.Clone()
		c.Method, c.Params, c.Notify = method, nil, func(mcp.Event) {}
		for page, err := range mcp.Pages(ctx, from, c, math.MaxInt) {
			if errors.Is(err, &mcp.Error{Code: mcp.CodeMethodNotFound}) {
				break
			}
			if err != nil {
				return 0, false
			}
			sum = sum.Add(page)
		}
	}
	return sum, true
}
