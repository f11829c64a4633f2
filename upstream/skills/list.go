package skills

import (
	"bytes"
	"cmp"
	"context"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/skillmd"
)

// list answers skills/list.
func (s stage) list(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
	core := s.core.Load()
	if !core && !s.uris.Load() {
		return s.listPlain(ctx, c)
	}
	reply, err := s.next.Handle(ctx, c)
	if err != nil || reply.List == nil {
		return reply, err
	}
	items := make([]mcp.Item, len(reply.List.Items))
	for i, item := range reply.List.Items {
		items[i] = s.item(c, item.Raw, core)
	}
	return &mcp.Reply{List: reply.List.With(items)}, nil
}

// each lists the skills on behalf of a call, as long as fn returns true.
func (s stage) each(ctx context.Context, c *mcp.Call, fn func(mcp.Item) bool) error {
	for page, err := range mcp.Pages(ctx, mcp.HandlerFunc(s.list), inner(c, mcp.MethodSkillsList, "", nil), maxPages) {
		if err != nil {
			return err
		}
		for _, item := range page.Items {
			if !fn(item) {
				return nil
			}
		}
	}
	return nil
}

// item makes the record of an entry of either shape, or of both.
func (s stage) item(c *mcp.Call, entry mcp.Raw, core bool) mcp.Item {
	name := entry.At("name").Text()
	uri, hasURI := entry.Member("uri")
	if !hasURI {
		return s.madeItem(c, entry, name)
	}
	root, ok := mcp.SkillRoot(uri.Text())
	if !ok {
		return mcp.Item{Name: uri.Text(), Raw: entry} // which the catalog withholds
	}
	key := mcp.SkillPath(root)
	k := skill{root: root}
	if core {
		k.name = name
	}
	s.learn(c, key, k)
	return mcp.Item{Name: key, Raw: skillmd.WithFields(entry.With("name", mcp.String(key)))}
}

// madeItem makes the record of an entry that has no URI. Its text may depend on arguments, so
// there are no digests.
func (s stage) madeItem(c *mcp.Call, entry mcp.Raw, name string) mcp.Item {
	slug := skillmd.Slug(name)
	about := ""
	for _, member := range []string{"description", "title", "name"} {
		about = cmp.Or(about, strings.TrimSpace(entry.At(member).Text()))
	}
	if runes := []rune(about); len(runes) > skillmd.MaxDescription {
		about = string(runes[:skillmd.MaxDescription])
	}
	frontmatter := mcp.Object("name", mcp.String(slug), "description", mcp.String(about))
	var metadata mcp.Raw
	if version := entry.At("version").Text(); version != "" {
		metadata = metadata.With("version", mcp.String(version))
	}
	if tags := entry.At("tags"); tags.IsArray() {
		metadata = metadata.With("tags", mcp.String(strings.Join(skillmd.Words(tags), ", ")))
	}
	if metadata != nil {
		frontmatter = frontmatter.With("metadata", metadata)
	}
	record := entry.Edit(mcp.Edit{Name: "uri", Value: mcp.String(madeURI(name))},
		mcp.Edit{Name: "frontmatter", Value: frontmatter}, mcp.Edit{Name: "resources", Value: mcp.Raw(`"dynamic"`)})
	k := skill{root: mcp.SkillScheme + slug, name: name, made: true}
	shared := s.shared(c, name)
	all, known := s.known.Peek(shared)
	switch {
	case c.Session == "":
		if k.varies = all.varies; !s.perUser && !k.varies {
			k.record = record
		}
	case known && !bytes.Equal(all.record, record):
		all.varies, all.record = true, nil // from now on, each session is asked
		s.known.Add(shared, all)
	}
	s.learn(c, name, k)
	return mcp.Item{Name: name, Raw: record}
}

// madeURI returns the URI that is made up for the SKILL.md of a skill that has none.
func madeURI(name string) string { return mcp.SkillScheme + skillmd.Slug(name) + "/" + mcp.SkillFile }

// madeRecord returns the record of a skill that has no URI of its own, as this caller may
// see it: what the server tells one user, or in one client's session, is not shown to another.
func (s stage) madeRecord(ctx context.Context, c *mcp.Call, key string) (record mcp.Raw, err error) {
	if k, ok := s.find(c, key); ok && k.record != nil {
		return k.record, nil
	}
	err = s.each(ctx, c, func(item mcp.Item) bool {
		if item.Name == key {
			record = item.Raw
		}
		return record == nil
	})
	if err == nil && record == nil {
		err = mcp.ErrUnknown(c.Method, c.Name)
	}
	return record, err
}
