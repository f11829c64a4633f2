package cluster

import (
	"errors"
	"testing"
	"time"
)

func TestJudge(t *testing.T) {
	// Our lease was renewed at 100 s and ends at 110 s.
	own := tenure{lease: 10 * time.Second, ever: true, asked: 100 * time.Second}
	refused := &dialError{err: errors.New("refused"), refused: true}
	tests := []struct {
		name     string
		at       int // when it answered, in seconds
		unbroken bool
		age      int
		harmless int // when it was last harmless, in seconds
		err      error
		want     verdict
	}{
		{"Redis answers it", 106, true, 1, 0, nil, suspect},
		{"nor does Redis answer it", 106, false, 5, 0, nil, harmless},
		{"for long", 140, false, 39, 0, nil, harmless},
		{"Redis never did", 140, false, 140, 0, nil, harmless},
		{"Redis did when our lease had ended", 140, false, 29, 0, nil, suspect},
		{"and only just", 140, false, 30, 0, nil, suspect},
		{"it does not answer", 106, false, 0, 0, errors.New("timeout"), suspect},
		{"it does not connect", 106, false, 0, 105, &dialError{err: errors.New("timeout")}, suspect},
		{"nobody listens there while our lease holds", 109, false, 0, 0, refused, gone},
		{"nobody listens there later", 111, false, 0, 0, refused, suspect},
		{"nobody listens there, and it was harmless", 123, false, 0, 115, refused, gone},
		{"nobody listens there, and it was harmless long ago", 124, false, 0, 115, refused, suspect},
	}
	for _, tt := range tests {
		r := reach{
			answered: time.Duration(tt.at) * time.Second, err: tt.err, harmless: time.Duration(tt.harmless) * time.Second,
			told: contact{unbroken: tt.unbroken, age: time.Duration(tt.age) * time.Second},
		}
		if got := r.judge(own, 9*time.Second); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}
