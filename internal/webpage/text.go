package webpage

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text makes what others wrote fit to be looked at: what cannot be seen, or changes how the rest is
// seen, is named, and what is longer than most characters is cut. Templates escape the result as
// any other text.
func Text(s string, most int) string { return text(s, most, "") }

// Lines is Text that keeps the ends of lines, and tabs.
func Lines(s string, most int) string { return text(s, most, "\n\t") }

func text(s string, most int, kept string) string {
	var b strings.Builder
	n := 0
	for _, c := range s {
		if n == most {
			fmt.Fprintf(&b, "… (%d characters more)", utf8.RuneCountInString(s)-most)
			break
		}
		n++
		switch {
		case strings.ContainsRune(kept, c):
			b.WriteRune(c)
		case c == utf8.RuneError:
			b.WriteRune('�')
		case c < 0x20:
			b.WriteRune(0x2400 + c) // the pictures of control characters
		case c == 0x7f:
			b.WriteRune('␡')
		case Hidden(c):
			fmt.Fprintf(&b, "⟨U+%04X⟩", c)
		default:
			b.WriteRune(c)
		}
	}
	return b.String()
}

// Hidden reports whether a character cannot be seen, or changes the direction of others.
func Hidden(c rune) bool {
	return unicode.In(c, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co) ||
		unicode.Is(unicode.Variation_Selector, c) ||
		unicode.Is(unicode.Other_Default_Ignorable_Code_Point, c)
}
