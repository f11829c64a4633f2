package clientele

import (
	"strings"
	"unicode"
)

const (
	// maxName bounds the name of a client, in characters.
	maxName = 64
	// maxMarks bounds the marks on one character: more of them cover the lines around.
	maxMarks = 2
)

// cleanName makes what a client calls itself fit to be shown: one line, short, and with a sign in
// place of each character that is invisible or turns the text around.
func cleanName(name string) string {
	var b strings.Builder
	shown, marks, gap := 0, 0, false
	for _, r := range strings.ToValidUTF8(name, "\uFFFD") {
		switch {
		case unicode.IsSpace(r):
			gap = shown > 0
			continue
		case unicode.Is(unicode.M, r):
			if marks++; marks > maxMarks {
				continue
			}
		case unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Co, unicode.Zl, unicode.Zp) || !unicode.IsPrint(r):
			r, marks = '\uFFFD', 0
		default:
			marks = 0
		}
		if gap {
			b.WriteByte(' ')
			shown, gap = shown+1, false
		}
		if shown++; shown > maxName {
			return strings.TrimSpace(string([]rune(b.String())[:maxName-1])) + "…"
		}
		b.WriteRune(r)
	}
	return b.String()
}
