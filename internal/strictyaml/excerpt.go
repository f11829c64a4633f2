package strictyaml

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// leftOut stands for what is not shown of a line.
const leftOut = "…"

// keyLine matches the beginning of a line up to its first key.
var keyLine = regexp.MustCompile(`^[\t ]*(?:- )?([\pL_][\pL\pN_.-]*):(?:[\t ]|$)`)

// Excerpt shows the line of a problem to people who may not know secrets, and under it a caret at
// the problem's column, counted from 1; 0 for none. It shows the first key alone: what follows may be
// a secret under a misspelt key.
func Excerpt(line string, column int) string {
	if strings.TrimSpace(line) == "" {
		return ""
	}
	shown := ""
	if m := keyLine.FindStringSubmatch(line); m != nil && utf8.RuneCountInString(m[1]) <= longestKey {
		shown = strings.TrimRight(m[0], "\t ") + " "
	}
	shown = strings.ReplaceAll(shown, "\t", " ") + leftOut
	if column < 1 {
		return shown
	}
	return shown + "\n" + strings.Repeat(" ", max(min(column, utf8.RuneCountInString(shown))-1, 0)) + "^"
}
