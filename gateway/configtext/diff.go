package configtext

import (
	"strings"

	"github.com/aymanbagabas/go-udiff"
)

// mostDiff bounds a difference, in bytes.
const mostDiff = 64 << 10

// Diff returns the difference between two texts, in the unified form, "" for none. It has no
// names of files, and a long one is cut.
func Diff(before, after string) string {
	text := udiff.Unified("before", "after", before, after)
	if at := strings.Index(text, "@@"); at >= 0 {
		text = text[at:]
	}
	if len(text) <= mostDiff {
		return text
	}
	at := strings.LastIndexByte(text[:mostDiff], '\n') + 1
	return strings.ToValidUTF8(text[:at], "") + "... cut here: the difference is larger than 64 KiB\n"
}
