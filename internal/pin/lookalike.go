package pin

import (
	"cmp"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// Named is a tool or prompt, by the name that clients see.
type Named struct {
	Upstream, Name string
}

// Alike are two names of different servers that people or models may take for each other.
type Alike struct {
	A, B Named
}

// LookAlikes returns names of different servers that look the same: the same but for case,
// separators and characters of the same shape. Of many alike, each is reported with the first.
func LookAlikes(names []Named) (found []Alike) {
	sorted := slices.SortedStableFunc(slices.Values(names), func(a, b Named) int {
		return cmp.Or(cmp.Compare(skeleton(a.Name), skeleton(b.Name)))
	})
	for i, first := 1, 0; i < len(sorted); i++ {
		if skeleton(sorted[first].Name) != skeleton(sorted[i].Name) {
			first = i
		} else if sorted[first].Upstream != sorted[i].Upstream {
			found = append(found, Alike{sorted[first], sorted[i]})
		}
	}
	return found
}

// Mixed reports whether a name has letters of scripts that look like each other: Latin with
// Cyrillic or Greek, or letters that are only another form of Latin ones.
func Mixed(name string) bool {
	latin, other := false, false
	for _, r := range name {
		switch {
		case unicode.In(r, unicode.Cyrillic, unicode.Greek, unicode.Cherokee, unicode.Armenian):
			other = true
		case r < 0x80 && unicode.IsLetter(r):
			latin = true
		case norm.NFKC.String(string(r)) != norm.NFC.String(string(r)) && unicode.IsLetter(r):
			return true
		}
	}
	return latin && other
}

// shapes maps characters to others of the same shape, after folding case.
var shapes = map[rune]string{
	// digits and Latin letters
	'0': "o", '1': "l", 'i': "l", '|': "l", 'ı': "l", 'ł': "l", 'ɩ': "l", 'ø': "o", 'ɡ': "g", 'ɑ': "a",
	// Cyrillic
	'а': "a", 'в': "b", 'с': "c", 'ԁ': "d", 'е': "e", 'ё': "e", 'һ': "h", 'н': "h", 'і': "l", 'ї': "l", 'ӏ': "l", 'ј': "j",
	'к': "k", 'м': "m", 'о': "o", 'р': "p", 'ԛ': "q", 'ѕ': "s", 'т': "t", 'у': "y", 'ѵ': "v", 'ԝ': "w", 'х': "x", 'ү': "y",
	// Greek
	'α': "a", 'β': "b", 'ε': "e", 'η': "n", 'ι': "l", 'κ': "k", 'ν': "v", 'ο': "o", 'ρ': "p", 'τ': "t", 'υ': "u",
	'χ': "x", 'ω': "w",
	// Armenian
	'օ': "o", 'ս': "u", 'հ': "h", 'ո': "n", 'ց': "g",
}

// skeleton returns what names that look alike have in common.
func skeleton(name string) string {
	var out strings.Builder
	for _, r := range norm.NFKD.String(strings.ToLower(norm.NFKC.String(name))) {
		switch shape, ok := shapes[r]; {
		case ok:
			out.WriteString(shape)
		case strings.ContainsRune("_-./: ", r), unicode.In(r, unicode.Mn, unicode.Cf):
		default:
			out.WriteRune(r)
		}
	}
	return strings.NewReplacer("rn", "m", "vv", "w").Replace(out.String())
}
