package catalog

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// directory answers resources/directory/read (SEP-2640, Directory Listing), for
// directories within skills only: what is above them would name skills that the caller may
// not know of. Where the record of a skill has all its files, nobody needs to be asked.
func (c *Catalog) directory(ctx context.Context, call *mcp.Call) (*mcp.Reply, error) {
	to, err := c.lookUpURI(ctx, resources, call)
	if err != nil {
		return nil, err
	}
	unknown := mcp.ErrUnknown(call.Method, call.Name)
	if to.skill.of == "" || strings.HasSuffix(to.native, "/") {
		return nil, unknown
	}
	if cursor, ok := call.Params.Member("cursor"); ok && !cursor.IsNull() {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "Invalid cursor: a directory has one page")
	}
	s := c.sources[to.source]
	state := &c.view(&call.Caller).states[to.source]
	if state.offers.directories {
		return c.askDirectory(ctx, s, call, to.native)
	}
	shelf := state.shelves[skills]
	if shelf == nil {
		return nil, unavailable(s, skills)
	}
	for _, e := range shelf.entries {
		if e.native == to.skill.of && e.skill.complete {
			if children := s.naming.children(e.item.Raw, to.native); children != nil {
				return &mcp.Reply{Result: mcp.Object("resources", children)}, nil
			}
		}
	}
	return nil, unknown
}

// children are the files and directories directly in a directory of a skill, of which
// record is the public record; nil where there is no such directory.
func (n naming) children(record mcp.Raw, native string) mcp.Raw {
	inside := n.uri(native) + "/"
	type child struct {
		uri, name, media string
		size             mcp.Raw
	}
	var all []child
	seen := make(map[string]bool)
	files, _ := record.Member("resources")
	files.Elements(func(f mcp.Raw) bool {
		uri, _ := f.Member("uri")
		rest, ok := strings.CutPrefix(uri.Text(), inside)
		if !ok {
			return true
		}
		name, _, deeper := strings.Cut(rest, "/")
		if seen[name] {
			return true
		}
		seen[name] = true
		one := child{uri: inside + name, name: unescaped(name), media: mcp.MediaDirectory}
		if !deeper {
			one.media = mcp.MediaType(name)
			one.size, _ = f.Member("size")
		}
		all = append(all, one)
		return true
	})
	if all == nil {
		return nil
	}
	slices.SortFunc(all, func(a, b child) int { return cmp.Compare(a.uri, b.uri) })
	out := mcp.Raw{'['}
	for i, one := range all {
		if i > 0 {
			out = append(out, ',')
		}
		r := mcp.Object("uri", mcp.String(one.uri), "name", mcp.String(one.name))
		if one.media != "" {
			r = r.With("mimeType", mcp.String(one.media))
		}
		if one.size != nil {
			r = r.With("size", one.size)
		}
		out = append(out, r...)
	}
	return append(out, ']')
}

// askDirectory has the upstream list a directory, all of its pages: its cursors stay here.
// What it says of how long that is good holds for the whole as far as it does for each page.
func (c *Catalog) askDirectory(ctx context.Context, s *source, call *mcp.Call, native string) (*mcp.Reply, error) {
	out := mcp.Raw{'['}
	inside := s.naming.uri(native) + "/"
	ttl, public := int64(math.MaxInt64), true
	inner := call.Clone()
	for page := 0; ; page++ {
		reply, err := c.forward(ctx, s, inner, native)
		if err != nil {
			return nil, err
		}
		if reply == nil || reply.Result == nil {
			return nil, mcp.UpstreamError(mcp.CodeUpstreamBadAnswer, s.naming.upstream, mcp.ExecutedUnknown, "Upstream %s answered without a result", s.naming.upstream)
		}
		list, _ := reply.Result.Member("resources")
		list.Elements(func(r mcp.Raw) bool {
			if uri, _ := r.Member("uri"); !strings.HasPrefix(uri.Text(), inside) || !isChild(r) {
				return true
			}
			if len(out) > 1 {
				out = append(out, ',')
			}
			out = append(out, r...)
			return len(out) < maxSkillList
		})
		member, _ := reply.Result.Member("ttlMs")
		milliseconds, err := strconv.ParseInt(string(member), 10, 64)
		if err != nil {
			milliseconds = 0
		}
		scope, _ := reply.Result.Member("cacheScope")
		ttl, public = min(ttl, max(milliseconds, 0)), public && scope.Text() == "public"
		next, more := reply.Result.Member("nextCursor")
		if !more || next.IsNull() || page == maxPages || len(out) >= maxSkillList {
			break
		}
		inner.Params = call.Params.With("cursor", next)
	}
	scope := "private"
	if public {
		scope = "public"
	}
	return &mcp.Reply{Result: mcp.Object("resources", append(out, ']'), "ttlMs", mcp.Int(ttl), "cacheScope", mcp.String(scope))}, nil
}

// isChild reports whether a child of a directory is a Resource.
func isChild(r mcp.Raw) bool {
	return checkFields(r, "name", text("name"), text("title"), text("description"), text("mimeType"), object("_meta")) == nil
}
