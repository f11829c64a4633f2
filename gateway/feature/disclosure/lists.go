package disclosure

import (
	"context"
	"log/slog"
	"strings"
	"sync"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// Bounds on the cached lists. When either is reached, all are made anew.
const (
	maxLists     = 256
	maxListBytes = 64 << 20
)

// lists caches pages as callers of a profile see them, keyed by the pages from below: while
// those stay the same, ours and their renderings do, too.
type lists struct {
	mu    sync.Mutex // guards the fields below
	made  map[listKey]*mcp.List
	bytes int
}

type listKey struct {
	method  string
	profile int
	first   bool
	from    *mcp.List // nil if there is none below
}

// of returns the list of a key; make builds its items from those below.
func (l *lists) of(key listKey, private bool, make func([]mcp.Item) []mcp.Item) *mcp.List {
	if key.from == nil {
		return l.ofOrigin(key, private, make)
	}
	next := key.from.Next
	key.from = key.from.Origin()
	return l.ofOrigin(key, private, make).WithNext(next)
}

func (l *lists) ofOrigin(key listKey, private bool, make func([]mcp.Item) []mcp.Item) *mcp.List {
	l.mu.Lock()
	known := l.made[key]
	l.mu.Unlock()
	if known != nil {
		return known
	}
	list := &mcp.List{Private: private}
	bytes := 0
	if key.from != nil {
		list.Next, list.Expires, list.Private = key.from.Next, key.from.Expires, private || key.from.Private
		list.Items = make(key.from.Items)
		bytes = sizeOf(key.from.Items)
	} else {
		list.Items = make(nil)
	}
	bytes += 2 * sizeOf(list.Items) // counted twice, for the rendering
	l.mu.Lock()
	defer l.mu.Unlock()
	if known := l.made[key]; known != nil {
		return known
	}
	if l.made == nil || len(l.made) >= maxLists || l.bytes+bytes > maxListBytes {
		l.made, l.bytes = map[listKey]*mcp.List{}, 0
	}
	l.made[key] = list
	l.bytes += bytes
	return list
}

func sizeOf(items []mcp.Item) (n int) {
	const overhead = 128 // per item, in addition to its text
	for _, item := range items {
		n += len(item.Raw) + overhead
	}
	return n
}

// listTools lists tools with short descriptions, and ours first.
func (s stage) listTools(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
	reply, err := s.next.Handle(ctx, c)
	if err != nil || reply == nil || reply.List == nil {
		return reply, err
	}
	key := listKey{method: c.Method, profile: s.profile.index, first: isFirst(c), from: reply.List}
	return &mcp.Reply{List: s.lists.of(key, s.private(), func(items []mcp.Item) []mcp.Item {
		shown := make([]mcp.Item, 0, len(items)+1)
		if key.first {
			shown = append(shown, s.own)
		}
		for _, item := range items {
			switch {
			case item.Name == ToolName:
				s.log.WarnContext(ctx, "tool withheld: its public name is one of the gateway's own", failure.ItemWithheld.Attr(), slog.String("upstream", item.Target.Upstream), slog.String("name", item.Name))
			case s.profile.minimal[item.Target.Upstream]:
				shown = append(shown, s.minimal(item))
			default:
				shown = append(shown, item)
			}
		}
		return shown
	})}, nil
}

// listResources lists our resource, or its template, first. It also works if no upstream
// has resources.
func (s stage) listResources(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
	reply, err := s.next.Handle(ctx, c)
	key := listKey{method: c.Method, profile: s.profile.index, first: isFirst(c)}
	switch {
	case err == nil && reply != nil && reply.List != nil:
		key.from = reply.List
	case !mcp.HasCode(err, mcp.CodeMethodNotFound):
		return reply, err
	case !key.first:
		return nil, mcp.Errorf(failure.InvalidCursor, "Invalid cursor: it is unknown, or the list has changed; start again without a cursor")
	}
	return &mcp.Reply{List: s.lists.of(key, s.private(), func(items []mcp.Item) []mcp.Item {
		shown := make([]mcp.Item, 0, len(items)+1)
		if key.first && c.Method == mcp.MethodResourcesList {
			shown = append(shown, ownResource())
		} else if key.first {
			shown = append(shown, ownTemplate())
		}
		for _, item := range items {
			if !reserved(item.Name) {
				shown = append(shown, item)
			}
		}
		return shown
	})}, nil
}

// private reports whether lists differ by caller. With a single profile they do not.
func (d *Disclosure) private() bool { return len(d.clients) > 0 }

func isFirst(c *mcp.Call) bool {
	_, more := c.Params.Member("cursor")
	return !more
}

// reserved reports whether a public URI, or a template of one, is ours: an upstream whose
// URIs stay unchanged may have the same one.
func reserved(uri string) bool {
	rest, ok := strings.CutPrefix(uri, URI)
	return ok && (rest == "" || strings.ContainsRune("?#{", rune(rest[0])))
}
