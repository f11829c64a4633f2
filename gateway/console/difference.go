package console

import "strings"

// diffLine is a line of a difference.
type diffLine struct{ Kind, Text string } // Kind is a class: good for added, bad for removed

// diffLines divides a difference into its lines.
func diffLines(diff string) (lines []diffLine) {
	for line := range strings.Lines(diff) {
		kind := ""
		switch line[0] {
		case '+':
			kind = "good"
		case '-':
			kind = "bad"
		case '@':
			kind = "quiet"
		}
		lines = append(lines, diffLine{kind, line})
	}
	return lines
}
