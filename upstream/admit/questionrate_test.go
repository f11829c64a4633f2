package admit

import (
	"strconv"
	"testing"
	"time"
)

// TestQuestionRatesAreBounded: of no more clients than that it is known what they were
// asked, and those go first that were asked longest ago.
func TestQuestionRatesAreBounded(t *testing.T) {
	q := newQuestionRate(1)
	now := time.Now()
	for i := range maxAsked + 50 {
		if !q.take(strconv.Itoa(i), now, questionWeight) {
			t.Fatalf("client %d cannot be asked at all", i)
		}
	}
	if n := q.clients.Len(); n != maxAsked {
		t.Errorf("%d clients are known, want %d", n, maxAsked)
	}
	for i := 50; i < maxAsked+50; i++ {
		if q.take(strconv.Itoa(i), now, 1) {
			t.Fatalf("it was forgotten what client %d was asked", i)
		}
	}
	if q.take("too much at once", now, questionWeight+1) {
		t.Error("a client is asked more at once than in a minute")
	}
}
