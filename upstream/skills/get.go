package skills

import (
	"context"
	"encoding/base64"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/skillmd"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
)

// get answers skills/get.
func (s stage) get(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
	uri, byURI := mcp.SkillKey(c.Params)
	k, ok := s.find(c, c.Name)
	if !ok && !(s.uris.Load() && byURI) { // by URI a server answers for what it does not list, too
		if err := s.each(ctx, c, func(mcp.Item) bool { return true }); err != nil {
			return nil, err
		}
		if k, ok = s.find(c, c.Name); !ok {
			return nil, mcp.ErrUnknown(c.Method, c.Name)
		}
	}
	switch {
	case byURI:
		return s.entry(ctx, c, k, uri.Text())
	case k.name != "":
		return s.next.Handle(ctx, inner(c, mcp.MethodSkillsGet, "", c.Params.Without("uri").With("name", mcp.String(k.name))))
	}
	return s.instructions(ctx, c, k)
}

// entry returns the answer to skills/get by URI.
func (s stage) entry(ctx context.Context, c *mcp.Call, k skill, uri string) (*mcp.Reply, error) {
	var item mcp.Item
	var err error
	switch {
	case k.plain:
		item, err = s.plainItem(ctx, c, uri, k.manifest)
	case k.made:
		item.Raw, err = s.madeRecord(ctx, c, c.Name)
	default:
		return s.nativeEntry(ctx, c, uri)
	}
	if err != nil {
		return nil, err
	}
	return &mcp.Reply{Result: mcp.Object("skill", item.Raw)}, nil
}

// nativeEntry asks the server for the entry of a skill by its URI.
func (s stage) nativeEntry(ctx context.Context, c *mcp.Call, uri string) (*mcp.Reply, error) {
	reply, err := s.next.Handle(ctx, inner(c, mcp.MethodSkillsGet, "",
		c.Params.Without("name").With("uri", mcp.String(uri))))
	if err != nil {
		return nil, err
	}
	entry := reply.Result.At("skill")
	if !entry.IsObject() {
		return nil, transport.Garbage("an answer to skills/get without a skill")
	}
	return &mcp.Reply{Result: reply.Result.With("skill", s.item(c, entry, s.core.Load()).Raw)}, nil
}

// instructions makes the result of SEP-2076 for a skill of SEP-2640, or of one that is only
// a resource: its SKILL.md without the frontmatter, and its other files.
func (s stage) instructions(ctx context.Context, c *mcp.Call, k skill) (*mcp.Reply, error) {
	uri := k.root + "/" + mcp.SkillFile
	text, err := s.readText(ctx, c, uri)
	if err != nil {
		return nil, err
	}
	result, body := mcp.Raw("{}"), text
	if head, rest, err := skillmd.Split(text); err == nil {
		body = rest
		frontmatter, _ := skillmd.ReadFrontmatter(head) // the instructions are good without it, too
		if description := frontmatter.At("description"); description.Text() != "" {
			result = result.With("description", description)
		}
	}
	result = result.With("instructions", mcp.String(string(body)))
	all, err := s.files(ctx, c, k, uri)
	if err != nil {
		return nil, err
	}
	var files []mcp.Raw
	for _, uri := range all {
		if name, inside := strings.CutPrefix(uri, k.root+"/"); inside && name != mcp.SkillFile && name != manifestFile {
			files = append(files, skillmd.InstructedFile(name, uri))
		}
	}
	if files != nil {
		result = result.With("files", mcp.Array(files...))
	}
	return &mcp.Reply{Result: result}, nil
}

// files returns the URIs of the files that a skill may have. Where nothing says which they
// are, they are the resources in its directory that the server lists.
func (s stage) files(ctx context.Context, c *mcp.Call, k skill, uri string) (uris []string, err error) {
	if !s.uris.Load() && !k.manifest {
		found, err := s.findPlain(ctx, c)
		return found.all, err
	}
	entry, err := s.entry(ctx, c, k, uri)
	if err != nil {
		return nil, err
	}
	entry.Result.At("skill", "resources").Elements(func(f mcp.Raw) bool {
		uris = append(uris, f.At("uri").Text())
		return true
	})
	return uris, nil
}

// readText reads a resource of the server.
func (s stage) readText(ctx context.Context, c *mcp.Call, uri string) ([]byte, error) {
	reply, err := s.next.Handle(ctx, inner(c, mcp.MethodResourcesRead, uri, mcp.Object("uri", mcp.String(uri))))
	if err != nil {
		return nil, err
	}
	var text []byte
	err = transport.Garbage("a %s without text", mcp.SkillFile)
	reply.Result.At("contents").Elements(func(content mcp.Raw) bool {
		if t, ok := content.Member("text"); ok {
			text, err = []byte(t.Text()), nil
		} else if blob, ok := content.Member("blob"); ok {
			text, err = base64.StdEncoding.DecodeString(blob.Text())
		}
		return false
	})
	if err == nil && len(text) > skillmd.MaxText {
		err = transport.ErrTooLarge
	}
	return text, err
}

// read answers resources/read. A SKILL.md that is made up for a skill of SEP-2076 holds the
// instructions without arguments, or names the arguments that the skill needs. Policy must
// have let the call through as one to that skill.
func (s stage) read(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
	key := c.Target.Name
	if !s.core.Load() || s.uris.Load() || c.Target.Kind != mcp.KindSkills || c.Name != madeURI(key) {
		return s.next.Handle(ctx, c)
	}
	record, err := s.madeRecord(ctx, c, key)
	if err != nil {
		return nil, err
	}
	text, needed := wantedArguments(record)
	if !needed {
		reply, err := s.next.Handle(ctx, inner(c, mcp.MethodSkillsGet, "", mcp.Object("name", mcp.String(key))))
		if err != nil {
			return nil, err
		}
		instructions, ok := reply.Result.Member("instructions")
		if !ok {
			return nil, transport.Garbage("an answer to skills/get without instructions")
		}
		text = instructions.Text()
	}
	return &mcp.Reply{Result: mcp.Object("contents",
		skillmd.Contents(c.Name, skillmd.Write(record.At("frontmatter"), text)))}, nil
}

// wantedArguments names the arguments of a skill, in place of instructions that depend on
// them. needed reports whether the skill requires any.
func wantedArguments(record mcp.Raw) (text string, needed bool) {
	var b strings.Builder
	b.WriteString("The instructions of this skill depend on arguments. Ask for them by `skills/get`, with the name that `skills/list` has for the skill and these arguments:\n\n")
	record.At("arguments").Elements(func(argument mcp.Raw) bool {
		b.WriteString("- `" + argument.At("name").Text() + "`")
		if argument.At("required").IsTrue() {
			needed = true
			b.WriteString(" (required)")
		}
		if about := argument.At("description").Text(); about != "" {
			b.WriteString(": " + about)
		}
		b.WriteByte('\n')
		return true
	})
	return b.String(), needed
}
