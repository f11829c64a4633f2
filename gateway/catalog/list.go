package catalog

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"

	"github.com/gatehouse-mcp/gatehouse/gateway/view"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// list answers a list method.
func (c *Catalog) list(l *listing, call *mcp.Call) (*mcp.Reply, error) {
	at := 0
	if cursor, ok := call.Params.Member("cursor"); ok {
		var err error
		if at, err = c.openCursor(cursor, call, l); err != nil {
			return nil, err
		}
	}
	return &mcp.Reply{List: c.pageFor(l, at, call)}, nil
}

// in returns the list as a view shows it; a nil view shows it as it is.
func (l *listing) in(v *view.View, k kind, p *plan) *listing {
	if v == nil {
		return l
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if known := l.views[v]; known != nil {
		return known
	}
	whole := view.List{Gone: l.gone, NameIn: mcp.ItemKey(k.method())}
	for _, page := range l.pages {
		whole.Items = append(whole.Items, page.Items...)
	}
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

// pageFor returns a page as the caller sees it: the same for all users, but for the cursor of
// the next page.
func (c *Catalog) pageFor(l *listing, at int, call *mcp.Call) *mcp.List {
	page := l.pages[at]
	if at == len(l.pages)-1 {
		return page
	}
	next := c.sealCursor(at+1, call.Caller.User(), call.Method, l)
	return page.WithNext(&next)
}

// A cursor is the number of a page, sealed and bound to the user, the method and the
// generation of the list. Nothing else opens: not an altered cursor, not one of another
// user or of an upstream, and not one of an older generation.

func (c *Catalog) sealCursor(page int, user, method string, l *listing) string {
	return c.seal.Seal(binary.AppendUvarint(nil, uint64(page)), user, method, l.generation)
}

// openCursor returns the page that a cursor refers to.
func (c *Catalog) openCursor(cursor mcp.Raw, call *mcp.Call, l *listing) (int, error) {
	invalid := mcp.Errorf(failure.InvalidCursor, "Invalid cursor: it is unknown, or the list has changed; start again without a cursor")
	sealed, ok := cursor.StringValue()
	if !ok {
		return 0, invalid
	}
	plain, err := c.seal.Open(sealed, call.Caller.User(), call.Method, l.generation)
	if err != nil {
		return 0, invalid
	}
	page, n := binary.Uvarint(plain)
	if n <= 0 || n != len(plain) || page >= uint64(len(l.pages)) {
		return 0, invalid
	}
	return int(page), nil
}
