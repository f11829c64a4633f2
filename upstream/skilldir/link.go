package skilldir

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// maxLinks is how many links may lead to one end, as in Linux.
const maxLinks = 40

// found is an entry of a directory, with links followed.
type found struct {
	real  string // its path without links
	info  fs.FileInfo
	link  bool // it is a link
	alias bool // its end has another path, too
}

// leftOut is the reason for not following a link.
type leftOut string

func (l leftOut) Error() string { return string(l) }

// find returns what an entry of a directory is. A link is followed if its end is inside the
// directory of all skills, and if no user can read by one path what policy keeps from them under
// the other: its end is in the same skill, in none, or in a mount of Kubernetes, where the two
// paths differ only by directories with names that begin with two dots.
func (s *scan) find(p place, e fs.DirEntry) (found, error) {
	at := found{real: path.Join(p.real, e.Name()), link: e.Type()&fs.ModeSymlink != 0}
	var err error
	if !at.link {
		at.info, err = e.Info()
		return at, err
	}
	from := mounted(at.real)
	if at.real, at.info, err = s.follow(at.real); err != nil {
		return at, err
	}
	to := mounted(at.real)
	switch at.alias = from != to; {
	case slices.ContainsFunc(strings.Split(to, "/"),
		func(name string) bool { return strings.HasPrefix(name, ".") && name != "." }):
		return at, leftOut("it is a link to something hidden")
	case !at.alias:
	case len(p.in) == 0 && at.info.IsDir():
		return at, leftOut("it is a link to a directory that is looked through under its own path")
	case len(p.in) == 0: // no part of a skill
	case at.info.IsDir() && (at.real == p.real || slices.Contains(p.above, at.real)):
		return at, leftOut("it is a link to a directory that it is in")
	default:
		if of := s.skillDirOf(to, at.info.IsDir()); of != "" && of != mounted(p.in[len(p.in)-1].real) {
			return at, leftOut("it is a link into another skill")
		}
	}
	return at, nil
}

// follow returns the end of a link.
func (s *scan) follow(link string) (end string, info fs.FileInfo, err error) {
	end = "."
	rest := strings.Split(link, "/")
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		if name == ".." {
			if end == "." {
				return "", nil, leftOut("it is a link out of the directory of skills")
			}
			end = path.Dir(end)
			continue
		}
		next := path.Join(end, name) // end itself for a dot, or between two slashes
		if info, err = s.root.Lstat(next); err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return "", nil, leftOut("it is a link to nothing")
			}
			return "", nil, err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			end = next
			continue
		}
		if links++; links > maxLinks {
			return "", nil, leftOut(fmt.Sprintf("more than %d links lead to its end", maxLinks))
		}
		to, err := s.root.Readlink(next)
		if err != nil {
			return "", nil, err
		}
		if to = filepath.ToSlash(to); path.IsAbs(to) || filepath.IsAbs(to) {
			return "", nil, leftOut("it is a link with an absolute path: only relative ones are followed")
		}
		rest = append(strings.Split(to, "/"), rest...)
	}
	info, err = s.root.Lstat(end)
	return end, info, err
}

// mounted returns a path without the directories that Kubernetes puts between a mount and its
// files, such as ..data and ..2026_01_31_12_00_00.123456789. Nothing else uses such names.
func mounted(real string) string {
	names := strings.Split(real, "/")
	return path.Join(slices.DeleteFunc(names, func(name string) bool { return strings.HasPrefix(name, "..") })...)
}

// skillDirOf returns the directory of the innermost skill that a path is in, "" for none.
func (s *scan) skillDirOf(name string, isDir bool) string {
	if !isDir {
		name = path.Dir(name)
	}
	for ; name != "."; name = path.Dir(name) {
		if _, err := s.root.Lstat(path.Join(name, mcp.SkillFile)); err == nil {
			return name
		}
	}
	return ""
}
