package catalog

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// mentions reports whether JSON text may have a member named uri, resourceUri or
// ui/resourceUri: whether any string ends like them, or has an escape that may stand for a
// letter of them. Inside a string the quotation mark is escaped, so what a text says is
// never taken for a member.
//
// Every result passes here, whatever its size. Large ones are long texts as a rule,
// with few quotation marks to look at; where there are many, eight bytes are looked
// at in one step.
func mentions(text []byte) bool {
	if bytes.Contains(text, []byte(`\u00`)) {
		return true
	}
	i := 0
	for few := len(text)/64 + 1; few > 0; few-- {
		n := bytes.IndexByte(text[i:], '"')
		if n < 0 {
			return false
		}
		if endsURI(text, i+n) {
			return true
		}
		i += n + 1
	}
	const (
		ones  = 0x0101010101010101
		highs = 0x80 * ones
		marks = '"' * ones
	)
	for ; i+8 <= len(text); i += 8 {
		x := binary.LittleEndian.Uint64(text[i:]) ^ marks
		for found := (x - ones) & ^x & highs; found != 0; found &= found - 1 {
			if endsURI(text, i+bits.TrailingZeros64(found)/8) {
				return true
			}
		}
	}
	for ; i < len(text); i++ {
		if text[i] == '"' && endsURI(text, i) {
			return true
		}
	}
	return false
}

// endsURI reports whether uri stands before index i, in whatever case.
func endsURI(text []byte, i int) bool {
	return i >= 3 && text[i-1]|0x20 == 'i' && text[i-2]|0x20 == 'r' && text[i-3]|0x20 == 'u'
}
