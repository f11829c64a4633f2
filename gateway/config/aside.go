package config

import (
	"errors"
	"slices"

	"github.com/gatehouse-mcp/gatehouse/internal/problems"
	"github.com/gatehouse-mcp/gatehouse/internal/strictyaml"
)

// aside has the teams with mistakes in their files. A gateway sets them aside, so that one team stops no other.
type aside struct {
	teams  map[string]bool
	former map[string][]byte // texts of included files at the last load, by file
	now    map[string][]byte // likewise, at this load
	broken map[string]bool   // files with mistakes of their own, as opposed to what does not fit other files
}

// note notes the mistakes of a file alone.
func (a *aside) note(file string, mistakes []Problem) {
	if a != nil && len(mistakes) > 0 {
		a.broken[file] = true
	}
}

// add sets the teams of files with mistakes aside. It returns the mistakes, or nil if there are others, too. What
// does not fit another file waits for the files with mistakes of their own, which may be the reason.
func (a *aside) add(c Config, err error) (mistakes []Problem) {
	bad, ok := errors.AsType[*Error](err)
	if !ok {
		return nil
	}
	more := map[string]bool{}
	for _, p := range bad.Problems {
		owners := c.owners(p.File)
		if _, included := a.now[p.File]; !included || len(owners) != 1 {
			return nil
		}
		if len(a.broken) > 0 && !a.broken[p.File] {
			continue
		}
		more[owners[0].Name] = true
		consequence := " is left out"
		for file := range a.former {
			if owners[0].owns(file) {
				consequence = " keeps what it had"
			}
		}
		p.Message += ": the team " + owners[0].Name + consequence
		mistakes = append(mistakes, p)
	}
	for team := range more {
		if a.teams[team] { // what it had does not fit either
			return nil
		}
		a.teams[team] = true
	}
	a.now, a.broken = map[string][]byte{}, map[string]bool{}
	return mistakes
}

// has reports whether the team with a file is set aside.
func (a *aside) has(c Config, file string) bool {
	owners := c.owners(file)
	return a != nil && len(owners) == 1 && a.teams[owners[0].Name]
}

// replace replaces the files of teams that are set aside by those that they had.
func (a *aside) replace(c Config, files []string) []string {
	if a == nil {
		return files
	}
	files = slices.DeleteFunc(files, func(file string) bool { return a.has(c, file) })
	for file := range a.former {
		if a.has(c, file) {
			files = append(files, file)
		}
	}
	return files
}

// read returns the text of an included file.
func (a *aside) read(c Config, file string) (data []byte, this strictyaml.Seen, err error) {
	if a.has(c, file) {
		data = a.former[file]
	} else {
		data, _, this, err = strictyaml.SeeFile(file, MaxBytes)
	}
	if a != nil {
		a.now[file] = data
	}
	return data, this, err
}

// check refuses to leave a team out that may have rules about upstreams which stay.
func (a *aside) check(c Config) (found problems.List) {
	if a == nil {
		return nil
	}
	for i, t := range c.Teams {
		left := a.teams[t.Name] && !slices.ContainsFunc(c.Included, t.owns)
		for _, u := range c.Upstreams {
			found.When(left && slices.ContainsFunc(t.upstreams(), func(p string) bool { return matches(p, u.Name) }),
				"teams[%d]: is not left out for its mistakes, as it may have rules about the upstream %s", i, u.Name)
		}
	}
	return found
}
