// Package listchange tells listening callers that a list changed only if the list looks
// different to them: they must not learn that something hidden changed.
//
// It owns the comparison of lists. It stands above the stages that shape a list by what its
// caller may know of (policy, gateway/feature/skills), and below those that shape it for
// other reasons. It keeps one checksum for each list that a call listens to, for the
// duration of the call, and starts no goroutines.
package listchange

import (
	"context"
	"math"
	"sync"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// Sight tells whose lists are complete; policy.Guard implements it.
type Sight interface {
	// SeesAll reports whether the caller may know of everything.
	SeesAll(caller *mcp.Caller) bool
}

// Middleware drops notifications of changed lists if the list looks the same to a caller
// who may not know of everything. It passes everything else through.
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

// watched returns a call that drops events about lists that did not change for its caller.
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

// watch remembers the lists that a caller listens to, as the caller last saw them.
type watch struct {
	call *mcp.Call
	next mcp.Handler

	mu   sync.Mutex // guards last; not held while a list is read
	last map[mcp.Lists]mcp.ListSum
}

// changed reports whether a list looks different from the last time, and true when in
// doubt.
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

// Sum computes the checksum of lists as the caller of a call reads them from a handler. A
// list that does not exist counts as empty; ok is false if a list cannot be read.
func Sum(ctx context.Context, from mcp.Handler, as *mcp.Call, lists mcp.Lists) (sum mcp.ListSum, ok bool) {
	for _, method := range lists.Methods() {
		sum = sum.Then()
		c := as.Clone()
		c.Method, c.Params, c.Notify = method, nil, func(mcp.Event) {}
		for page, err := range mcp.Pages(ctx, from, c, math.MaxInt) {
			if mcp.HasCode(err, mcp.CodeMethodNotFound) {
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
