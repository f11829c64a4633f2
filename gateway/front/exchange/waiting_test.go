package exchange

import (
	"runtime"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/home"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// TestWaiting: a replica that stops gives up the home of a client without a session when nothing of
// the client is under way. A call that waits for an answer counts as running until the answer's own
// request does.
func TestWaiting(t *testing.T) {
	e := newEndpoint(t)
	var key home.Key
	open := func() {
		t.Helper()
		r, err := e.Store.Create(t.Context(), session.Record{User: "u"})
		if err != nil {
			t.Fatal(err)
		}
		key = home.Key{User: "u", ID: r.ID}
	}
	open()
	use := func() *home.Home {
		t.Helper()
		h, err := e.Store.Homes().Use(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	count := func(want int64) {
		t.Helper()
		if got := e.Running.Calls(); got != want {
			t.Errorf("%d count as running, want %d", got, want)
		}
	}
	s := &e.waiting
	called := func(round string) waitingKey { return waitingKey{key.String(), round} }
	h := use()
	e.Running.Begin()
	s.add(h, called("one"), time.Hour)
	h.Done()
	e.Running.Done()
	count(1)
	homes := e.Store.Homes()
	if homes.Release(key) {
		t.Error("a home is given up while a call waits for an answer")
	}
	w := s.take(called("one")) // the answer comes
	if w == nil || w.lost || s.take(called("one")) != nil {
		t.Fatalf("the call that waited: %v", w)
	}
	s.add(w.home, called("two"), time.Hour) // and asks again
	count(2)
	w.home.Done()
	e.Running.Done()
	s.add(h, called("three"), time.Nanosecond)
	for e.Running.Calls() > 1 {
		runtime.Gosched()
	}
	if s.add(h, called("four"), time.Hour); !s.drop(called("four")) || s.drop(called("four")) {
		t.Error("a wait was not ended once")
	}
	count(1)
	h.EndLater(home.Moved)
	<-h.Over()
	for e.Running.Calls() > 0 {
		runtime.Gosched()
	}
	if w = s.take(called("two")); w == nil || !w.lost {
		t.Errorf("the call that waited when its home was taken over: %v", w)
	}
	open()
	h = use()
	s.add(h, called("five"), time.Hour)
	h.Done()
	if s.dropAll() != 1 || s.dropAll() != 0 {
		t.Error("not all waits were ended once")
	}
	if count(0); !homes.Release(key) {
		t.Error("a home for which nothing is under way is not given up")
	}
}
