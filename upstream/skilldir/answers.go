package skilldir

import (
	"context"
	"os"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/skillmd"
)

func discover(context.Context, *mcp.Call, *snapshot) (*mcp.Reply, error) {
	return &mcp.Reply{Result: mcp.Raw(`{"capabilities":{"resources":{"listChanged":true,"subscribe":true},"skills":{"listChanged":true},"extensions":{"` + mcp.SkillsExtension + `":{}}}}`)}, nil
}

// listSkills answers skills/list. A broken skill has only a key and a URI there: policy
// decides on its files as on those of any skill.
func listSkills(_ context.Context, _ *mcp.Call, held *snapshot) (*mcp.Reply, error) {
	list := &mcp.List{Expires: time.Now().Add(fresh)}
	for _, k := range held.skills {
		list.Items = append(list.Items, mcp.Item{Name: k.key, Raw: k.record})
	}
	for _, key := range held.broken {
		list.Items = append(list.Items, mcp.Item{Name: key,
			Raw: mcp.Object("name", mcp.String(key), "uri", mcp.String(textURI(key)))})
	}
	return &mcp.Reply{List: list}, nil
}

// listFiles answers resources/list with the SKILL.md of all skills.
func listFiles(_ context.Context, _ *mcp.Call, held *snapshot) (*mcp.Reply, error) {
	list := &mcp.List{Expires: time.Now().Add(fresh)}
	for _, k := range held.skills {
		list.Items = append(list.Items, mcp.Item{Name: k.uri,
			Raw: mcp.Object("uri", mcp.String(k.uri), "name", mcp.String(k.text.Name),
				"description", mcp.String(k.text.Description), "mimeType", mcp.String(mcp.MediaMarkdown), "size",
				mcp.Int(held.files[k.uri].size))})
	}
	return &mcp.Reply{List: list}, nil
}

// getSkill answers skills/get, in the form of SEP-2640 for a uri and of SEP-2076 for a name.
func getSkill(_ context.Context, c *mcp.Call, held *snapshot) (*mcp.Reply, error) {
	uri, byURI := mcp.SkillKey(c.Params)
	key := c.Name
	if byURI {
		key = held.files[uri.Text()].skill
	}
	k := held.find(key)
	switch {
	case k == nil, byURI && k.uri != uri.Text():
		return nil, mcp.ErrUnknown(c.Method, c.Name)
	case byURI:
		return &mcp.Reply{Result: mcp.Object("skill", k.record)}, nil
	}
	result := mcp.Object("description", mcp.String(k.text.Description), "instructions", mcp.String(k.text.Body))
	if dependencies, ok := k.record.Member("dependencies"); ok {
		result = result.With("dependencies", dependencies)
	}
	var files []mcp.Raw
	for _, f := range k.files {
		if f.uri != k.uri {
			files = append(files, skillmd.InstructedFile(strings.TrimPrefix(f.path, k.dir+"/"), f.uri))
		}
	}
	if files != nil {
		result = result.With("files", mcp.Array(files...))
	}
	return &mcp.Reply{Result: result}, nil
}

// read answers resources/read: files that belong to a listed skill, and no others, whatever
// their URI looks like. Their digest is that of the list.
func (d *Dir) read(ctx context.Context, c *mcp.Call, held *snapshot) (*mcp.Reply, error) {
	for again := false; ; again = true {
		f, ok := held.files[c.Name]
		if !ok || !decidedOn(c.Target, f) {
			return nil, mcp.ErrUnknown(mcp.MethodResourcesRead, c.Name)
		}
		content, err := d.open(f)
		if err == nil && skillmd.Digest(content) == f.digest {
			return &mcp.Reply{Result: mcp.Object("contents", skillmd.Contents(c.Name, content))}, nil
		}
		if again {
			return nil, mcp.UpstreamError(failure.UpstreamBadAnswer, d.name, mcp.ExecutedNo,
				"The file is being changed: list the skills of upstream %s again and read it then", d.name)
		}
		if held, err = d.look(ctx, 0); err != nil {
			return nil, err
		}
	}
}

// decidedOn reports whether policy has let a file through as a part of its skill. Until the list is
// fetched again, that may have been the skill around it.
func decidedOn(target mcp.Target, f file) bool {
	return target.Kind == "" || target.Kind == mcp.KindSkills && target.Name == f.skill
}

func (d *Dir) open(f file) ([]byte, error) {
	root, err := os.OpenRoot(d.dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	info, err := root.Lstat(f.real)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errChanged
	}
	return readInRoot(root, f.real, info, f.size)
}
