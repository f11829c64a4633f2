package jsonstring

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// stops marks, in the high bits of its bytes, the bytes of x that end a run of plain text:
// a quotation mark, a backslash, a control character. The lowest mark is right; a borrow
// may set others above it. Quotation mark and control characters share a subtraction: with
// bit 1 flipped, they alone are below '!'.
func stops(x uint64) uint64 {
	return ((x ^ ones*2 - ones*'!') | (x ^ ones*'\\' - ones)) &^ x & highs
}

// plain is long by words. It passes ASCII without escapes.
func plain(b []byte, i int) int {
	for ; i+32 <= len(b); i += 32 {
		w := b[i : i+32]
		x0, x1 := binary.LittleEndian.Uint64(w), binary.LittleEndian.Uint64(w[8:])
		x2, x3 := binary.LittleEndian.Uint64(w[16:]), binary.LittleEndian.Uint64(w[24:])
		if stops(x0)|stops(x1)|stops(x2)|stops(x3)|(x0|x1|x2|x3)&highs != 0 {
			break
		}
	}
	return i
}

// A text is long after so many steps of a word or an escape, which are at least as many bytes. When
// long has passed little, it takes more steps until it is called again.
const (
	eager   = 8
	patient = 256
)

// simple has the bytes that may follow a backslash, apart from u.
var simple = [256]bool{'"': true, '\\': true, '/': true, 'b': true, 'f': true, 'n': true, 'r': true, 't': true}

// Check checks the string that begins at i strictly by RFC 8259, in UTF-8. It returns the index after
// it. If why is not empty, it says what is wrong at the index.
func Check(b []byte, i int) (end int, why string) {
	start := i
	i++
	checked := i      // up to here it is UTF-8
	var seen uint64   // all bytes since then or'ed: is any above ASCII?
	patience := eager // steps before the text counts as long
	for steps := 0; ; steps++ {
		if steps == patience {
			steps = 0
			if seen&highs != 0 {
				i = character(b[:i], checked)
				if !utf8.Valid(b[checked:i]) {
					return start, notUTF8
				}
			}
			from := i
			i = character(b[:long(b, i)], i)
			checked, seen = i, 0
			if patience = eager; i-from < 64 {
				patience = patient
			}
		}
		if i+8 <= len(b) {
			x := binary.LittleEndian.Uint64(b[i:])
			stop := stops(x)
			if stop == 0 {
				seen |= x
				i += 8
				continue
			}
			n := bits.TrailingZeros64(stop) >> 3
			seen |= x & (1<<(8*n) - 1)
			i += n
		} else if i >= len(b) {
			return i, noEnd
		}
		switch c := b[i]; {
		case c == '"':
			if seen&highs != 0 && !utf8.Valid(b[checked:i]) {
				return start, notUTF8
			}
			return i + 1, ""
		case c == '\\':
			if i+1 < len(b) && simple[b[i+1]] {
				i += 2
			} else if i, why = unicode(b, i); why != "" {
				return i, why
			}
		case c < ' ':
			return i, "a control character stands in a string"
		default: // one of the last bytes of the text
			seen |= uint64(c)
			i++
		}
	}
}

const (
	noEnd   = "a string has no end"
	notUTF8 = "a string is not UTF-8"
)

// character returns the length of b without a possibly cut character at its end, but no less than
// from.
func character(b []byte, from int) int {
	for n := 1; n <= 3 && len(b)-n >= from && b[len(b)-n] >= utf8.RuneSelf; n++ {
		if utf8.RuneStart(b[len(b)-n]) {
			return len(b) - n
		}
	}
	return len(b)
}

// unicode checks an escape at i that is not simple.
func unicode(b []byte, i int) (end int, why string) {
	switch {
	case i+1 >= len(b), b[i+1] == 'u' && i+6 > len(b):
		return i, noEnd
	case b[i+1] != 'u':
		return i, "an escape is wrong"
	}
	for _, c := range b[i+2 : i+6] {
		if (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'f') {
			return i, "an escape is wrong"
		}
	}
	return i + 6, ""
}

// Skip returns the index after the string that begins at i in JSON that is known to be valid. On
// other text it returns at most the length of b.
func Skip(b []byte, i int) int {
	patience := eager
	i++
	for steps := 0; ; steps++ {
		if steps == patience {
			from := i
			i, steps = long(b, i), 0
			if patience = eager; i-from < 64 {
				patience = patient
			}
		}
		if i+8 <= len(b) {
			stop := stops(binary.LittleEndian.Uint64(b[i:]))
			if stop == 0 {
				i += 8
				continue
			}
			i += bits.TrailingZeros64(stop) >> 3
		} else if i >= len(b) {
			return len(b)
		}
		switch b[i] {
		case '"':
			return i + 1
		case '\\':
			i += 2
		default: // one of the last bytes of the text
			i++
		}
	}
}
