//go:build !purego

package wire

import (
	"bytes"
	"testing"

	"golang.org/x/sys/cpu"
)

// TestPlainWide compares both ways to find the end of plain text. TestRun holds the one that this
// machine takes against the definition.
func TestPlainWide(t *testing.T) {
	if !cpu.X86.HasAVX2 {
		t.Skip("this processor has no AVX2") // then TestRun holds the other one
	}
	for c := range 256 {
		for at := range 200 {
			b := bytes.Repeat([]byte{'a'}, 200)
			b[at] = byte(c)
			for from := range window {
				if narrow, wide := plain(b[from:]), plainWide(b[from:]); narrow != wide {
					t.Fatalf("%d at %d, from %d: %d and %d bytes of plain text", c, at, from, narrow, wide)
				}
			}
		}
	}
}
