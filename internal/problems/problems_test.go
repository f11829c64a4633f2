package problems

import (
	"errors"
	"io"
	"testing"
	"time"
)

func TestList(t *testing.T) {
	for _, tt := range []struct {
		name string
		find func(*List)
		want string
	}{
		{"nothing", func(*List) {}, ""},
		{"some", func(l *List) { l.Add("a: %d", 1); l.Add("b: %w", io.EOF) }, "a: 1\nb: EOF"},
		{"when", func(l *List) { l.When(false, "a: %d", 1); l.When(true, "b: %d", 2) }, "b: 2"},
		{"of a key", func(l *List) { l.At("a", io.EOF) }, "a: EOF"},
		{"several of a key", func(l *List) { l.At("a", io.EOF, nil, io.ErrNoProgress) },
			"a: EOF\na: " + io.ErrNoProgress.Error()},
		{"a list of a key", func(l *List) { l.At("a", List{io.EOF}...) }, "a: EOF"},
		{"nothing of a key", func(l *List) { l.At("a", nil); l.At("a"); l.At("a", List{}.Err()) }, ""},
		{"of others", func(l *List) { l.Join(io.EOF, nil, io.ErrNoProgress) }, "EOF\n" + io.ErrNoProgress.Error()},
		{"nothing of others", func(l *List) { l.Join(nil); l.Join() }, ""},
		{"negative", func(l *List) { l.At("a", Negative(-1)); l.At("b", Negative(-time.Second)) },
			"a: -1 is negative\nb: -1s is negative"},
		{"not negative", func(l *List) { l.At("a", Negative(0)); l.At("b", Negative(int64(1))) }, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var l List
			tt.find(&l)
			got := ""
			if err := l.Err(); err != nil {
				got = err.Error()
			}
			if got != tt.want || (len(l) == 0) != (got == "") {
				t.Errorf("got %q in %d errors, want %q", got, len(l), tt.want)
			}
		})
	}
}

// TestWraps: what is reported is still the error that it was.
func TestWraps(t *testing.T) {
	var l List
	l.Add("a: %w", io.EOF)
	l.At("b", io.ErrNoProgress)
	if err := l.Err(); !errors.Is(err, io.EOF) || !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("%v wraps neither or one", err)
	}
}
