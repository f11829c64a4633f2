package disclosure

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// Bounds of the lists that are kept. At either, all are made anew.
const (
	maxLists     = 256
	maxListBytes = 64 << 20
)

// lists are pages as callers of a profile see them, by the pages from below: as long as
// those are the same, ours are, and so is what was rendered of them.
type lists struct {
	mu    sync.Mutex // guards the fields below
	made  map[listKey]*mcp.List
	bytes int
}

type listKey struct {
	method  string
	profile int
	first   bool
	from    *mcp.List // nil where there is none below
}

// of returns the list of a key; make makes its items from those below.
func (l *lists) of(key listKey, private bool, make func([]mcp.Item) []mcp.Item) *mcp.List {
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
	bytes += 2 * sizeOf(list.Items) // once more when rendered
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
	const overhead = 128 // of an item, beside its text
	for _, item := range items {
		n += len(item.Raw) + overhead
	}
	return n
}

// listTools shows the tools in short, and ours first.
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
				s.log.WarnContext(ctx, "tool withheld: its public name is one of the gateway's own", slog.String("upstream", item.Target.Upstream), slog.String("name", item.Name))
			case s.profile.minimal[item.Target.Upstream]:
				shown = append(shown, s.minimal(item))
			default:
				shown = append(shown, item)
			}
		}
		return shown
	})}, nil
}

// listResources shows our resource, or its template, first. There is one also where no
// upstream has any.
func (s stage) listResources(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
	reply, err := s.next.Handle(ctx, c)
	key := listKey{method: c.Method, profile: s.profile.index, first: isFirst(c)}
	switch {
	case err == nil && reply != nil && reply.List != nil:
		key.from = reply.List
	case !errors.Is(err, &mcp.Error{Code: mcp.CodeMethodNotFound}):
		return reply, err
	case !key.first:
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "Invalid cursor: it is unknown, or the list has changed; start again without a cursor")
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

// private reports whether lists differ by who asks: nobody has another one's profile
// where there is only one.
func (d *Disclosure) private() bool { return len(d.clients) > 0 }

func isFirst(c *mcp.Call) bool {
	_, more := c.Params.Member("cursor")
	return !more
}

// reserved reports whether a public URI, or template of one, is ours: an upstream whose
// URIs stay as they are may have such a one too.
func reserved(uri string) bool {
	rest, ok := strings.CutPrefix(uri, URI)
	return ok && (rest == "" || strings.ContainsRune("?#{", rune(rest[0])))
}
