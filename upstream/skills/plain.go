package skills

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/skillmd"
)

// Servers that have no skills/list may have skills all the same: resources that are a
// skill://.../SKILL.md. Some tell more about them by conventions that came before the
// extension: an index, skill://index.json, of what is not among the resources, and
// FastMCP's skill://NAME/_manifest, which says what files a skill has.

const (
	// maxPlainSkills bounds how many SKILL.md are read of such a server.
	maxPlainSkills = 100
	// maxPlainURIs bounds how many of its resources are remembered while it is looked
	// through.
	maxPlainURIs = 10_000

	manifestFile = "_manifest"
)

// plainSkills are the skills that a server's resources show.
type plainSkills struct {
	all       []string        // the URIs of all resources of the scheme
	texts     []string        // the URIs of SKILL.md
	manifests map[string]bool // the URIs of manifests
	index     bool
}

// listPlain makes skills of the resources of a server that has no skills/list.
func (s stage) listPlain(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
	found, err := s.findPlain(ctx, c)
	if err != nil {
		return nil, err
	}
	list := &mcp.List{}
	skipped := make(map[string]string)
	if found.index {
		found.texts, err = s.readIndex(ctx, c, found.texts)
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err != nil:
			skipped[mcp.SkillIndex] = plainFailure(err)
		}
	}
	for _, uri := range found.texts {
		if len(list.Items) == maxPlainSkills {
			skipped[uri] = fmt.Sprintf("there are more than %d skills", maxPlainSkills)
			break
		}
		root, _ := mcp.SkillRoot(uri)
		item, err := s.plainItem(ctx, c, uri, found.manifests[root+"/"+manifestFile])
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err != nil:
			skipped[uri] = plainFailure(err)
		default:
			list.Items = append(list.Items, item)
		}
	}
	if c.Session == "" {
		s.skipped.Store(&skipped)
	}
	return &mcp.Reply{List: list}, nil
}

// findPlain looks through the resources.
func (s stage) findPlain(ctx context.Context, c *mcp.Call) (found plainSkills, err error) {
	found.manifests = make(map[string]bool)
	seen := make(map[string]bool)
	for page, err := range mcp.Pages(ctx, s.next, inner(c, mcp.MethodResourcesList, "", nil), maxPages) {
		if err != nil {
			return found, err
		}
		for _, r := range page.Items {
			if !strings.HasPrefix(r.Name, mcp.SkillScheme) || seen[r.Name] || len(seen) == maxPlainURIs {
				continue
			}
			seen[r.Name] = true
			found.all = append(found.all, r.Name)
			switch _, isSkill := mcp.SkillRoot(r.Name); {
			case isSkill:
				found.texts = append(found.texts, r.Name)
			case r.Name == mcp.SkillIndex:
				found.index = true
			case strings.HasSuffix(r.Name, "/"+manifestFile):
				found.manifests[r.Name] = true
			}
		}
	}
	return found, nil
}

// readIndex adds the SKILL.md that an index names, at most one more than are read.
func (s stage) readIndex(ctx context.Context, c *mcp.Call, known []string) (uris []string, err error) {
	text, err := s.readText(ctx, c, mcp.SkillIndex)
	if err != nil {
		return known, err
	}
	index, err := wire.TextObject(string(text))
	if err != nil {
		return known, badSkill(mcp.SkillIndex + ": it is no JSON object")
	}
	uris = known
	index.At("skills").Elements(func(skill mcp.Raw) bool {
		uri := cmp.Or(skill.At("url").Text(), skill.At("uri").Text())
		if _, isSkill := mcp.SkillRoot(uri); isSkill && strings.HasPrefix(uri, mcp.SkillScheme) &&
			!slices.Contains(uris, uri) {
			uris = append(uris, uri)
		}
		return len(uris) <= len(known)+maxPlainSkills
	})
	return uris, nil
}

// plainItem makes the record of a skill that is only a resource. What files it has, and
// their digests, only a manifest tells; without one SEP-2640 says so by "dynamic".
func (s stage) plainItem(ctx context.Context, c *mcp.Call, uri string, manifest bool) (mcp.Item, error) {
	root, _ := mcp.SkillRoot(uri)
	text, err := s.readText(ctx, c, uri)
	if err != nil {
		return mcp.Item{}, err
	}
	read, err := skillmd.Read(text)
	if err != nil {
		return mcp.Item{}, badSkill(mcp.SkillFile + ": " + err.Error())
	}
	key := mcp.SkillPath(root)
	files := mcp.Raw(`"dynamic"`)
	if manifest {
		listed, err := s.readText(ctx, c, root+"/"+manifestFile)
		if ctx.Err() != nil {
			return mcp.Item{}, context.Cause(ctx)
		}
		if all := manifestFiles(listed, root, skillmd.Digest(text)); err == nil && all != nil {
			files = all
		}
	}
	s.learn(c, key, skill{root: root, plain: true, manifest: manifest})
	return mcp.Item{Name: key, Raw: read.Record(key, uri).With("resources", files)}, nil
}

// plainPath is a path in a manifest that is the same in a URI.
var plainPath = regexp.MustCompile(`^[A-Za-z0-9_~-][A-Za-z0-9._~-]*(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*$`)

// manifestFiles makes the files of a record of a manifest, {"files": [{path, size, hash}]}.
// It is nil for one that cannot be relied on: which is no JSON, is over the bounds, says
// anything twice or otherwise than expected, or does not know the SKILL.md that was read.
func manifestFiles(manifest []byte, root, digest string) mcp.Raw {
	object, err := wire.TextObject(string(manifest))
	if err != nil {
		return nil
	}
	listed := object.At("files")
	var files []mcp.Raw
	seen, total, ok := make(map[string]bool), int64(0), listed.IsArray()
	listed.Elements(func(f mcp.Raw) bool {
		name, hash := f.At("path").Text(), f.At("hash").Text()
		size, err := strconv.ParseInt(string(f.At("size")), 10, 64)
		total += size
		ok = err == nil && size >= 0 && total <= skillmd.MaxBytes && plainPath.MatchString(name) && !seen[name] &&
			len(seen) < skillmd.MaxFiles &&
			skillmd.IsDigest(hash) && (name != mcp.SkillFile || hash == digest)
		seen[name] = true
		files = append(files, skillmd.File(root+"/"+name, hash, size))
		return ok
	})
	if !ok || !seen[mcp.SkillFile] {
		return nil
	}
	return mcp.Array(files...)
}

// badSkill says how a file breaks the rules of its format.
type badSkill string

func (b badSkill) Error() string { return string(b) }

// plainFailure says why a skill is left out.
func plainFailure(err error) string {
	if bad, ok := errors.AsType[badSkill](err); ok {
		return bad.Error()
	}
	return "it cannot be read"
}
