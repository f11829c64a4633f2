//go:build !amd64 || purego

package wire

import (
	"bytes"
	"encoding/binary"
)

// window is how many bytes run looks ahead, and so how much too early it may stop. It fits
// into the L1 cache.
const window = 4 << 10

// run skips plain text, which is ASCII without control characters, quotation mark and
// backslash, in large steps. It returns an index at or a little before the end of the plain
// text; the caller finds the exact end in smaller steps. It finds the quotation mark and
// the backslash with IndexByte, which is assembly; that is faster than one pass that looks
// for everything.
func run(b []byte, i int) int {
	for i < len(b) {
		w := b[i:min(i+window, len(b))]
		n := len(w)
		if quote := bytes.IndexByte(w, '"'); quote >= 0 {
			n = quote
		}
		if escape := bytes.IndexByte(w[:n], '\\'); escape >= 0 {
			n = escape
		}
		whole := n &^ 31
		if !printable(w[:whole]) {
			return i
		}
		if i += whole; n < len(w) || whole == 0 {
			return i
		}
	}
	return i
}

// printable reports whether the bytes, a multiple of 32, are ASCII without control
// characters.
func printable(b []byte) bool {
	// Added to an ASCII byte, it carries into the highest bit if the byte is at least a
	// blank.
	const carry = (0x80 - ' ') * ones
	all, any := ^uint64(0), uint64(0)
	for ; len(b) >= 32; b = b[32:] {
		x0, x1 := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
		x2, x3 := binary.LittleEndian.Uint64(b[16:]), binary.LittleEndian.Uint64(b[24:])
		all &= (x0 + carry) & (x1 + carry) & (x2 + carry) & (x3 + carry)
		any |= x0 | x1 | x2 | x3
	}
	return all&^any&highs == highs
}
