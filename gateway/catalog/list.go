package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"sync"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/view"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// listing is one merged list.
type listing struct {
	generation string   // a hash of the content, equal on every replica
	parts      [][]byte // hashes of each upstream's part; nil for nothing
	expires    time.Time
	private    bool
	pages      []*mcp.List // without cursors
	gone       []mcp.Item  // last entries of dropped lists, and entries of other classes

	mu    sync.Mutex // guards views
	views map[*view.View]*listing
	full  map[string]string // of a view's list: the full names of shortened ones
	kept  []string          // and those that the view could not shorten
}

// in returns the list as arranged by a view; a nil view changes nothing.
func (l *listing) in(v *view.View, k kind, p *plan) *listing {
	if v == nil {
		return l
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if known := l.views[v]; known != nil {
		return known
	}
	whole := view.List{Items: l.items(), Gone: l.gone, NameIn: mcp.ItemKey(k.method())}
	if k == tools || k == prompts {
		prefixes := make(map[string]string)
		for _, n := range p.namings {
			prefixes[n.upstream], whole.Prefixes = n.prefix, append(whole.Prefixes, n.prefix)
		}
		whole.Prefix = func(upstream string) string { return prefixes[upstream] }
	}
	arranged := v.Arrange(whole)
	sum := sha256.New()
	sum.Write([]byte(v.Name()))
	for _, item := range arranged.Items {
		hashItem(sum, item)
	}
	shown := &listing{
		generation: hex.EncodeToString(sum.Sum(nil)[:16]), expires: l.expires, private: l.private,
		full: arranged.Full, kept: arranged.Kept,
	}
	shown.paginate(arranged.Items, p.pageSize)
	if l.views == nil {
		l.views = make(map[*view.View]*listing)
	}
	l.views[v] = shown
	return shown
}

// same reports whether both listings would be answered with the same bytes.
func (l *listing) same(other *listing) bool {
	return l.generation == other.generation && l.expires.Equal(other.expires) && l.private == other.private &&
		slices.EqualFunc(l.gone, other.gone, func(a, b mcp.Item) bool { return a.Name == b.Name })
}

// paginate divides the items into pages, at least one. The rest of the listing is complete.
func (l *listing) paginate(items []mcp.Item, size int) {
	if len(items) == 0 {
		l.pages = []*mcp.List{{Items: []mcp.Item{}, Expires: l.expires, Private: l.private}}
	}
	for part := range slices.Chunk(items, size) {
		l.pages = append(l.pages, &mcp.List{Items: part, Expires: l.expires, Private: l.private})
	}
}

// items returns the items of all pages.
func (l *listing) items() (all []mcp.Item) {
	for _, page := range l.pages {
		all = append(all, page.Items...)
	}
	return all
}
