package wire

import (
	"bytes"
	"testing"
)

// plainText returns the length of the plain text that b begins with.
func plainText(b []byte) int {
	n := bytes.IndexFunc(b, func(r rune) bool { return r < ' ' || r > '~' && r != 0x7f || r == '"' || r == '\\' })
	if n < 0 {
		return len(b)
	}
	return n
}

func checkRun(t *testing.T, b []byte, from int) {
	t.Helper()
	end := from + plainText(b[from:])
	if got := run(b, from); got > end || got < end-window || got < from {
		t.Fatalf("run stopped at %d, began at %d, plain text ends at %d of %d", got, from, end, len(b))
	}
}

// TestRun puts every byte at every position of a step, at every alignment.
func TestRun(t *testing.T) {
	for c := range 256 {
		for at := range 200 {
			b := bytes.Repeat([]byte{'a'}, 200)
			b[at] = byte(c)
			checkRun(t, b, 0)
			checkRun(t, b, at/2)
			checkRun(t, b[:at+1], 0)
			checkRun(t, b[at%64:], 0)
		}
	}
}

func FuzzRun(f *testing.F) {
	f.Add(bytes.Repeat([]byte("plain text "), 50), 3)
	f.Add([]byte("\x7f\x80\x1f"), 0)
	f.Fuzz(func(t *testing.T, b []byte, from int) {
		if from >= 0 && from <= len(b) {
			checkRun(t, b, from)
		}
	})
}
