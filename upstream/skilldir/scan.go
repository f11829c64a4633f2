package skilldir

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

// Bounds of a directory of skills.
const (
	maxSkills  = 2000
	maxDepth   = 16      // directories below the first
	maxWalked  = 100_000 // files and directories in all
	maxSkipped = 2000    // skills or files that are left out and named
)

// readDir reads a directory of skills, without the files that have not changed since last. It
// opens nothing outside of the directory: everything goes through an os.Root.
func readDir(ctx context.Context, dir string, last *snapshot) (*snapshot, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	s := scan{ctx: ctx, root: root, last: last, left: maxWalked,
		held: &snapshot{files: make(map[string]file), skipped: make(map[string]string)}}
	entries, err := s.list(".")
	if err != nil {
		return nil, err
	}
	s.directory(place{name: ".", real: "."}, entries)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if s.unnamed > 0 {
		s.held.skipped["(more)"] = fmt.Sprintf("%d more skills or files are left out", s.unnamed)
	}
	slices.SortFunc(s.held.skills, func(a, b *skill) int { return cmp.Compare(a.key, b.key) })
	sum := sha256.New()
	for _, k := range s.held.skills {
		sum.Write(k.record)
		sum.Write([]byte{0})
	}
	for _, key := range s.held.broken {
		sum.Write([]byte(key + "\x00"))
	}
	sum.Sum(s.held.sum[:0])
	return s.held, nil
}

type scan struct {
	ctx     context.Context
	root    *os.Root
	last    *snapshot
	left    int // entries that may still be looked at
	unnamed int // left out beyond those that are named
	held    *snapshot
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

func (s *scan) skip(name, why string) {
	if len(s.held.skipped) == maxSkipped {
		s.unnamed++
		return
	}
	s.held.skipped[shownPath(name)] = why
}

// failed notes that something cannot be read: a skill that contains it is left out whole.
func (s *scan) failed(p place, name, why string) {
	for _, k := range p.in {
		k.fail("%s: %s", shownPath(name), why)
	}
	if len(p.in) == 0 {
		s.skip(name, why)
	}
}

// list lists a directory by name, without hidden entries.
func (s *scan) list(dir string) ([]fs.DirEntry, error) {
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
		return nil, fmt.Errorf("more than %d files and directories", maxWalked)
	}
	all = slices.DeleteFunc(all, func(e fs.DirEntry) bool { return strings.HasPrefix(e.Name(), ".") })
	slices.SortFunc(all, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return all, nil
}

// directory looks for skills in a directory and below, and for files of the surrounding skills.
func (s *scan) directory(p place, entries []fs.DirEntry) {
	s.held.dirs = append(s.held.dirs, p.real)
	i := slices.IndexFunc(entries, func(e fs.DirEntry) bool { return e.Name() == mcp.SkillFile })
	switch {
	case i < 0:
		for _, e := range entries {
			if strings.EqualFold(e.Name(), mcp.SkillFile) {
				s.skip(path.Join(p.name, e.Name()), "its name has to be "+mcp.SkillFile+" for a skill")
			}
		}
		s.contents(p, entries)
	case p.name == ".":
		s.skip(mcp.SkillFile, "a skill is a directory in this one, named like the skill")
		s.contents(p, slices.Delete(entries, i, i+1))
	case p.alias:
		s.skip(p.name, "a link leads to it, and it is a skill under its own path")
	default:
		k := &skill{key: uriPath(p.name), dir: p.name, real: p.real}
		k.uri = textURI(k.key)
		p.in = append(slices.Clip(p.in), k)
		k.why = s.read(k, p, entries[i])
		s.contents(p, entries)
		s.finish(k, len(p.in) > 1)
	}
}

// contents looks at the entries of a directory.
func (s *scan) contents(p place, entries []fs.DirEntry) {
	for _, e := range entries {
		if s.ctx.Err() != nil {
			return // readDir says so
		}
		name := path.Join(p.name, e.Name())
		at, err := s.find(p, e)
		switch {
		case errors.As(err, new(leftOut)):
			s.skip(name, err.Error())
		case err != nil:
			s.failed(p, name, readFailure(err))
		case !fileNameOK(e.Name()):
			if len(p.in) > 0 || at.info.IsDir() {
				s.skip(name, `its name has control characters, % or \, or is not UTF-8`)
			}
		case at.info.IsDir() && p.depth == maxDepth:
			s.failed(p, name, fmt.Sprintf("it is more than %d directories deep", maxDepth))
		case at.info.IsDir():
			below := place{name: name, real: at.real, depth: p.depth + 1, alias: p.alias || at.alias, in: p.in,
				above: append(slices.Clip(p.above), p.real)}
			inside, err := s.list(below.real)
			if err != nil {
				s.failed(p, name, readFailure(err))
				continue
			}
			s.directory(below, inside)
		case len(p.in) == 0: // no part of a skill
		case !at.info.Mode().IsRegular():
			s.skip(name, "it is no plain file")
		default:
			s.file(p, name, at)
		}
	}
}
