package session

import (
	"fmt"
	"strings"
	"testing"
)

// TestLettersAreBounded: the oldest are forgotten, and no more.
func TestLettersAreBounded(t *testing.T) {
	var l letters
	letter := func(i int) string { return fmt.Sprintf("%048d", i) + strings.Repeat("x", 100) }
	for i := range maxLetters + 10 {
		if l.twice(letter(i)) {
			t.Fatalf("letter %d is taken for another", i)
		}
	}
	for i := range 10 {
		if l.twice(letter(i)) { // in turn makes the next oldest forgotten
			t.Errorf("letter %d is still known", i)
		}
	}
	if !l.twice(letter(maxLetters+9)) || !l.twice(letter(0)) || len(l.known) != maxLetters || len(l.order) != maxLetters {
		t.Errorf("%d and %d letters are known", len(l.known), len(l.order))
	}
}
