package disclosure

import (
	"context"
	"log/slog"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// listKey is the key of a page as callers of a profile see it.
type listKey struct {
	method  string
	profile int
	first   bool
}

// shown returns the page that callers of the profile see; from is nil if there is none below.
func (s stage) shown(c *mcp.Call, from *mcp.List, items func([]mcp.Item) []mcp.Item) *mcp.List {
	build := func(l *mcp.List) *mcp.List {
		made := l.With(items(l.Items))
		made.Private = l.Private || len(s.clients) > 0 // with a single profile, lists do not differ by caller
		return made
	}
	if from == nil {
		return build(&mcp.List{})
	}
	return from.Derive(listKey{c.Method, s.profile.index, isFirst(c)}, build)
}

// listTools lists tools with short descriptions, the gateway's own first.
func (s stage) listTools(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
	reply, err := s.next.Handle(ctx, c)
	if err != nil || reply == nil || reply.List == nil {
		return reply, err
	}
	return &mcp.Reply{List: s.shown(c, reply.List, func(items []mcp.Item) []mcp.Item {
		shown := make([]mcp.Item, 0, len(items)+1)
		if isFirst(c) {
			shown = append(shown, s.own)
		}
		for _, item := range items {
			switch {
			case item.Name == ToolName:
				s.log.WarnContext(ctx, "tool withheld: its public name is one of the gateway's own", failure.ItemWithheld.Attr(),
					slog.String("upstream", item.Target.Upstream), slog.String("name", item.Name))
			case s.profile.minimal[item.Target.Upstream]:
				shown = append(shown, s.minimal(item))
			default:
				shown = append(shown, item)
			}
		}
		return shown
	})}, nil
}

// listResources lists the gateway's own resource, or its template, first. It also works if no
// upstream has resources.
func (s stage) listResources(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
	reply, err := s.next.Handle(ctx, c)
	var from *mcp.List
	first := isFirst(c)
	switch {
	case err == nil && reply != nil && reply.List != nil:
		from = reply.List
	case !mcp.HasCode(err, mcp.CodeMethodNotFound):
		return reply, err
	case !first:
		return nil, mcp.Errorf(failure.InvalidCursor,
			"Invalid cursor: it is unknown, or the list has changed; start again without a cursor")
	}
	return &mcp.Reply{List: s.shown(c, from, func(items []mcp.Item) []mcp.Item {
		shown := make([]mcp.Item, 0, len(items)+1)
		if first && c.Method == mcp.MethodResourcesList {
			shown = append(shown, ownResource())
		} else if first {
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

func isFirst(c *mcp.Call) bool {
	_, more := c.Params.Member("cursor")
	return !more
}

// reserved reports whether a public URI, or a template of one, is the gateway's: an upstream with
// unchanged URIs may have the same one.
func reserved(uri string) bool {
	rest, ok := strings.CutPrefix(uri, URI)
	return ok && (rest == "" || strings.ContainsRune("?#{", rune(rest[0])))
}
