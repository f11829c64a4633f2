package upstream

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/skillmd"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
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

	skillManifest = "/_manifest"
)

// plainSkills are what the resources of a server tell of skills.
type plainSkills struct {
	all       []string        // the URIs of all resources of the scheme
	texts     []string        // the URIs of SKILL.md
	manifests map[string]bool // the URIs of manifests
	index     bool
}

// listPlainSkills makes skills of the resources of a server that has no skills/list.
func (u *Upstream) listPlainSkills(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
	found, err := u.findPlainSkills(ctx, c)
	if err != nil {
		return nil, err
	}
	list := &mcp.List{}
	skipped := make(map[string]string)
	if found.index {
		more, err := u.readIndex(ctx, c)
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err != nil:
			skipped[mcp.SkillIndex] = plainFailure(err)
		}
		for _, uri := range more {
			if !slices.Contains(found.texts, uri) {
				found.texts = append(found.texts, uri)
			}
		}
	}
	for _, uri := range found.texts {
		if len(list.Items) == maxPlainSkills {
			skipped[uri] = fmt.Sprintf("there are more than %d skills", maxPlainSkills)
			break
		}
		root, _ := mcp.SkillRoot(uri)
		item, err := u.plainSkill(ctx, c, uri, found.manifests[root+skillManifest])
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err != nil:
			skipped[uri] = plainFailure(err)
		default:
			list.Items = append(list.Items, item)
		}
	}
	u.skills.skip(skipped)
	return &mcp.Reply{List: list}, nil
}

// findPlainSkills looks through the resources.
func (u *Upstream) findPlainSkills(ctx context.Context, c *mcp.Call) (found plainSkills, err error) {
	found.manifests = make(map[string]bool)
	seen := make(map[string]bool)
	var params mcp.Raw
	for range maxSkillPages {
		reply, err := u.call(ctx, innerCall(c, mcp.MethodResourcesList, "", params))
		if err != nil {
			return found, err
		}
		if reply.List == nil {
			return found, fmt.Errorf("%w: an answer to resources/list without a list", transport.ErrGarbage)
		}
		for _, r := range reply.List.Items {
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
			case strings.HasSuffix(r.Name, skillManifest):
				found.manifests[r.Name] = true
			}
		}
		if reply.List.Next == nil {
			break
		}
		params = mcp.Object("cursor", mcp.String(*reply.List.Next))
	}
	return found, nil
}

// readIndex returns the SKILL.md that an index names, at most one more than are read.
func (u *Upstream) readIndex(ctx context.Context, c *mcp.Call) (uris []string, err error) {
	text, err := u.readText(ctx, c, mcp.SkillIndex)
	if err != nil {
		return nil, err
	}
	index, err := objectIn(string(text))
	if err != nil {
		return nil, &badSkill{mcp.SkillIndex, errors.New("it is no JSON object")}
	}
	skills, _ := index.Member("skills")
	skills.Elements(func(skill mcp.Raw) bool {
		uri, ok := skill.Member("url")
		if !ok {
			uri, _ = skill.Member("uri")
		}
		if _, isSkill := mcp.SkillRoot(uri.Text()); isSkill && strings.HasPrefix(uri.Text(), mcp.SkillScheme) && !slices.Contains(uris, uri.Text()) {
			uris = append(uris, uri.Text())
		}
		return len(uris) <= maxPlainSkills
	})
	return uris, nil
}

// plainSkill makes the record of a skill that is only a resource. What files it has, and
// their digests, only a manifest tells; without one SEP-2640 says so by "dynamic".
func (u *Upstream) plainSkill(ctx context.Context, c *mcp.Call, uri string, manifest bool) (mcp.Item, error) {
	root, _ := mcp.SkillRoot(uri)
	text, err := u.readText(ctx, c, uri)
	if err != nil {
		return mcp.Item{}, err
	}
	s, err := skillmd.Read(text)
	if err != nil {
		return mcp.Item{}, &badSkill{mcp.SkillFile, err}
	}
	key := mcp.SkillPath(root)
	files := mcp.Raw(`"dynamic"`)
	if manifest {
		listed, err := u.readText(ctx, c, root+skillManifest)
		if ctx.Err() != nil {
			return mcp.Item{}, context.Cause(ctx)
		}
		if all := manifestFiles(listed, root, skillmd.Digest(text)); err == nil && all != nil {
			files = all
		}
	}
	u.skills.add(key, knownSkill{root: root, made: true, manifest: manifest})
	return mcp.Item{Name: key, Raw: s.Record(key, uri).With("resources", files)}, nil
}

// plainPath is a path in a manifest that is the same in a URI.
var plainPath = regexp.MustCompile(`^[A-Za-z0-9_~-][A-Za-z0-9._~-]*(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*$`)

// manifestFiles makes the files of a record of a manifest, {"files": [{path, size, hash}]}.
// It is nil for one that cannot be relied on: which is no JSON, is over the bounds, says
// anything twice or otherwise than expected, or does not know the SKILL.md that was read.
func manifestFiles(manifest []byte, root, digest string) mcp.Raw {
	object, err := objectIn(string(manifest))
	if err != nil {
		return nil
	}
	listed, _ := object.Member("files")
	files, seen, total := mcp.Raw{'['}, make(map[string]bool), int64(0)
	ok := listed.IsArray()
	listed.Elements(func(f mcp.Raw) bool {
		path, _ := f.Member("path")
		hash, _ := f.Member("hash")
		number, _ := f.Member("size")
		size, err := strconv.ParseInt(string(number), 10, 64)
		name := path.Text()
		total += size
		ok = err == nil && size >= 0 && total <= skillmd.MaxBytes && plainPath.MatchString(name) && !seen[name] && len(seen) < skillmd.MaxFiles &&
			skillmd.IsDigest(hash.Text()) && (name != mcp.SkillFile || hash.Text() == digest)
		seen[name] = true
		if len(files) > 1 {
			files = append(files, ',')
		}
		files = append(files, skillmd.File(root+"/"+name, hash.Text(), size)...)
		return ok
	})
	if !ok || !seen[mcp.SkillFile] {
		return nil
	}
	return append(files, ']')
}

// badSkill is a file that breaks the rules of its format.
type badSkill struct {
	file string
	why  error
}

func (b *badSkill) Error() string { return b.file + ": " + b.why.Error() }

// plainFailure says why a skill is left out.
func plainFailure(err error) string {
	if bad, ok := errors.AsType[*badSkill](err); ok {
		return bad.Error()
	}
	return "it cannot be read"
}
