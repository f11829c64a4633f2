package strictyaml

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing that is wrong, or as a warning questionable, in a
// configuration.
type Problem struct {
	// File is the name of the file as it was given, "" for a configuration without one.
	File string `json:"file,omitempty"`
	// Line and Column count from 1; 0 when the problem has no place in a file.
	Line   int `json:"line,omitempty"`
	Column int `json:"column,omitempty"`
	// Path is the key, such as "upstreams[2] (crm): timeout.call"; "" for the file
	// as a whole.
	Path string `json:"path,omitempty"`
	// Message never quotes a secret.
	Message string `json:"message"`
}

// String returns "file:line: path: message" without the parts that are not known.
func (p Problem) String() string {
	var b strings.Builder
	switch {
	case p.File != "" && p.Line > 0:
		fmt.Fprintf(&b, "%s:%d: ", p.File, p.Line)
	case p.File != "":
		b.WriteString(p.File + ": ")
	}
	if p.Path != "" {
		b.WriteString(p.Path + ": ")
	}
	b.WriteString(p.Message)
	return b.String()
}

// Error holds everything that is wrong with a configuration, sorted by place.
type Error struct {
	Problems []Problem
}

// Error returns one line for each problem.
func (e *Error) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// Unplaced is the error of a configuration that comes from no file: each of the errors
// joined in found is a problem.
func Unplaced(found error) *Error {
	e := &Error{}
	for _, text := range leaves(found) {
		e.Problems = append(e.Problems, Problem{Message: text})
	}
	return e
}

// sortProblems sorts problems from the top of the file to its end, as people fix them.
func sortProblems(problems []Problem) []Problem {
	slices.SortFunc(problems, func(a, b Problem) int {
		return cmp.Or(
			cmp.Compare(a.File, b.File),
			cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Path, b.Path),
			cmp.Compare(a.Message, b.Message),
		)
	})
	return slices.Compact(problems)
}
