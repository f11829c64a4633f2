package session

import (
	"strconv"
	"testing"
)

// A letter is taken once, in whatever order letters come, and one that is too late is not.
func TestLettersComeOnce(t *testing.T) {
	var l letters
	tests := []struct {
		number uint64
		want   bool
	}{
		{0, false}, {1, true}, {1, false}, {3, true}, {2, true}, {2, false}, {3, false},
		{64, true}, {65, true}, {64, false}, {63, true},
		{maxLate, true}, {maxLate + 1, true}, {1, false}, {2, false}, {4, true}, {4, false},
		{maxLate + 5, true}, {5, false}, {6, true}, {maxLate + 3, true}, {maxLate + 1, false},
		{10 * maxLate, true}, {maxLate + 6, false}, {9*maxLate + 1, true}, {9 * maxLate, false}, {9*maxLate + 1, false},
		{10 * maxLate, false}, {1<<64 - 1, true}, {1<<64 - 1, false}, {10*maxLate + 1, false},
	}
	for i, tt := range tests {
		if got := l.first("a", tt.number); got != tt.want {
			t.Errorf("step %d, number %d: got %t", i, tt.number, got)
		}
	}
	if !l.first("b", 1) || l.first("b", 1) {
		t.Error("another sender's letters are others")
	}
}

// All that has come is known for good, with a bound on what is kept of it.
func TestLettersAreBounded(t *testing.T) {
	var l letters
	for i := range maxSenders {
		if !l.first(strconv.Itoa(i), 1) {
			t.Fatalf("sender %d is not heard", i)
		}
	}
	if l.first("one more", 1) || len(l.senders) != maxSenders {
		t.Errorf("%d senders are remembered", len(l.senders))
	}
	for number := range uint64(10 * maxLate) {
		l.first("0", number+2)
	}
	for number := range uint64(10*maxLate + 1) {
		if l.first("0", number+1) {
			t.Fatalf("letter %d is taken twice", number+1)
		}
	}
}
