// Package listchange tells listening callers of changed lists, if these look different to them.
// They must not learn of changes to hidden items.
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

// Middleware drops notifications of changed lists if the list looks the same to a caller
// who may not know of everything, as seesAll says. It passes everything else through.
func Middleware(seesAll func(*mcp.Caller) bool) mcp.Middleware {
	return func(next mcp.Handler) mcp.Handler {
		return mcp.HandlerFunc(func(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
			if c.Method != mcp.MethodListen || seesAll(&c.Caller) {
				return next.Handle(ctx, c)
			}
			return next.Handle(ctx, watched(ctx, next, c))
		})
	}
}

// watched returns a call that drops events about lists that did not change for its caller.
func watched(ctx context.Context, next mcp.Handler, c *mcp.Call) *mcp.Call {
	w := &watch{next: next, last: make(map[mcp.Lists]mcp.ListSum)}
	inner := c.Clone()
	inner.Notify = func(e mcp.Event) {
		if e.Method == mcp.NoteAcknowledged {
			honoured, _ := mcp.FilterOf(e.Params)
			reader := NewReader(c)
			for _, change := range honoured.Lists.Events() {
				w.changed(ctx, reader, mcp.ListsChanged(change.Method))
			}
		} else if list := mcp.ListsChanged(e.Method); list != 0 && !w.changed(ctx, NewReader(c), list) {
			return
		}
		c.Notify(e)
	}
	return inner
}

// watch remembers the last state of each list that a caller listens to.
type watch struct {
	next mcp.Handler

	mu   sync.Mutex // guards last; not held while a list is read
	last map[mcp.Lists]mcp.ListSum
}

// changed reports whether a list looks different from the last time, and true when in
// doubt.
func (w *watch) changed(ctx context.Context, reader Reader, list mcp.Lists) bool {
	now, ok := reader.Sum(ctx, w.next, list)
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

// Reader reads lists as the caller of a call, one after another.
type Reader struct{ call *mcp.Call }

// NewReader returns a Reader for the caller of a call.
func NewReader(as *mcp.Call) Reader {
	c := as.Clone()
	c.Params, c.Notify = nil, func(mcp.Event) {}
	return Reader{c}
}

// Sum computes the checksum of lists in a handler's answers. A list that does not exist counts as
// empty; ok is false if a list cannot be read.
func (r Reader) Sum(ctx context.Context, from mcp.Handler, lists mcp.Lists) (sum mcp.ListSum, ok bool) {
	for _, method := range lists.Methods() {
		sum = sum.Then()
		r.call.Method = method
		for page, err := range mcp.Pages(ctx, from, r.call, math.MaxInt) {
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
