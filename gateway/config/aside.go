package config

import (
	"errors"
	"slices"

	"github.com/gatehouse-mcp/gatehouse/internal/strictyaml"
)

// aside has the teams with mistakes in their files. A gateway sets them aside, so that one team stops no other.
type aside struct {
	owner  func(file string) string // the team with a file; "" for none, and nil without teams
	teams  map[string]bool
	former map[string][]byte // texts of included files at the last load, by file
	now    map[string][]byte // likewise, at this load
	broken map[string]bool   // files with mistakes of their own, as opposed to what does not fit other files
}

func newAside(former map[string][]byte) *aside {
	return &aside{teams: map[string]bool{}, former: former, now: map[string][]byte{}, broken: map[string]bool{}}
}

// add sets the teams of files with mistakes aside. It returns the mistakes, or nil if there are others, too. What
// does not fit another file waits for the files with mistakes of their own, which may be the reason.
func (a *aside) add(err error) (mistakes []strictyaml.Problem) {
	bad, ok := errors.AsType[*strictyaml.Error](err)
	if !ok || a.owner == nil {
		return nil
	}
	more := map[string]bool{}
	for _, p := range bad.Problems {
		team := a.owner(p.File)
		switch _, included := a.now[p.File]; {
		case !included || team == "" || a.teams[team]: // what the team had may not fit either
			return nil
		case len(a.broken) > 0 && !a.broken[p.File]:
			continue
		case a.had(team):
			p.Message += ": the team " + team + " keeps what it had"
		default:
			p.Message += ": the team " + team + " is left out"
		}
		more[team] = true
		mistakes = append(mistakes, p)
	}
	for team := range more {
		a.teams[team] = true
	}
	a.now, a.broken = map[string][]byte{}, map[string]bool{}
	return mistakes
}

// had reports whether a team had files at the last load.
func (a *aside) had(team string) bool {
	for file := range a.former {
		if a.owner(file) == team {
			return true
		}
	}
	return false
}

// note notes the text of an included file, and its own mistakes.
func (a *aside) note(file string, text []byte, mistakes []strictyaml.Problem) {
	if a == nil {
		return
	}
	a.now[file] = text
	if len(mistakes) > 0 {
		a.broken[file] = true
	}
}

// without returns files without those that teams which are set aside did not have.
func (a *aside) without(files []string) []string {
	return slices.DeleteFunc(files, func(file string) bool {
		_, had := a.former[file]
		return a.teams[a.owner(file)] && !had
	})
}

// text returns the former text of a file if its team is set aside.
func (a *aside) text(file string) (text []byte, found bool) {
	if a == nil || !a.teams[a.owner(file)] {
		return nil, false
	}
	return a.former[file], true
}

// has reports whether a team is set aside.
func (a *aside) has(team string) bool { return a != nil && a.teams[team] }
