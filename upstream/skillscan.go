package upstream

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// Bounds of a directory of skills. A skill may have what every client has to take
// (SEP-2640: 512 files of 16 MiB together).
const (
	maxSkills      = 2000
	maxSkillFiles  = 512
	maxSkillBytes  = 16 << 20
	maxSkillText   = 1 << 20 // of a SKILL.md
	maxSkillDepth  = 16      // directories below the first
	maxSkillWalked = 100_000 // files and directories in all
	maxSkipped     = 2000    // of what is left out, how much is named
)

// skillSet is what a directory of skills held at one moment. Immutable.
type skillSet struct {
	skills  []*skill             // by key
	broken  []string             // the keys of those within other skills that are left out
	files   map[string]skillFile // by URI
	dirs    []string             // the directories that were looked at, without links
	entries int                  // how many files and directories were looked at
	skipped map[string]string    // by path: why it is left out
	sum     [sha256.Size]byte    // of what clients see of it
}

// skill is one of its skills. Its key is the path of its directory as it stands in URIs.
type skill struct {
	key    string
	uri    string // of its SKILL.md
	dir    string // the path of its directory
	real   string // the same without links
	text   skillText
	files  []skillFile // by URI, with those of skills within it
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

// find returns the skill of a key, nil for none.
func (s *skillSet) find(key string) *skill {
	i, ok := slices.BinarySearchFunc(s.skills, key, func(s *skill, key string) int { return cmp.Compare(s.key, key) })
	if !ok {
		return nil
	}
	return s.skills[i]
}

// scanSkills reads a directory of skills. What did not change since the last time is not
// read again. Nothing outside of the directory is ever opened: all goes through an os.Root.
func scanSkills(ctx context.Context, dir string, last *skillSet) (*skillSet, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	s := skillScan{ctx: ctx, root: root, last: last, left: maxSkillWalked,
		set: &skillSet{files: make(map[string]skillFile), skipped: make(map[string]string)}}
	if err := s.directory(place{name: ".", real: "."}); err != nil {
		return nil, err
	}
	if s.unnamed > 0 {
		s.set.skipped["(more)"] = fmt.Sprintf("%d more skills or files are left out", s.unnamed)
	}
	slices.SortFunc(s.set.skills, func(a, b *skill) int { return cmp.Compare(a.key, b.key) })
	sum := sha256.New()
	for _, k := range s.set.skills {
		sum.Write(k.record)
		sum.Write([]byte{0})
	}
	for _, key := range s.set.broken {
		sum.Write([]byte(key + "\x00"))
	}
	sum.Sum(s.set.sum[:0])
	s.set.entries = maxSkillWalked - s.left
	return s.set, nil
}

type skillScan struct {
	ctx     context.Context
	root    *os.Root
	last    *skillSet
	left    int // entries that may still be looked at
	unnamed int // left out beyond those that are named
	set     *skillSet
}

// place is a directory on the walk.
type place struct {
	name  string   // its path
	real  string   // the same without links
	depth int      // how many directories it is below the first
	alias bool     // a link led to it, and it has a path of its own
	above []string // the directories that it is in, without links
	in    []*skill // the skills that it is in, the innermost last
}

func (s *skillScan) skip(name, why string, args ...any) {
	if len(s.set.skipped) == maxSkipped {
		s.unnamed++
		return
	}
	s.set.skipped[shownPath(name)] = fmt.Sprintf(why, args...)
}

// failed notes that something cannot be had: a skill that has to have it is left out whole.
func (s *skillScan) failed(p place, name, why string, args ...any) {
	for _, k := range p.in {
		k.fail("%s: %s", shownPath(name), fmt.Sprintf(why, args...))
	}
	if len(p.in) == 0 {
		s.skip(name, why, args...)
	}
}

// list lists a directory by name, without what is hidden.
func (s *skillScan) list(dir string) ([]fs.DirEntry, error) {
	if err := s.ctx.Err(); err != nil {
		return nil, err
	}
	f, err := s.root.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	all, err := f.ReadDir(s.left + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if s.left -= len(all); s.left < 0 {
		return nil, fmt.Errorf("more than %d files and directories", maxSkillWalked)
	}
	all = slices.DeleteFunc(all, func(e fs.DirEntry) bool { return strings.HasPrefix(e.Name(), ".") })
	slices.SortFunc(all, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return all, nil
}

// directory looks for skills in a directory and below, and for the files of the skills
// that it is in. One that cannot be read is left out, but for the first.
func (s *skillScan) directory(p place) error {
	entries, err := s.list(p.real)
	switch {
	case s.ctx.Err() != nil:
		return s.ctx.Err()
	case err != nil && p.name == ".":
		return err
	case err != nil:
		s.failed(p, p.name, "%s", readFailure(err))
		return nil
	}
	s.set.dirs = append(s.set.dirs, p.real)
	i := slices.IndexFunc(entries, func(e fs.DirEntry) bool { return e.Name() == mcp.SkillFile })
	switch {
	case i < 0:
		for _, e := range entries {
			if strings.EqualFold(e.Name(), mcp.SkillFile) {
				s.skip(path.Join(p.name, e.Name()), "its name has to be %s for a skill", mcp.SkillFile)
			}
		}
		return s.contents(p, entries)
	case p.name == ".":
		s.skip(mcp.SkillFile, "a skill is a directory in this one, named like the skill")
		return s.contents(p, slices.Delete(entries, i, i+1))
	case p.alias:
		s.skip(p.name, "a link leads to it, and it is a skill under its own path")
		return nil
	}
	k := s.begin(p, entries[i])
	within := p
	within.in = append(slices.Clip(p.in), k)
	if err := s.contents(within, entries); err != nil {
		return err
	}
	s.finish(k, len(p.in) > 0)
	return nil
}

// contents looks at what is in a directory.
func (s *skillScan) contents(p place, entries []fs.DirEntry) error {
	for _, e := range entries {
		if err := s.ctx.Err(); err != nil {
			return err
		}
		name := path.Join(p.name, e.Name())
		at, err := s.find(p, e)
		switch {
		case errors.As(err, new(leftOut)):
			s.skip(name, "%s", err)
		case err != nil:
			s.failed(p, name, "%s", readFailure(err))
		case !fileNameOK(e.Name()):
			if len(p.in) > 0 || at.info.IsDir() {
				s.skip(name, "%s", `its name has control characters, % or \, or is not UTF-8`)
			}
		case at.info.IsDir() && p.depth == maxSkillDepth:
			s.failed(p, name, "it is more than %d directories deep", maxSkillDepth)
		case at.info.IsDir():
			below := place{name: name, real: at.real, depth: p.depth + 1, alias: p.alias || at.alias, in: p.in, above: append(slices.Clip(p.above), p.real)}
			if err := s.directory(below); err != nil {
				return err
			}
		case len(p.in) == 0: // no part of a skill
		case !at.info.Mode().IsRegular():
			s.skip(name, "it is no plain file")
		default:
			s.file(p, name, at)
		}
	}
	return nil
}

// begin reads the SKILL.md of a skill.
func (s *skillScan) begin(p place, e fs.DirEntry) *skill {
	key := uriPath(p.name)
	k := &skill{key: key, uri: schemeSkill + key + "/" + mcp.SkillFile, dir: p.name, real: p.real}
	if len(s.set.skills)+len(p.in) >= maxSkills {
		k.fail("there are more than %d skills", maxSkills)
		return k
	}
	p.in = append(slices.Clip(p.in), k)
	at, err := s.find(p, e)
	switch {
	case err != nil:
		k.fail("%s: %s", mcp.SkillFile, readFailure(err))
		return k
	case !at.info.Mode().IsRegular():
		k.fail("%s is no plain file", mcp.SkillFile)
		return k
	}
	if _, same := s.unchanged(k.uri, at); same {
		if before := s.last.find(key); before != nil {
			k.text = before.text
			return k
		}
	}
	text, err := readInRoot(s.root, at.real, at.info, maxSkillText)
	if err != nil {
		k.fail("%s: %s", mcp.SkillFile, readFailure(err))
		return k
	}
	if k.text, err = readSkill(text); err != nil {
		k.fail("%s: %w", mcp.SkillFile, err)
		return k
	}
	if want := path.Base(p.name); k.text.name != want {
		k.fail("%s: its name is %q, and its directory's %q: they have to be the same", mcp.SkillFile, k.text.name, want)
	}
	return k
}

// file adds a file to the skills that it is in.
func (s *skillScan) file(p place, name string, at found) {
	wanted := false
	for _, k := range p.in {
		switch k.bytes += at.info.Size(); {
		case len(k.files) == maxSkillFiles:
			k.fail("it has more than %d files", maxSkillFiles)
		case k.bytes > maxSkillBytes:
			k.fail("its files have more than %d bytes together", maxSkillBytes)
		}
		wanted = wanted || k.why == nil
	}
	if !wanted {
		return
	}
	uri := fileURI(name)
	file, same := s.unchanged(uri, at)
	if !same {
		content, err := readInRoot(s.root, at.real, at.info, maxSkillBytes)
		if err != nil {
			s.failed(p, name, "%s", readFailure(err))
			return
		}
		file = newSkillFile(name, uri, content, at)
	}
	file.skill = p.in[len(p.in)-1].key
	for _, k := range p.in {
		if k.why == nil {
			k.files = append(k.files, file)
		}
	}
	if at.link {
		s.set.dirs = append(s.set.dirs, path.Dir(at.real))
	}
}

// finish makes the record of a skill. One with which something is wrong is left out, and
// the others stay: where it is within another one, its files are files of that, and its
// key is still what policy decides on for them.
func (s *skillScan) finish(k *skill, within bool) {
	if k.why != nil {
		s.skip(k.dir, "%s", k.why)
		if within && len(s.set.broken) < maxSkills {
			s.set.broken = append(s.set.broken, k.key)
		}
		return
	}
	slices.SortFunc(k.files, func(a, b skillFile) int { return strings.Compare(a.uri, b.uri) })
	files := mcp.Raw{'['}
	for i, f := range k.files {
		if i > 0 {
			files = append(files, ',')
		}
		files = append(files, mcp.Object("uri", mcp.String(f.uri), "digest", mcp.String(f.digest), "size", mcp.Int(f.size))...)
		s.set.files[f.uri] = f
	}
	k.record = k.text.record(k.key, k.uri).With("resources", append(files, ']'))
	s.set.skills = append(s.set.skills, k)
}
