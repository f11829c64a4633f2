package catalog

import (
	"encoding/binary"
	"sync"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// maxUsersPerPage bounds how many users' forms of one page are cached: each may hold a
// rendering as large as the page.
const maxUsersPerPage = 8

// page is a part of a merged list. Cursors differ by user, so a page with a successor does,
// too; the last page is the same for all.
type page struct {
	items []mcp.Item

	mu    sync.Mutex           // guards lists
	lists map[string]*mcp.List // by user, "" on the last page
}

// list answers a list method from the snapshot.
func (c *Catalog) list(s *snapshot, k kind, call *mcp.Call) (*mcp.Reply, error) {
	l := s.lists[k]
	at := 0
	if cursor, ok := call.Params.Member("cursor"); ok {
		var err error
		if at, err = c.openCursor(cursor, call, l); err != nil {
			return nil, err
		}
	}
	return &mcp.Reply{List: c.pageFor(l, at, call)}, nil
}

// pageFor returns a page as the caller sees it. It returns the same List until something
// changes, so that its rendering is reused.
func (c *Catalog) pageFor(l *listing, at int, call *mcp.Call) *mcp.List {
	p, last := l.pages[at], at == len(l.pages)-1
	user := ""
	if !last {
		user = call.Caller.User()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if list, ok := p.lists[user]; ok {
		return list
	}
	list := &mcp.List{Items: p.items, Expires: l.expires, Private: l.private}
	if !last {
		next := c.sealCursor(at+1, user, call.Method, l)
		list.Next = &next
	}
	if p.lists == nil || len(p.lists) >= maxUsersPerPage {
		p.lists = make(map[string]*mcp.List)
	}
	p.lists[user] = list
	return list
}

// A cursor is the number of a page, sealed and bound to the user, the method and the
// generation of the list. Nothing else opens: not an altered cursor, not one of another
// user or of an upstream, and not one of an older generation.

func (c *Catalog) sealCursor(page int, user, method string, l *listing) string {
	return c.seal.Seal(binary.AppendUvarint(nil, uint64(page)), user, method, l.generation)
}

// openCursor returns the page that a cursor refers to.
func (c *Catalog) openCursor(cursor mcp.Raw, call *mcp.Call, l *listing) (int, error) {
	invalid := mcp.Errorf(mcp.CodeInvalidParams, "Invalid cursor: it is unknown, or the list has changed; start again without a cursor")
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
