package mcp

import (
	"encoding/binary"
	"hash/maphash"
	"sync"
	"time"
)

// List is the answer of a list method. It is immutable once returned: whoever
// filters makes a new one, and may return the same one again as long as nothing
// changed, so that its renderings are reused.
type List struct {
	Items []Item
	// Next is the cursor of the next page; nil at the end. An empty string is a
	// cursor like any other (2026-07-28 server/utilities/pagination).
	Next *string
	// Expires is until when the list counts as fresh; zero when unknown.
	Expires time.Time
	// Private says that the list depends on who asked.
	Private bool

	mu       sync.Mutex // guards rendered
	rendered map[string][]byte
}

// Render returns the bytes that build makes of the list for one form of it (a
// revision, say), made once and kept as long as the list. Forms must be few.
func (l *List) Render(form string, build func(*List) []byte) []byte {
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

// ListSum sums up the items of a list, page by page. Equal sums mean equal lists; they
// say something within one process only.
type ListSum uint64

var sumSeed = maphash.MakeSeed()

// sumStep is odd and otherwise of no meaning.
const sumStep = 0x9e3779b97f4a7c15

// Add adds a page to the pages before it. Where one page ends and the next begins makes
// no difference: that may depend on items that the caller does not see. A page is summed
// up once.
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

// Then begins another list behind this one.
func (s ListSum) Then() ListSum { return s*sumStep + 1 }
