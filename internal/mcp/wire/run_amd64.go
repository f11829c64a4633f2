//go:build !purego

package wire

// run goes over plain text, which is ASCII without control characters, quotation mark
// and backslash, in large steps and returns where it stopped, at or a little before what
// is not: where exactly, smaller steps find out. A large result is passed on for little
// more than it costs to read and write it, so this is worth assembly.
func run(b []byte, i int) int { return i + plain(b[i:]) }

// window is the step, and so how much too early run may stop.
const window = 64

// plain returns how many bytes of plain text b begins with, in steps of 64 bytes.
//
//go:noescape
func plain(b []byte) int
