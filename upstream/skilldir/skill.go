package skilldir

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/skillmd"
)

// snapshot is the content of a directory of skills at one moment. Immutable.
type snapshot struct {
	skills  []*skill        // by key
	broken  []string        // the keys of those within other skills that are left out
	files   map[string]file // by URI
	dirs    []string        // the directories that were looked at, without links
	began   time.Time       // when the look began, and how long it took
	cost    time.Duration
	skipped map[string]string // by path: why it is left out
	sum     [sha256.Size]byte // of what clients see of it
}

// skill is a skill in the directory. Its key is the path of its own directory as in URIs.
type skill struct {
	key    string
	uri    string // of its SKILL.md
	dir    string // the path of its directory
	real   string // the same without links
	text   skillmd.Skill
	files  []file // by URI, with those of skills within it
	bytes  int64
	record mcp.Raw
	why    error // why it is left out; nil for one that is not
}

// fail notes why a skill is left out: the first reason counts.
func (k *skill) fail(format string, args ...any) {
	if k.why == nil {
		k.why = fmt.Errorf(format, args...)
	}
}

// find returns the skill with a key, nil for none.
func (s *snapshot) find(key string) *skill {
	i, ok := slices.BinarySearchFunc(s.skills, key, func(s *skill, key string) int { return cmp.Compare(s.key, key) })
	if !ok {
		return nil
	}
	return s.skills[i]
}

// read reads the SKILL.md of a skill, which is the innermost one of its place.
func (s *scan) read(k *skill, p place, e fs.DirEntry) error {
	if len(s.held.skills)+len(p.in) > maxSkills {
		return fmt.Errorf("there are more than %d skills", maxSkills)
	}
	at, err := s.find(p, e)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %s", mcp.SkillFile, readFailure(err))
	case !at.info.Mode().IsRegular():
		return fmt.Errorf("%s is no plain file", mcp.SkillFile)
	}
	if _, same := s.unchanged(k.uri, at); same {
		if before := s.last.find(k.key); before != nil {
			k.text = before.text
			return nil
		}
	}
	text, err := readInRoot(s.root, at.real, at.info, skillmd.MaxText)
	if err != nil {
		return fmt.Errorf("%s: %s", mcp.SkillFile, readFailure(err))
	}
	if k.text, err = skillmd.Read(text); err != nil {
		return fmt.Errorf("%s: %w", mcp.SkillFile, err)
	}
	if want := path.Base(p.name); k.text.Name != want {
		return fmt.Errorf("%s: its name is %q, and its directory's %q: they have to be the same", mcp.SkillFile,
			k.text.Name, want)
	}
	return nil
}

// file adds a file to the skills that it is in.
func (s *scan) file(p place, name string, at found) {
	wanted := false
	for _, k := range p.in {
		switch k.bytes += at.info.Size(); {
		case len(k.files) == skillmd.MaxFiles:
			k.fail("it has more than %d files", skillmd.MaxFiles)
		case k.bytes > skillmd.MaxBytes:
			k.fail("its files have more than %d bytes together", skillmd.MaxBytes)
		}
		wanted = wanted || k.why == nil
	}
	if !wanted {
		return
	}
	uri := fileURI(name)
	f, same := s.unchanged(uri, at)
	if !same {
		content, err := readInRoot(s.root, at.real, at.info, skillmd.MaxBytes)
		if err != nil {
			s.failed(p, name, readFailure(err))
			return
		}
		f = file{path: name, real: at.real, uri: uri, size: int64(len(content)), digest: skillmd.Digest(content),
			info: at.info, hashed: time.Now()}
	}
	f.skill = p.in[len(p.in)-1].key
	for _, k := range p.in {
		if k.why == nil {
			k.files = append(k.files, f)
		}
	}
	if at.link {
		s.held.dirs = append(s.held.dirs, path.Dir(at.real))
	}
}

// finish makes the record of a skill, or leaves it out if something is wrong with it. The files
// of a broken one within another skill are files of that, but policy still decides on them
// by the key of the broken one.
func (s *scan) finish(k *skill, within bool) {
	if k.why != nil {
		s.skip(k.dir, k.why.Error())
		if within && len(s.held.broken) < maxSkills {
			s.held.broken = append(s.held.broken, k.key)
		}
		return
	}
	slices.SortFunc(k.files, func(a, b file) int { return strings.Compare(a.uri, b.uri) })
	files := make([]mcp.Raw, len(k.files))
	for i, f := range k.files {
		files[i] = skillmd.File(f.uri, f.digest, f.size)
		s.held.files[f.uri] = f
	}
	k.record = k.text.Record(k.key, k.uri).With("resources", mcp.Array(files...))
	s.held.skills = append(s.held.skills, k)
}
