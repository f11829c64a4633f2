package mcp

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/maphash"
	"iter"
	"slices"
	"sync"
	"time"
)

// List is the answer of a list method. It is immutable once returned. A filter makes a new
// List; it should return the same one again while nothing has changed, so that renderings are
// reused.
type List struct {
	Items []Item
	// Next is the cursor of the next page, nil at the end. The empty string is a valid cursor
	// (2026-07-28 server/utilities/pagination).
	Next *string
	// Expires is the time until which the list counts as fresh, zero if unknown.
	Expires time.Time
	// Private says that the list depends on the caller.
	Private bool

	origin *List // see Origin; nil for the list itself

	mu       sync.Mutex // guards the fields below
	rendered map[string][]byte
	derived  map[any]*List // see Derive
	bytes    int           // of derived
}

// Bounds of the lists that are kept of one list. When either is reached, all of them are made again.
const (
	maxDerived      = 4096
	maxDerivedBytes = 32 << 20
)

// With returns a list with these items in place of its own.
func (l *List) With(items []Item) *List {
	return &List{Items: items, Next: l.Next, Expires: l.Expires, Private: l.Private}
}

// WithNext returns the list with another cursor, and with the same origin.
func (l *List) WithNext(next *string) *List {
	if next == l.Next {
		return l
	}
	return &List{Items: l.Items, Next: next, Expires: l.Expires, Private: l.Private, origin: l.Origin()}
}

// Origin returns the list that WithNext made this one from, or else the list itself. What is made
// of a list and does not depend on the cursor is cached with its origin.
func (l *List) Origin() *List {
	if l.origin != nil {
		return l.origin
	}
	return l
}

// Derive returns what build makes of the list, with the cursor of the list. The origin of the list keeps
// it by the key, which should have a type of its own. build may derive other lists.
func (l *List) Derive(key any, build func(*List) *List) *List {
	origin := l.Origin()
	origin.mu.Lock()
	known := origin.derived[key]
	origin.mu.Unlock()
	if known == nil {
		known = origin.keep(key, build(origin))
	}
	if known == origin {
		return l
	}
	return known.WithNext(l.Next)
}

// keep keeps a derived list, unless it is too large. Of two that were made at once it returns the first.
func (l *List) keep(key any, made *List) *List {
	size := overhead
	if made != l {
		size += made.size()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if known := l.derived[key]; known != nil {
		return known
	}
	if size > maxDerivedBytes/4 {
		return made
	}
	if l.bytes += size; l.derived == nil || len(l.derived) >= maxDerived || l.bytes > maxDerivedBytes {
		l.derived, l.bytes = make(map[any]*List), size
	}
	l.derived[key] = made
	return made
}

const overhead = 128 // of an item or a list, beside its texts

// size is the memory that a list takes with a rendering, in bytes.
func (l *List) size() (n int) {
	for _, item := range l.Items {
		n += 2*len(item.Raw) + overhead
	}
	return n
}

// Render returns what build makes of the items of the list in a form, for example a revision.
// It builds each form once and caches it with the origin of the list, so use few forms.
func (l *List) Render(form string, build func(*List) []byte) []byte {
	l = l.Origin()
	l.mu.Lock()
	defer l.mu.Unlock()
	b, ok := l.rendered[form]
	if !ok {
		b = build(l)
		if l.rendered == nil {
			l.rendered = make(map[string][]byte)
		}
		l.rendered[form] = b
	}
	return b
}

// ListSum is a checksum of the items of a list, page by page. Equal sums mean equal lists.
// They are valid only within this process.
type ListSum uint64

var sumSeed = maphash.MakeSeed()

// sumStep is an arbitrary odd number.
const sumStep = 0x9e3779b97f4a7c15

// Add adds the next page. The division into pages does not matter, since it may depend on
// items that the caller does not see. The sum of a page is computed once.
func (s ListSum) Add(page *List) ListSum {
	memo := page.Render("sum", func(l *List) []byte {
		sum, shift := uint64(0), uint64(1)
		for _, item := range l.Items {
			sum = sum*sumStep + maphash.Bytes(sumSeed, item.Raw)
			shift *= sumStep
		}
		return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, sum), shift)
	})
	return s*ListSum(binary.BigEndian.Uint64(memo[8:])) + ListSum(binary.BigEndian.Uint64(memo))
}

// Then begins another list after this one.
func (s ListSum) Then() ListSum { return s*sumStep + 1 }

var errNoList = errors.New("the answer to a list method is no list")

// Pages calls a list method, and again for each further page, at most `most` times. It ends
// with the first error.
func Pages(ctx context.Context, h Handler, c *Call, most int) iter.Seq2[*List, error] {
	return func(yield func(*List, error) bool) {
		for range most {
			reply, err := h.Handle(ctx, c)
			if err == nil && (reply == nil || reply.List == nil) {
				err = errNoList
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(reply.List, nil) || reply.List.Next == nil {
				return
			}
			c = c.Clone()
			c.Params = Object("cursor", String(*reply.List.Next))
		}
	}
}

// readings is how often ItemsOf reads a list that changes between two pages.
const readings = 3

// ItemsOf calls a list method for all pages, at most `most` of them. A list that changes while it is read
// is read again. One that does not exist has no items. Do not change them.
func ItemsOf(ctx context.Context, h Handler, c *Call, most int) (items []Item, err error) {
	for range readings {
		pages := 0
		for page, problem := range Pages(ctx, h, c, most) {
			switch err = problem; {
			case err != nil:
			case pages == 0:
				items = slices.Clip(page.Items)
			default:
				items = append(items, page.Items...)
			}
			pages++
		}
		if HasCode(err, CodeMethodNotFound) {
			return nil, nil
		}
		if pages < 2 || !HasCode(err, CodeInvalidParams) {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	return items, nil
}

// Listing returns the call with which a stage reads a list for the caller of c.
func (c *Call) Listing(method string) *Call {
	return &Call{
		ID: c.ID, Method: method, Lens: c.Lens, Caller: c.Caller, Session: c.Session, Ephemeral: c.Ephemeral,
		Caps: c.Caps, Tasks: c.Tasks, Trace: c.Trace, Aside: c.Aside, Notify: func(Event) {},
	}
}
