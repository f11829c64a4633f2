package admit

import (
	"strconv"
	"testing"
	"time"
)

// TestRetryAfterIsBounded: what is known of users stays bounded, and makes room by itself.
func TestRetryAfterIsBounded(t *testing.T) {
	r := newRetryAfter()
	now := time.Now()
	for i := range maxPaused + 10 {
		r.begin(strconv.Itoa(i), now, 2*time.Minute)
	}
	if n := r.until.Len(); n != maxPaused {
		t.Fatalf("%d users are known", n)
	}
	if left := r.left("9", now); left != 0 {
		t.Errorf("the user who has waited longest is refused for %s", left)
	}
	r.begin("10", now, time.Second) // says less than what is known
	if left := r.left("10", now); left != 2*time.Minute {
		t.Errorf("a user is refused for %s", left)
	}
	later := now.Add(2 * time.Minute)
	if left := r.left("10", later); left != 0 || r.until.Contains("10") {
		t.Errorf("a user who may call again is known, and refused for %s", left)
	}
}
