package console

import (
	"strings"

	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
)

// mostProblems bounds the problems on a page.
const mostProblems = 100

// placedProblem is a problem with its line of the text.
type placedProblem struct {
	admin.Problem
	Line  int
	Code  string // the line
	Caret string // a line with ^ under the column
}

// placed finds the lines of problems. The visitor has sent the text, and may see it.
func placed(text string, problems []admin.Problem) (all []placedProblem) {
	lines := strings.Split(text, "\n")
	for _, p := range problems[:min(len(problems), mostProblems)] {
		one := placedProblem{Problem: p, Line: p.Line}
		if p.Line > 0 && p.Line <= len(lines) {
			one.Code = lines[p.Line-1]
			if before := []rune(one.Code); p.Column > 0 && p.Column-1 <= len(before) && p.Column < mostShort {
				one.Caret = strings.Repeat(" ", p.Column-1) + "^"
			}
		}
		all = append(all, one)
	}
	return all
}
