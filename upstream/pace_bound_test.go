package upstream

import (
	"strconv"
	"testing"
	"time"
)

// TestH175_PaceIsBounded: of no more clients than that it is known what they were asked, and
// those go first whose minute is over.
func TestH175_PaceIsBounded(t *testing.T) {
	var p pace
	now := time.Now()
	take := func(session string, worth time.Duration) bool {
		ok, _ := p.take(session, now, worth)
		return ok
	}
	const long = 10
	for i := range long {
		take("long "+strconv.Itoa(i), time.Minute)
	}
	for i := range maxPaced - long {
		take("short "+strconv.Itoa(i), time.Second)
	}
	if len(p.asked) != maxPaced {
		t.Fatalf("H/175 %d clients are known, want %d", len(p.asked), maxPaced)
	}

	now = now.Add(2 * time.Second)
	take("new", time.Minute)
	if len(p.asked) != long+1 {
		t.Errorf("H/175 %d clients are known, want those alone whose minute lasts", len(p.asked))
	}
	for i := range long {
		if take("long "+strconv.Itoa(i), time.Minute) {
			t.Errorf("H/175 it was forgotten what client %d was asked", i)
		}
	}

	// Where nobody's minute is over one of them makes room; who is refused takes none.
	for i := range maxPaced + 50 {
		if !take("many "+strconv.Itoa(i), time.Minute) {
			t.Fatalf("H/175 client %d cannot be asked at all", i)
		}
		if len(p.asked) > maxPaced {
			t.Fatalf("H/175 %d clients are known, want %d at most", len(p.asked), maxPaced)
		}
	}
	known := len(p.asked)
	if take("too much at once", time.Minute+1) || len(p.asked) != known {
		t.Errorf("H/175 who was refused is known: %d clients, want %d", len(p.asked), known)
	}
}
