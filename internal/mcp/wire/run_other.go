//go:build !amd64 || purego

package wire

import (
	"bytes"
	"encoding/binary"
)

// window is how far run looks ahead, and so how much too early it may stop: little enough
// to stay in the nearest cache.
const window = 4 << 10

// run goes over plain text, which is ASCII without control characters, quotation mark
// and backslash, in large steps and returns where it stopped, at or a little before what
// is not: where exactly, smaller steps find out. IndexByte, which is assembly, finds the quotation mark and the
// backslash in less time than all is looked for in one pass.
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

// printable reports that the bytes, some times 32 of them, are ASCII without control
// characters.
func printable(b []byte) bool {
	// Added to a byte of ASCII, it carries into the highest bit from the blank on.
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
