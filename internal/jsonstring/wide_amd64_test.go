//go:build !purego

package jsonstring

import (
	"strings"
	"testing"

	"golang.org/x/sys/cpu"
)

// TestWide passes long texts in one go: what it did not pass would be right, but slow.
func TestWide(t *testing.T) {
	if !cpu.X86.HasAVX2 {
		t.Skip("this processor has no AVX2") // it never runs wide
	}
	for _, part := range []string{"plain text ", `\"a\": \"\\n\",\n`, `\\`, `\u00e9`, `x\uD83D\ude00`, "é", "東京 ", "😀😀a"} {
		for shift := range 64 {
			b := []byte(`abc"` + strings.Repeat("x", shift) + strings.Repeat(part, 100) + `"`)
			if got := wide(b, 4); got < len(b)-65 || got >= len(b) {
				t.Errorf("%q after %d: it goes to %d of %d", part, shift, got, len(b))
			}
		}
	}
}
