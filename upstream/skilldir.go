package upstream

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// skillFresh is how long what a directory held is called good where nobody listens.
const skillFresh = 5 * time.Minute

// SkillDir is a directory of Agent Skills (SKILL.md bundles) as an upstream: an mcp.Handler
// for skills/list and skills/get, and for the files of the skills as resources. Its files
// are read, never run, and what is in them is passed on as it is. It looks
// at its directory in the calls that listen to it. Of a large directory one goroutine hears
// what the system tells; the last of these calls ends it. Its methods may be called
// concurrently.
type SkillDir struct {
	name string
	dir  string
	log  *slog.Logger

	scan  func(ctx context.Context, dir string, last *skillSet) (*skillSet, error) // scanSkills
	watch skillWatch

	closing sync.Once
	closed  chan struct{}

	scanning sync.Mutex // held while the directory is read

	mu      sync.Mutex // guards the fields below; never held over I/O
	set     *skillSet  // nil before it was read
	scanned time.Time
	cost    time.Duration // how long that took
	status  Status
}

// NewSkillDir makes a SkillDir of an upstream that has the key skills. It does no I/O.
func NewSkillDir(cfg Config, deps Deps) (*SkillDir, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("upstream %q: %w", cfg.Name, err)
	}
	if cfg.Skills == "" || deps.Log == nil {
		return nil, fmt.Errorf("upstream %q: no directory of skills or no log was given", cfg.Name)
	}
	return &SkillDir{
		name: cfg.Name, dir: cfg.Skills, log: deps.Log.With("upstream", cfg.Name), closed: make(chan struct{}),
		scan: scanSkills, watch: skillWatch{root: cfg.Skills, open: openDirWatch},
		status: Status{Name: cfg.Name, Transport: TransportSkills, State: StateConnecting, Since: time.Now()},
	}, nil
}

// Name returns the configured name.
func (d *SkillDir) Name() string { return d.name }

// Status returns what is to be seen of it.
func (d *SkillDir) Status() Status {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.status
	if d.set != nil {
		s.SkippedSkills = d.set.skipped // which nobody changes any more
	}
	return s
}

// Check reads the directory, so that Status tells of it, and returns how many skills there
// are.
func (d *SkillDir) Check(ctx context.Context) (skills int, err error) {
	set, err := d.look(ctx, 0)
	if err != nil {
		return 0, err
	}
	return len(set.skills), nil
}

// Close ends the calls that listen.
func (d *SkillDir) Close(context.Context) error {
	d.closing.Do(func() { close(d.closed) })
	return nil
}

// PerUser reports that it is the same for all users.
func (d *SkillDir) PerUser() bool { return false }

// Idle reports that nothing runs that would have to be waited for: what is read is read at
// once.
func (d *SkillDir) Idle() bool { return true }

// EndSession and RootsChanged do nothing: it knows no sessions.
func (d *SkillDir) EndSession(string) {}

// RootsChanged does nothing.
func (d *SkillDir) RootsChanged(string) {}

// Handle makes a call. Errors are an *mcp.Error, or the context's.
func (d *SkillDir) Handle(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
	switch c.Method {
	case mcp.MethodDiscover, mcp.MethodListen, mcp.MethodSkillsList, mcp.MethodSkillsGet, mcp.MethodResourcesList, mcp.MethodResourcesRead:
	case mcp.MethodResourceTemplatesList:
		return &mcp.Reply{List: &mcp.List{}}, nil
	default:
		return nil, mcp.ErrMethod(c.Method)
	}
	age := skillFresh
	if c.Method == mcp.MethodDiscover || mcp.ListMember(c.Method) != "" {
		age = 0
	}
	set, err := d.look(ctx, age)
	if err != nil {
		return nil, err
	}
	switch c.Method {
	case mcp.MethodDiscover:
		return &mcp.Reply{Result: mcp.Raw(`{"capabilities":{"resources":{"listChanged":true,"subscribe":true},"skills":{"listChanged":true},"extensions":{"` + mcp.SkillsExtension + `":{}}}}`)}, nil
	case mcp.MethodListen:
		return d.listen(ctx, c, set)
	case mcp.MethodSkillsList:
		list := &mcp.List{Expires: time.Now().Add(skillFresh)}
		for _, k := range set.skills {
			list.Items = append(list.Items, mcp.Item{Name: k.key, Raw: k.record})
		}
		for _, key := range set.broken {
			list.Items = append(list.Items, mcp.Item{Name: key, Raw: mcp.Object("name", mcp.String(key), "uri", mcp.String(schemeSkill+key+"/"+mcp.SkillFile))})
		}
		return &mcp.Reply{List: list}, nil
	case mcp.MethodResourcesList:
		list := &mcp.List{Expires: time.Now().Add(skillFresh)}
		for _, k := range set.skills {
			list.Items = append(list.Items, mcp.Item{Name: k.uri, Raw: k.resource()})
		}
		return &mcp.Reply{List: list}, nil
	case mcp.MethodSkillsGet:
		return d.get(ctx, c, set)
	}
	return d.read(ctx, c, set)
}

// look returns what the directory holds, at most so old.
func (d *SkillDir) look(ctx context.Context, age time.Duration) (*skillSet, error) {
	known := func() *skillSet {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.set != nil && time.Since(d.scanned) < age {
			return d.set
		}
		return nil
	}
	if set := known(); set != nil {
		return set, nil
	}
	asked := time.Now()
	d.scanning.Lock()
	defer d.scanning.Unlock()
	d.mu.Lock()
	last, scanned := d.set, d.scanned
	d.mu.Unlock()
	if last != nil && scanned.After(asked) { // while this call waited for its turn
		return last, nil
	}
	began := time.Now()
	set, err := d.scan(ctx, d.dir, last)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil {
		d.enter(StateDown, "its directory cannot be read: "+readFailure(err))
		return nil, mcp.UpstreamError(mcp.CodeUpstreamUnreachable, d.name, mcp.ExecutedNo,
			"Upstream %s cannot be read: its directory: %s", d.name, readFailure(err))
	}
	d.enter(StateReady, "")
	d.logSkipped(last, set)
	d.set, d.scanned, d.cost = set, began, time.Since(began)
	return set, nil
}

// enter is called with mu held.
func (d *SkillDir) enter(state State, why string) {
	if d.status.State != state {
		d.status.State, d.status.Since = state, time.Now()
	}
	if why != "" {
		d.status.Last = Failure{At: time.Now(), Stage: StageCall, Error: why}
	}
}

// logSkipped logs what is left out and was not before.
func (d *SkillDir) logSkipped(last, next *skillSet) {
	const most = 20
	logged, more := 0, 0
	for name, why := range next.skipped {
		switch {
		case last != nil && last.skipped[name] == why:
		case logged == most:
			more++
		default:
			logged++
			d.log.Warn("skill or file left out", "path", name, "reason", why)
		}
	}
	if more > 0 {
		d.log.Warn("more skills or files left out", "count", more)
	}
}

// resource is a skill's SKILL.md as a resource.
func (k *skill) resource() mcp.Raw {
	size := int64(0)
	for _, f := range k.files {
		if f.uri == k.uri {
			size = f.size
		}
	}
	return mcp.Object("uri", mcp.String(k.uri), "name", mcp.String(k.text.name), "description", mcp.String(k.text.description),
		"mimeType", mcp.String(mcp.MediaMarkdown), "size", mcp.Int(size))
}

// get answers skills/get in the spelling of its params.
func (d *SkillDir) get(_ context.Context, c *mcp.Call, set *skillSet) (*mcp.Reply, error) {
	key, byURI := mcp.SkillKey(c.Params)
	if byURI {
		for _, k := range set.skills {
			if k.uri == key.Text() {
				return &mcp.Reply{Result: mcp.Object("skill", k.record)}, nil
			}
		}
		return nil, mcp.ErrUnknown(c.Method, c.Name)
	}
	k := set.find(c.Name)
	if k == nil {
		return nil, mcp.ErrUnknown(c.Method, c.Name)
	}
	result := mcp.Object("description", mcp.String(k.text.description), "instructions", mcp.String(k.text.body))
	if dependencies, ok := k.record.Member("dependencies"); ok {
		result = result.With("dependencies", dependencies)
	}
	files := mcp.Raw{'['}
	for _, f := range k.files {
		if f.uri == k.uri {
			continue
		}
		if len(files) > 1 {
			files = append(files, ',')
		}
		file := mcp.Object("name", mcp.String(f.path[len(k.dir)+1:]), "uri", mcp.String(f.uri))
		if media := mcp.MediaType(f.path); media != "" {
			file = file.With("mimeType", mcp.String(media))
		}
		files = append(files, file...)
	}
	if len(files) > 1 {
		result = result.With("files", append(files, ']'))
	}
	return &mcp.Reply{Result: result}, nil
}

// read answers resources/read: files that belong to a skill as it is listed, and no others,
// whatever their URI looks like. The bytes are those that the list has a digest of.
func (d *SkillDir) read(ctx context.Context, c *mcp.Call, set *skillSet) (*mcp.Reply, error) {
	for again := false; ; again = true {
		file, ok := set.files[c.Name]
		if !ok || !decidedOn(c.Target, file) {
			return nil, mcp.ErrUnknown(mcp.MethodResourcesRead, c.Name)
		}
		content, err := d.open(file)
		if err == nil && digestOf(content) == file.digest {
			return &mcp.Reply{Result: mcp.Object("contents", contentsOf(c.Name, content))}, nil
		}
		if again {
			return nil, mcp.UpstreamError(mcp.CodeUpstreamBadAnswer, d.name, mcp.ExecutedNo, "The file is being changed: list the skills of upstream %s again and read it then", d.name)
		}
		if set, err = d.look(ctx, 0); err != nil {
			return nil, err
		}
	}
}

// decidedOn reports whether it was as a part of the skill that it is in that policy let a
// file through. For a moment, until the list is fetched again, it may have been as a part
// of the one around it.
func decidedOn(target mcp.Target, file skillFile) bool {
	return target.Kind == "" || target.Kind == mcp.KindSkills && target.Name == file.skill
}

func (d *SkillDir) open(file skillFile) ([]byte, error) {
	root, err := os.OpenRoot(d.dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	info, err := root.Lstat(file.real)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errChanged
	}
	return readInRoot(root, file.real, info, file.size)
}

// contentsOf is the contents of a file in a result: as text where it is one, so that the
// bytes come out of it again as they were.
func contentsOf(uri string, content []byte) mcp.Raw {
	isText := utf8.Valid(content) && bytes.IndexByte(content, 0) < 0
	media := mcp.MediaType(uri)
	switch {
	case media != "":
	case isText:
		media = mcp.MediaText
	default:
		media = mcp.MediaBinary
	}
	out := mcp.Object("uri", mcp.String(uri), "mimeType", mcp.String(media))
	member, value := "text", mcp.Raw(nil)
	if isText {
		value = mcp.String(string(content))
	} else {
		member = "blob"
		value = mcp.String(base64.StdEncoding.EncodeToString(content))
	}
	return mcp.Raw("[" + string(out.With(member, value)) + "]")
}
