package pin

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// maxTold bounds what is reported of one definition, in texts and in bytes of a decoded one.
const (
	maxTold  = 8
	maxBytes = 120
)

// Hidden returns what people cannot see in a definition though models read it: characters that
// have no width, that turn the order of others around, or that spell a text in tags (U+E0000).
// Each finding names the member and the characters.
func Hidden(definition mcp.Raw) (found []string) {
	search("", definition, func(path, text string) {
		if len(found) < maxTold {
			if what := hiddenIn(text); what != "" {
				found = append(found, path+" has "+what)
			}
		}
	})
	return found
}

// search calls fn for each string in a value, names of members among them.
func search(path string, value mcp.Raw, fn func(path, text string)) {
	below := func(name string) string { return strings.TrimPrefix(path+"."+name, ".") }
	switch {
	case value.IsObject():
		value.Each(func(name string, value mcp.Raw) bool {
			plain := mcp.Raw(`"` + name + `"`).Text()
			fn(below(Visible(plain)), plain)
			search(below(Visible(plain)), value, fn)
			return true
		})
	case value.IsArray():
		i := 0
		value.Elements(func(element mcp.Raw) bool {
			search(fmt.Sprintf("%s[%d]", path, i), element, fn)
			i++
			return true
		})
	default:
		if text, ok := value.StringValue(); ok {
			if path == "" {
				path = "the text"
			}
			fn(path, text)
		}
	}
}

// hiddenIn describes the hidden characters of a text, "" if there are none.
func hiddenIn(text string) string {
	var hidden []string
	var tags strings.Builder
	seen := make(map[rune]bool)
	runes := []rune(text)
	flag := false // in an emoji of a region's flag, which tags spell
	for i, r := range runes {
		isTag := 0xE0020 <= r && r <= 0xE007F
		flag = isTag && (flag || i > 0 && runes[i-1] == 0x1F3F4)
		switch {
		case flag:
		case isTag:
			if r != 0xE007F {
				tags.WriteRune(r - 0xE0000)
			}
		case invisible(runes, i) && !seen[r]:
			seen[r] = true
			hidden = append(hidden, fmt.Sprintf("U+%04X", r))
		}
	}
	var parts []string
	if len(hidden) > 0 {
		parts = append(parts, "invisible characters ("+strings.Join(hidden[:min(len(hidden), maxTold)], ", ")+")")
	}
	if said := tags.String(); said != "" {
		parts = append(parts, fmt.Sprintf("a text in invisible tags (%q)", said[:min(len(said), maxBytes)]))
	}
	return strings.Join(parts, " and ")
}

// invisible reports whether a character cannot be seen, and its script does not need it there.
func invisible(text []rune, i int) bool {
	r := text[i]
	switch {
	case r == 0x200C || r == 0x200D: // joiners, which emojis and some scripts need
		return !joins(text, i-1) || !joins(text, i+1)
	case r == 0x200E || r == 0x200F: // marks of direction, which texts from right to left need
		return false
	case 0xFE00 <= r && r <= 0xFE0F: // variants of the character before
		return i == 0 || text[i-1] < 0x80 && !strings.ContainsRune("#*0123456789", text[i-1])
	case 0xE0100 <= r && r <= 0xE01EF: // likewise, of ideographs
		return i == 0 || !unicode.Is(unicode.Han, text[i-1])
	case r == 0xAD, r == 0x115F, r == 0x1160, r == 0x3164, r == 0xFFA0, r == 0x034F, r == 0x17B4, r == 0x17B5:
		return true
	}
	return unicode.Is(unicode.Cf, r) && !unicode.In(r, unicode.Arabic, unicode.Syriac) ||
		unicode.Is(unicode.Cc, r) && r != '\n' && r != '\t' && r != '\r'
}

// joins reports whether the character at a position can be joined with another one.
func joins(text []rune, i int) bool {
	if i < 0 || i >= len(text) {
		return false
	}
	r := text[i]
	return r > 0x24F && !unicode.In(r, unicode.Greek, unicode.Cyrillic, unicode.Cf)
}

// Visible writes what people would not see, or what acts on a terminal, as <U+200B>.
func Visible(text string) string {
	runes := []rune(text)
	var out strings.Builder
	for i, r := range runes {
		isTag := 0xE0000 <= r && r <= 0xE007F
		if isTag || invisible(runes, i) || unicode.Is(unicode.Bidi_Control, r) || r == '\r' {
			fmt.Fprintf(&out, "<U+%04X>", r)
		} else {
			out.WriteRune(r)
		}
	}
	return out.String()
}
