package admit

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// length is how many calls wait in these tests.
const length = 4000

// TestOneUserTakesNotAllPlaces: and the share of a user.
func TestOneUserTakesNotAllPlaces(t *testing.T) {
	q := NewQueue(4, 2, 10, 0, nil)
	enter := func(user string) *waiter {
		t.Helper()
		w, ok := q.enter(user)
		if !ok {
			t.Fatalf("%s is refused", user)
		}
		return w
	}
	for range 2 {
		if enter("a") != nil {
			t.Fatal("there is room, and it waits")
		}
	}
	third := enter("a")
	if third == nil {
		t.Fatal("more than the share of a user")
	}
	if enter("b") != nil || enter("c") != nil {
		t.Fatal("others wait although there is room")
	}
	fourth, b, d := enter("a"), enter("b"), enter("d")
	if b == nil || d == nil {
		t.Fatal("more than there are places")
	}
	var order []string
	came := func(user string) {
		t.Helper()
		q.Release(user)
		for name, w := range map[string]*waiter{"a3": third, "a4": fourth, "b": b, "d": d} {
			select {
			case <-w.turn:
				if !slices.Contains(order, name) {
					order = append(order, name)
				}
			default:
			}
		}
	}
	came("c") // a is at its share, d has nothing
	came("b") // then b
	came("a") // its own place
	came("a")
	if want := []string{"d", "b", "a3", "a4"}; !slices.Equal(order, want) {
		t.Errorf("their turns came as %q, want %q", order, want)
	}
	for _, user := range []string{"a", "a", "b", "d"} {
		q.Release(user)
	}
	if running, waiting := q.Size(); running != 0 || waiting != 0 || len(q.users) != 0 {
		t.Errorf("%d run, %d wait, %d users are known, and all have left", running, waiting, len(q.users))
	}
}

func TestOneUserFillsNotTheQueue(t *testing.T) {
	q := NewQueue(2, 1, length, 0, nil)
	for i := range 1 + length/2 {
		if _, ok := q.enter("a"); !ok {
			t.Fatalf("the call %d of the user is refused", i)
		}
	}
	if _, ok := q.enter("a"); ok {
		t.Error("one user has more than half of the queue")
	}
	if w, ok := q.enter("b"); w != nil || !ok {
		t.Error("another one does not get the place that is free")
	}
	if w, ok := q.enter("c"); w == nil || !ok {
		t.Error("there is room in the queue")
	}
	for i := range length - length/2 - 1 {
		if _, ok := q.enter(fmt.Sprint("d", i)); !ok {
			t.Fatal("there is room in the queue")
		}
	}
	if _, ok := q.enter("e"); ok {
		t.Errorf("more than %d wait", length)
	}
}

// TestWithoutAuthenticationThereIsOneUser, who may have all of it.
func TestWithoutAuthenticationThereIsOneUser(t *testing.T) {
	if User(&mcp.Caller{}) != "" || User(&mcp.Caller{Issuer: "https://i", Subject: "a"}) == "" {
		t.Error("users are taken for each other")
	}
	q := NewQueue(4, 1, length, 0, nil)
	for i := range 4 + length {
		if w, ok := q.enter(""); !ok || (w == nil) != (i < 4) {
			t.Fatalf("call %d: waits %t, taken %t", i, w != nil, ok)
		}
	}
	if _, ok := q.enter(""); ok {
		t.Errorf("more than %d wait", length)
	}
}

// TestQueueKeepsItsBounds whatever happens in whatever order, and nobody waits for a place
// that is free.
func TestQueueKeepsItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		places, share := rapid.IntRange(1, 4).Draw(t, "places"), rapid.IntRange(1, 4).Draw(t, "share")
		q := NewQueue(places, share, 100, 0, nil)
		users := []string{"", "a", "b", "c"}
		running := map[string]int{}
		var waiting []*waiter
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			user := rapid.SampledFrom(users).Draw(t, "user")
			switch rapid.IntRange(0, 2).Draw(t, "what") {
			case 0:
				if w, ok := q.enter(user); ok && w == nil {
					running[user]++
				} else if ok {
					waiting = append(waiting, w)
				}
			case 1:
				if running[user] > 0 {
					running[user]--
					q.Release(user)
				}
			case 2:
				if len(waiting) > 0 {
					i := rapid.IntRange(0, len(waiting)-1).Draw(t, "which")
					q.drop(waiting[i])
					waiting = slices.Delete(waiting, i, i+1)
				}
			}
			waiting = slices.DeleteFunc(waiting, func(w *waiter) bool {
				select {
				case <-w.turn:
					running[w.user]++
					return true
				default:
					return false
				}
			})
			all := 0
			for user, n := range running {
				if all += n; user != "" && n > share {
					t.Fatalf("%d calls of one user run, the share is %d", n, share)
				}
			}
			if all > places {
				t.Fatalf("%d calls run in %d places", all, places)
			}
			for _, w := range waiting {
				if all < places && (w.user == "" || running[w.user] < share) {
					t.Fatalf("%q waits for a place that is free", w.user)
				}
			}
		}
	})
}

// TestATurnThatCameTooLate goes to the next one.
func TestATurnThatCameTooLate(t *testing.T) {
	for range 200 {
		q := NewQueue(1, 1, 10, 0, nil)
		q.enter("a")
		first, _ := q.enter("b")
		second, _ := q.enter("c")
		var both sync.WaitGroup
		both.Go(func() { q.Release("a") })
		both.Go(func() { q.drop(first) })
		both.Wait()
		select {
		case <-second.turn:
		default:
			t.Fatal("the place is lost")
		}
	}
}

func BenchmarkQueue(b *testing.B) {
	q := NewQueue(100, 50, length, 0, nil)
	b.ReportAllocs()
	for b.Loop() {
		q.enter("0123456789abcdef0123456789abcdef")
		q.Release("0123456789abcdef0123456789abcdef")
	}
}
