package upstream

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"strings"
	"sync"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/skillmd"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
)

// This file makes records of the inner language (mcp/skill.go) of what servers say about
// skills, in whichever spelling: entries of SEP-2640 get a key, entries of SEP-2076 a URI
// and a SKILL.md that is written here. Of servers that have neither it is in skillplain.go.

// maxSkillPages bounds how many pages of a server's skills, or resources, are looked
// through.
const maxSkillPages = 50

// maxKnownSkills bounds of how many skills of a server it is remembered what they are.
const maxKnownSkills = 2000

// skillTable is what is known of a server's skills, to find its own names for them again.
type skillTable struct {
	mu      sync.Mutex // guards the fields below
	core    bool       // it speaks SEP-2076
	uris    bool       // it speaks SEP-2640
	known   map[string]knownSkill
	skipped map[string]string
}

// knownSkill is a skill by its key.
type knownSkill struct {
	root     string  // the URI of its directory
	name     string  // its name in SEP-2076, "" for none
	made     bool    // the URI is ours, or only that of a resource
	manifest bool    // of one that is only a resource: there is a list of its files
	record   mcp.Raw // where it has no URI of its own and is the same for all users; nil otherwise
}

func (t *skillTable) forms() (core, uris bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.core, t.uris
}

// meet notes which spellings a server speaks. Skills are read as resources, so one that has
// only skills is said to have resources.
func (t *skillTable) meet(discovered mcp.Raw) mcp.Raw {
	caps, _ := discovered.Member("capabilities")
	skills, ok := caps.Member("skills")
	t.mu.Lock()
	defer t.mu.Unlock()
	t.core, t.uris = ok && !skills.IsNull(), mcp.DeclaresSkills(caps)
	if _, ok := caps.Member("resources"); !ok && (t.core || t.uris) {
		return discovered.With("capabilities", caps.With("resources", mcp.Raw("{}")))
	}
	return discovered
}

func (t *skillTable) add(key string, k knownSkill) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known == nil || len(t.known) >= maxKnownSkills {
		t.known = make(map[string]knownSkill)
	}
	t.known[key] = k
}

func (t *skillTable) find(key string) (knownSkill, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	k, ok := t.known[key]
	return k, ok
}

func (t *skillTable) skip(all map[string]string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.skipped = all
}

func (t *skillTable) left() map[string]string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.skipped)
}

// innerCall is a call of ours on behalf of another one.
func innerCall(c *mcp.Call, method, name string, params mcp.Raw) *mcp.Call {
	inner := c.Clone()
	inner.Method, inner.Name, inner.Params = method, name, params
	inner.Task, inner.State, inner.Answers, inner.Refused, inner.ParamHeaders = nil, "", nil, nil, nil
	return inner
}

// listSkills answers skills/list.
func (u *Upstream) listSkills(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
	core, uris := u.skills.forms()
	if !core && !uris {
		return u.listPlainSkills(ctx, c)
	}
	reply, err := u.call(ctx, c)
	if err != nil || reply.List == nil {
		return reply, err
	}
	list := &mcp.List{Next: reply.List.Next, Expires: reply.List.Expires, Private: reply.List.Private}
	for _, item := range reply.List.Items {
		list.Items = append(list.Items, u.skillItem(item.Raw, core))
	}
	return &mcp.Reply{List: list}, nil
}

// skillItem makes the record of an entry of either shape, or of both.
func (u *Upstream) skillItem(entry mcp.Raw, core bool) mcp.Item {
	name, _ := entry.Member("name")
	uri, hasURI := entry.Member("uri")
	if !hasURI {
		return u.madeItem(entry, name.Text())
	}
	root, ok := mcp.SkillRoot(uri.Text())
	if !ok {
		return mcp.Item{Name: uri.Text(), Raw: entry} // which the catalog withholds
	}
	key := mcp.SkillPath(root)
	known := knownSkill{root: root}
	if core {
		known.name = name.Text()
	}
	u.skills.add(key, known)
	return mcp.Item{Name: key, Raw: skillmd.WithFields(entry.With("name", mcp.String(key)))}
}

// madeItem makes the record of an entry that has no URI. What it says may depend on
// arguments, so that there are no digests.
func (u *Upstream) madeItem(entry mcp.Raw, name string) mcp.Item {
	slug := skillmd.Slug(name)
	about := ""
	for _, member := range []string{"description", "title", "name"} {
		if value, _ := entry.Member(member); about == "" {
			about = strings.TrimSpace(value.Text())
		}
	}
	if runes := []rune(about); len(runes) > skillmd.MaxDescription {
		about = string(runes[:skillmd.MaxDescription])
	}
	frontmatter := mcp.Object("name", mcp.String(slug), "description", mcp.String(about))
	metadata := mcp.Raw("{}")
	if version, _ := entry.Member("version"); version.Text() != "" {
		metadata = metadata.With("version", mcp.String(version.Text()))
	}
	if tags, _ := entry.Member("tags"); tags.IsArray() {
		metadata = metadata.With("tags", mcp.String(strings.Join(skillmd.Words(tags), ", ")))
	}
	if len(metadata) > len("{}") {
		frontmatter = frontmatter.With("metadata", metadata)
	}
	record := entry.Edit(mcp.Edit{Name: "uri", Value: mcp.String(madeURI(name))}, mcp.Edit{Name: "frontmatter", Value: frontmatter}, mcp.Edit{Name: "resources", Value: mcp.Raw(`"dynamic"`)})
	known := knownSkill{root: mcp.SkillScheme + slug, name: name, made: true}
	if !u.perUser() {
		known.record = record
	}
	u.skills.add(name, known)
	return mcp.Item{Name: name, Raw: record}
}

// madeRecord returns the record of a skill that has no URI of its own, as the caller is
// told it: what one user is told no other one is shown.
func (u *Upstream) madeRecord(ctx context.Context, c *mcp.Call, key string) (record mcp.Raw, err error) {
	if known, ok := u.skills.find(key); ok && known.record != nil {
		return known.record, nil
	}
	err = u.eachSkill(ctx, c, func(item mcp.Item) bool {
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

// getSkill answers skills/get.
func (u *Upstream) getSkill(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
	key, byURI := mcp.SkillKey(c.Params)
	core, uris := u.skills.forms()
	known, ok := u.skills.find(c.Name)
	if !ok && !(uris && byURI) { // by URI a server answers for what it does not list, too
		if err := u.learnSkills(ctx, c); err != nil {
			return nil, err
		}
		if known, ok = u.skills.find(c.Name); !ok {
			return nil, mcp.ErrUnknown(c.Method, c.Name)
		}
	}
	switch {
	case byURI && known.made && known.name == "": // one that is only a resource
		item, err := u.plainSkill(ctx, c, key.Text(), known.manifest)
		if err != nil {
			return nil, err
		}
		return &mcp.Reply{Result: mcp.Object("skill", item.Raw)}, nil
	case byURI && known.made:
		record, err := u.madeRecord(ctx, c, c.Name)
		if err != nil {
			return nil, err
		}
		return &mcp.Reply{Result: mcp.Object("skill", record)}, nil
	case byURI:
		return u.skillEntry(ctx, c, key.Text(), core)
	case known.name != "":
		return u.call(ctx, innerCall(c, mcp.MethodSkillsGet, "", c.Params.Without("uri").With("name", mcp.String(known.name))))
	}
	return u.skillInstructions(ctx, c, known, core)
}

// learnSkills lists the skills, so that the table knows them.
func (u *Upstream) learnSkills(ctx context.Context, c *mcp.Call) error {
	return u.eachSkill(ctx, c, func(mcp.Item) bool { return true })
}

// eachSkill lists the skills on behalf of a call, as long as fn returns true.
func (u *Upstream) eachSkill(ctx context.Context, c *mcp.Call, fn func(mcp.Item) bool) error {
	var params mcp.Raw
	for range maxSkillPages {
		reply, err := u.listSkills(ctx, innerCall(c, mcp.MethodSkillsList, "", params))
		if err != nil || reply.List == nil {
			return err
		}
		for _, item := range reply.List.Items {
			if !fn(item) {
				return nil
			}
		}
		if reply.List.Next == nil {
			return nil
		}
		params = mcp.Object("cursor", mcp.String(*reply.List.Next))
	}
	return nil
}

// skillEntry asks for the entry of a skill by its URI.
func (u *Upstream) skillEntry(ctx context.Context, c *mcp.Call, uri string, core bool) (*mcp.Reply, error) {
	reply, err := u.call(ctx, innerCall(c, mcp.MethodSkillsGet, "", c.Params.Without("name").With("uri", mcp.String(uri))))
	if err != nil {
		return nil, err
	}
	entry, ok := reply.Result.Member("skill")
	if !ok || !entry.IsObject() {
		return nil, fmt.Errorf("%w: an answer to skills/get without a skill", transport.ErrGarbage)
	}
	return &mcp.Reply{Result: reply.Result.With("skill", u.skillItem(entry, core).Raw)}, nil
}

// skillInstructions makes the result of SEP-2076 for a skill of SEP-2640, or of one that is
// only a resource: its SKILL.md without the frontmatter, and its other files. Where nothing
// tells what files it has, they are the resources in its directory that the server lists.
func (u *Upstream) skillInstructions(ctx context.Context, c *mcp.Call, known knownSkill, core bool) (*mcp.Reply, error) {
	root := known.root
	uri := root + "/" + mcp.SkillFile
	text, err := u.readText(ctx, c, uri)
	if err != nil {
		return nil, err
	}
	result := mcp.Raw("{}")
	body := text
	if head, rest, err := skillmd.Split(text); err == nil {
		body = rest
		if frontmatter, err := skillmd.ReadFrontmatter(head); err == nil {
			if description, ok := frontmatter.Member("description"); ok && description.Text() != "" {
				result = result.With("description", description)
			}
		}
	}
	result = result.With("instructions", mcp.String(string(body)))
	var skill mcp.Raw
	var listed []string
	switch _, uris := u.skills.forms(); {
	case uris:
		entry, err := u.skillEntry(ctx, c, uri, core)
		if err != nil {
			return nil, err
		}
		skill, _ = entry.Result.Member("skill")
	case known.manifest:
		item, err := u.plainSkill(ctx, c, uri, true)
		if err != nil {
			return nil, err
		}
		skill = item.Raw
	default:
		found, err := u.findPlainSkills(ctx, c)
		if err != nil {
			return nil, err
		}
		listed = found.all
	}
	files := mcp.Raw{'['}
	add := func(uri string) {
		name, inside := strings.CutPrefix(uri, root+"/")
		if !inside || name == mcp.SkillFile || name == skillManifest[1:] {
			return
		}
		if len(files) > 1 {
			files = append(files, ',')
		}
		file := mcp.Object("name", mcp.String(name), "uri", mcp.String(uri))
		if media := mcp.MediaType(name); media != "" {
			file = file.With("mimeType", mcp.String(media))
		}
		files = append(files, file...)
	}
	for _, uri := range listed {
		add(uri)
	}
	resources, _ := skill.Member("resources")
	resources.Elements(func(f mcp.Raw) bool {
		at, _ := f.Member("uri")
		add(at.Text())
		return true
	})
	if len(files) > 1 {
		result = result.With("files", append(files, ']'))
	}
	return &mcp.Reply{Result: result}, nil
}

// readText reads a resource of the server.
func (u *Upstream) readText(ctx context.Context, c *mcp.Call, uri string) ([]byte, error) {
	reply, err := u.call(ctx, innerCall(c, mcp.MethodResourcesRead, uri, mcp.Object("uri", mcp.String(uri))))
	if err != nil {
		return nil, err
	}
	var text []byte
	err = fmt.Errorf("%w: a %s without text", transport.ErrGarbage, mcp.SkillFile)
	contents, _ := reply.Result.Member("contents")
	contents.Elements(func(content mcp.Raw) bool {
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

// readResource answers resources/read. A SKILL.md that was made up for a skill of SEP-2076
// is written of what the skill says without arguments, or of the arguments that it cannot
// do without, if it was as that skill that policy let the call through.
func (u *Upstream) readResource(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
	core, uris := u.skills.forms()
	key := c.Target.Name
	if !core || uris || c.Target.Kind != mcp.KindSkills || c.Name != madeURI(key) {
		return u.call(ctx, c)
	}
	// In the session that skills are listed in: another one may know others.
	own := c.Clone()
	own.Session, own.Ephemeral = "", false
	record, err := u.madeRecord(ctx, own, key)
	if err != nil {
		return nil, err
	}
	text, needed := wantedArguments(record)
	if !needed {
		reply, err := u.call(ctx, innerCall(own, mcp.MethodSkillsGet, "", mcp.Object("name", mcp.String(key))))
		if err != nil {
			return nil, err
		}
		instructions, ok := reply.Result.Member("instructions")
		if !ok {
			return nil, fmt.Errorf("%w: an answer to skills/get without instructions", transport.ErrGarbage)
		}
		text = instructions.Text()
	}
	frontmatter, _ := record.Member("frontmatter")
	return &mcp.Reply{Result: mcp.Object("contents", skillmd.Contents(c.Name, skillmd.Write(frontmatter, text)))}, nil
}

// wantedArguments stands in for the instructions of a skill that has none without
// arguments: it names them. needed reports whether the skill is such a one.
func wantedArguments(record mcp.Raw) (text string, needed bool) {
	var b strings.Builder
	b.WriteString("The instructions of this skill depend on arguments. Ask for them by `skills/get`, with the name that `skills/list` has for the skill and these arguments:\n\n")
	arguments, _ := record.Member("arguments")
	arguments.Elements(func(argument mcp.Raw) bool {
		name, _ := argument.Member("name")
		description, _ := argument.Member("description")
		b.WriteString("- `" + name.Text() + "`")
		if required, _ := argument.Member("required"); required.IsTrue() {
			needed = true
			b.WriteString(" (required)")
		}
		if about := description.Text(); about != "" {
			b.WriteString(": " + about)
		}
		b.WriteByte('\n')
		return true
	})
	return b.String(), needed
}

// madeURI is the URI that is made up for the SKILL.md of a skill that has none.
func madeURI(name string) string { return mcp.SkillScheme + skillmd.Slug(name) + "/" + mcp.SkillFile }
