package skills

import (
	"bytes"
	"context"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// Visibility tells whether a caller may know of the item with a public name or URI; policy.Guard
// implements it. Kind is one of the mcp.Kind constants.
type Visibility interface {
	Sees(ctx context.Context, c *mcp.Call, kind, public string) bool
	// SeesAll reports whether the caller may know of everything.
	SeesAll(caller *mcp.Caller) bool
}

// Middleware shapes the answers to skills/list, skills/get and resources/directory/read,
// and passes everything else through.
func Middleware(visible Visibility) mcp.Middleware {
	return func(next mcp.Handler) mcp.Handler {
		return mcp.HandlerFunc(func(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
			switch c.Method {
			case mcp.MethodSkillsList, mcp.MethodSkillsGet, mcp.MethodDirectoryRead:
			default:
				return next.Handle(ctx, c)
			}
			if key, _ := mcp.SkillKey(c.Params); key == nil && c.Method == mcp.MethodSkillsGet {
				return nil, mcp.Errorf(failure.InvalidParams, "Invalid params: skills/get needs either a uri or a name")
			}
			reply, err := next.Handle(ctx, c)
			if err != nil || reply == nil {
				return reply, err
			}
			s := shaper{ctx: ctx, call: c, visible: visible, short: mcp.DeclaresSkills(c.Caps)}
			switch {
			case reply.Result != nil && c.Method == mcp.MethodDirectoryRead:
				result := s.files(reply.Result, "resources")
				if s.trimmed && string(result.At("resources")) == "[]" { // as if it did not exist
					return nil, mcp.ErrUnknown(c.Method, c.Name)
				}
				return &mcp.Reply{Result: result, Release: reply.Release}, nil
			case reply.List != nil:
				return &mcp.Reply{List: s.list(reply.List)}, nil
			case reply.Result != nil:
				return &mcp.Reply{Result: s.result(reply.Result), Release: reply.Release}, nil
			}
			return reply, nil
		})
	}
}

// shaper shapes one answer.
type shaper struct {
	ctx     context.Context
	call    *mcp.Call
	visible Visibility
	short   bool // only the members of SEP-2640
	trimmed bool // something was left out because of the caller
}

// list shapes a page. An unchanged page stays the same List, with its cached rendering.
func (s *shaper) list(l *mcp.List) *mcp.List {
	changed := false
	items := make([]mcp.Item, len(l.Items))
	for i, item := range l.Items {
		items[i] = item
		items[i].Raw = s.record(item.Raw)
		changed = changed || len(items[i].Raw) != len(item.Raw)
	}
	if !changed {
		return l
	}
	return &mcp.List{Items: items, Next: l.Next, Expires: l.Expires, Private: l.Private || s.trimmed}
}

// result shapes an answer to skills/get, in either form.
func (s *shaper) result(result mcp.Raw) mcp.Raw {
	if record, ok := result.Member("skill"); ok {
		if changed := s.record(record); len(changed) != len(record) {
			return result.With("skill", changed)
		}
		return result
	}
	return s.trim(s.files(result, "files"))
}

// record shapes a record.
func (s *shaper) record(record mcp.Raw) mcp.Raw {
	record = s.files(record, "resources")
	if !s.short {
		return s.trim(record)
	}
	return record.Edit(mcp.Edit{Name: "name"}, mcp.Edit{Name: "title"}, mcp.Edit{Name: "icons"},
		mcp.Edit{Name: "description"},
		mcp.Edit{Name: "version"}, mcp.Edit{Name: "tags"}, mcp.Edit{Name: "arguments"}, mcp.Edit{Name: "dependencies"})
}

// files removes the files that the caller may not know of from a member that lists files. For the
// caller, the remaining files are the whole skill: a decision of policy about the skill always
// covers its SKILL.md, too.
func (s *shaper) files(object mcp.Raw, member string) mcp.Raw {
	all, ok := object.Member(member)
	if !ok || !all.IsArray() || s.visible.SeesAll(&s.call.Caller) {
		return object
	}
	hidden := false
	seen := all.Filter(func(file mcp.Raw) mcp.Raw {
		if uri, _ := file.Member("uri"); s.visible.Sees(s.ctx, s.call, mcp.KindResources, uri.Text()) {
			return file
		}
		hidden = true
		return nil
	})
	if !hidden {
		return object
	}
	s.trimmed = true
	return object.With(member, seen)
}

// trim removes items that the caller may not know of, or that do not exist, from the member
// dependencies.
func (s *shaper) trim(object mcp.Raw) mcp.Raw {
	if !bytes.Contains(object, []byte(`"dependencies"`)) {
		return object
	}
	dependencies, ok := object.Member("dependencies")
	if !ok {
		return object
	}
	less := mcp.Raw("{}")
	if dependencies.IsObject() {
		less = s.seen(dependencies)
	}
	switch {
	case len(less) == len("{}"):
		return object.Edit(mcp.Edit{Name: "dependencies"})
	case len(less) == len(dependencies):
		return object
	}
	return object.With("dependencies", less)
}

// seen returns the dependencies that the caller may know of. Empty lists are removed.
func (s *shaper) seen(dependencies mcp.Raw) mcp.Raw {
	var edits []mcp.Edit
	for _, of := range [...]struct{ name, kind, member string }{
		{"tools", mcp.KindTools, ""}, {"prompts", mcp.KindPrompts, "name"}, {"resources", mcp.KindResources, "uri"},
	} {
		all, ok := dependencies.Member(of.name)
		if !ok {
			continue
		}
		less := all.Filter(func(one mcp.Raw) mcp.Raw {
			public := one
			if of.member != "" {
				public, _ = one.Member(of.member)
			}
			if s.visible.Sees(s.ctx, s.call, of.kind, public.Text()) {
				return one
			}
			s.trimmed = true
			return nil
		})
		if len(less) == len("[]") {
			less = nil // empty lists are removed
		}
		edits = append(edits, mcp.Edit{Name: of.name, Value: less})
	}
	return dependencies.Edit(edits...)
}
