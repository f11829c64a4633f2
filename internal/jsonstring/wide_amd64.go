//go:build !purego

package jsonstring

import "golang.org/x/sys/cpu"

// long passes text of a string in large steps. It returns an index up to which everything is right,
// short of the string's end or of what it cannot judge, and at which no escape is cut in two. At
// least three bytes stand before i.
func long(b []byte, i int) int {
	if cpu.X86.HasAVX2 {
		return wide(b, i)
	}
	return plain(b, i)
}

// wide is long for processors with AVX2. Its steps are 64 bytes.
//
//go:noescape
func wide(b []byte, i int) int
