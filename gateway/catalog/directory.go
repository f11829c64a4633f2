package catalog

import (
	"context"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/gateway/catalog/fit"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// directory answers resources/directory/read (skills extension, Reading Directories), only for
// directories within skills. A directory above them would name skills that the caller may not know
// of. An upstream need not support directories: the gateway knows the files of a skill or, if not,
// which of them are listed.
func (l Lens) directory(ctx context.Context) (*mcp.Reply, error) {
	l, to, err := l.routeURI(ctx)
	if err != nil {
		return nil, err
	}
	c, call := l.c, l.call
	unknown := mcp.ErrUnknown(call.Method, call.Name)
	if to.skill.of == "" || strings.HasSuffix(to.native, "/") {
		return nil, unknown
	}
	if cursor, ok := call.Params.Member("cursor"); ok && !cursor.IsNull() {
		return nil, mcp.Errorf(failure.InvalidCursor, "Invalid cursor: a directory has one page")
	}
	s := c.sources[to.source]
	state := &l.states[to.source]
	if state.offers.directories {
		return askDirectory(ctx, s, call, to.native)
	}
	list := state.lists[skills]
	if list == nil {
		return nil, c.unavailable(s, skills)
	}
	at := slices.IndexFunc(list.entries, func(e entry) bool { return e.native == to.skill.of })
	if at < 0 && s.naming.skillDir { // a skill that is left out is a directory of the skill around it
		at = slices.IndexFunc(list.entries, func(e entry) bool { return strings.HasPrefix(to.skill.of, e.native+"/") })
	}
	if at < 0 {
		return nil, unknown
	}
	d := newDirectory(s.naming.uri(to.native))
	d.sees = func(uri string) bool {
		_, native, ok := l.uris.find(uri)
		of, certain := state.skillOf(native)
		return call.Sees == nil || ok && certain && of != "" && call.Sees(s.naming.file(of, native))
	}
	if e := list.entries[at]; e.skill.complete {
		files, _ := e.item.Raw.Member("resources")
		files.Elements(d.add)
	} else {
		listed := state.lists[resources]
		if listed == nil {
			return nil, c.unavailable(s, resources)
		}
		d.add(mcp.Object("uri", mcp.String(s.naming.uri(e.skill.uri))))
		for _, r := range listed.entries {
			d.add(r.item.Raw)
		}
	}
	if len(d.children) == 0 {
		return nil, unknown
	}
	return &mcp.Reply{Result: mcp.Object("resources", d.list())}, nil
}

// directory collects the direct children of a directory, by name, from files at any depth.
type directory struct {
	inside   string                // the prefix of the public URIs of the files in it
	sees     func(uri string) bool // whether the caller may know of a file; nil for all
	children map[string]child
}

type child struct {
	media string
	size  mcp.Raw
}

func newDirectory(uri string) directory {
	return directory{inside: uri + "/", children: make(map[string]child)}
}

// add adds a file or a resource, if it is in the directory. It always returns true.
func (d directory) add(file mcp.Raw) bool {
	uri, _ := file.Member("uri")
	rest, ok := strings.CutPrefix(uri.Text(), d.inside)
	name, _, deeper := strings.Cut(rest, "/")
	if !ok || name == "" || d.sees != nil && !d.sees(uri.Text()) {
		return true
	}
	if deeper {
		d.children[name] = child{media: mcp.MediaDirectory}
		return true
	}
	one := child{media: mcp.MediaType(name)}
	if media, _ := file.Member("mimeType"); media.Text() != "" {
		one.media = media.Text()
	}
	size, _ := file.Member("size")
	if _, err := strconv.ParseUint(string(size), 10, 53); err == nil {
		one.size = size
	}
	if known, ok := d.children[name]; !ok || known.size == nil {
		d.children[name] = one
	}
	return true
}

// list encodes the children as resources.
func (d directory) list() mcp.Raw {
	out := mcp.Raw{'['}
	for i, name := range slices.Sorted(maps.Keys(d.children)) {
		if i > 0 {
			out = append(out, ',')
		}
		r := mcp.Object("uri", mcp.String(d.inside+name), "name", mcp.String(mcp.Unescape(name)))
		if c := d.children[name]; c.media != "" {
			r = r.With("mimeType", mcp.String(c.media))
		}
		if c := d.children[name]; c.size != nil {
			r = r.With("size", c.size)
		}
		out = append(out, r...)
	}
	return append(out, ']')
}

// askDirectory asks the upstream for all pages of a directory; its cursors stay here. The whole
// result may be cached no longer, and no more widely, than any page.
func askDirectory(ctx context.Context, s *source, call *mcp.Call, native string) (*mcp.Reply, error) {
	out := mcp.Raw{'['}
	inside := s.naming.uri(native) + "/"
	ttl, public := int64(math.MaxInt64), true
	inner := call.Clone()
	for page := 0; ; page++ {
		reply, err := forward(ctx, s, inner, native)
		if err != nil {
			return nil, err
		}
		if reply == nil || reply.Result == nil {
			return nil, mcp.UpstreamError(failure.UpstreamBadAnswer, s.naming.upstream, mcp.ExecutedUnknown,
				"Upstream %s answered without a result", s.naming.upstream)
		}
		list, _ := reply.Result.Member("resources")
		list.Elements(func(r mcp.Raw) bool {
			r, err := fit.Item(mcp.MethodResourcesList, r)
			if err != nil || !strings.HasPrefix(r.At("uri").Text(), inside) {
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
		if !more || next.IsNull() || page == maxEmpty || len(out) >= maxSkillList {
			break
		}
		inner.Params = call.Params.With("cursor", next)
	}
	scope := "private"
	if public {
		scope = "public"
	}
	return &mcp.Reply{Result: mcp.Object("resources", append(out, ']'), "ttlMs", mcp.Int(ttl), "cacheScope",
		mcp.String(scope))}, nil
}
