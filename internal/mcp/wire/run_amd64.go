//go:build !purego

package wire

import "golang.org/x/sys/cpu"

// run skips plain text, which is ASCII without control characters, quotation mark and
// backslash, in large steps. It returns an index at or a little before the end of the plain
// text; the caller finds the exact end in smaller steps. Passing on a large result costs
// little more than reading and writing it, so the scan is worth assembly.
func run(b []byte, i int) int {
	if cpu.X86.HasAVX2 {
		return i + plainWide(b[i:])
	}
	return i + plain(b[i:])
}

// window is the size of a step in bytes, and so how much too early run may stop.
const window = 64

// plain returns the length of the plain text that b begins with, in steps of 64 bytes.
//
//go:noescape
func plain(b []byte) int

// plainWide is plain for processors with AVX2. It takes half the time.
//
//go:noescape
func plainWide(b []byte) int
