package mcp

import (
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
