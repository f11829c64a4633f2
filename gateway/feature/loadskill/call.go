package loadskill

import (
	"context"
	"net/url"
	"path"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// call loads the SKILL.md of a skill, or another file of it, as the caller would read it.
// If the read needs approval, the user is asked first, and the next round returns here.
func (s *stage) call(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
	skills, err := s.skills(ctx, c)
	switch {
	case err != nil:
		return nil, err
	case len(skills.all) == 0:
		return s.next.Handle(ctx, c) // the tool does not exist for this caller
	case c.Task != nil:
		return nil, mcp.Errorf(failure.NoTask, "Tool %s does not run as a task", ToolName)
	}
	arguments, _ := c.Params.Member("arguments")
	name, _ := arguments.Member("name")
	file, _ := arguments.Member("file")
	switch {
	case !name.IsNull() && name.Text() == "", !file.IsNull() && file.Text() == "":
		return nil, mcp.Errorf(failure.InvalidParams, "Invalid params: name and file of %s are texts", ToolName)
	case name.IsNull():
		return &mcp.Reply{Result: mcp.ToolResult(false, mcp.TextContent(skills.text()))}, nil
	}
	one, ok := skills.find(name.Text())
	if !ok {
		return nil, mcp.ErrUnknown(mcp.MethodSkillsGet, name.Text())
	}
	uri := one.uri
	if !file.IsNull() {
		if uri, ok = one.file(file.Text()); !ok {
			return nil, mcp.ErrUnknown(mcp.MethodResourcesRead, file.Text())
		}
	}
	inner := c.Clone()
	inner.Method, inner.Name, inner.Params, inner.ParamHeaders = mcp.MethodResourcesRead, uri,
		mcp.Object("uri", mcp.String(uri)), nil
	reply, err := s.next.Handle(ctx, inner)
	if err != nil || reply == nil || reply.Result == nil {
		return reply, err
	}
	var content []mcp.Raw
	contents, _ := reply.Result.Member("contents")
	contents.Elements(func(of mcp.Raw) bool {
		if text, ok := of.Member("text"); ok {
			content = append(content, mcp.Object("type", mcp.Raw(`"text"`), "text", text))
		} else {
			content = append(content, mcp.Object("type", mcp.Raw(`"resource"`), "resource", of))
		}
		return true
	})
	if names := one.others(); uri == one.uri && len(names) > 0 {
		content = append(content, mcp.TextContent("Files of this skill, for the argument file: "+strings.Join(names, ", ")))
	}
	isError, _ := reply.Result.Member("isError")
	return &mcp.Reply{Result: mcp.ToolResult(isError.IsTrue(), content...), Release: reply.Release}, nil
}

// others returns the names of the skill's files besides its SKILL.md, as far as they are
// known.
func (s skill) others() (names []string) {
	s.each(func(name, uri string) bool {
		if uri != s.uri {
			names = append(names, name)
		}
		return true
	})
	return names
}

// each calls fn for the known files, as long as it returns true.
func (s skill) each(fn func(name, uri string) bool) {
	root, _ := mcp.SkillRoot(s.uri)
	s.files.Elements(func(f mcp.Raw) bool {
		member, _ := f.Member("uri")
		uri := member.Text()
		name, err := url.PathUnescape(strings.TrimPrefix(uri, root+"/"))
		return err != nil || fn(name, uri)
	})
}

// file returns the URI of a file of the skill, given its path in the skill or its URI.
func (s skill) file(name string) (uri string, ok bool) {
	root, _ := mcp.SkillRoot(s.uri)
	name = path.Clean(strings.TrimPrefix(name, root+"/"))
	if name == "." || name == ".." || strings.HasPrefix(name, "../") || strings.HasPrefix(name, "/") ||
		strings.Contains(name, `\`) {
		return "", false
	}
	known := false
	s.each(func(of, at string) bool {
		known = true
		if of == name || strings.TrimPrefix(at, root+"/") == name {
			uri = at
		}
		return uri == ""
	})
	if known {
		return uri, uri != ""
	}
	segments := strings.Split(name, "/")
	for i, segment := range segments {
		segments[i] = url.PathEscape(segment)
	}
	return root + "/" + strings.Join(segments, "/"), true
}
