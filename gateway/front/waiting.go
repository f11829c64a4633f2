package front

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/home"
)

// waiting are the calls of clients without sessions that wait here for answers. A waiting call counts like a running request and uses its client's home, so that a replica that stops
// waits for the answer. There are none in a gateway alone.
type waiting struct {
	counted *lifecycle

	mu    sync.Mutex // guards the fields below
	calls map[waitingKey]*waitingCall
}

// waitingKey names a waiting call: its client, as home.Key.String does, and its mcp.Round.
type waitingKey struct{ client, round string }

type waitingCall struct {
	home   *home.Home
	timer  *time.Timer // ends the wait
	detach func() bool
	lost   bool // another replica has taken the home over, and the call was given up: it does not count
}

// add makes a call of a request, which still runs, wait for an answer, at most for limit.
func (s *waiting) add(h *home.Home, key waitingKey, limit time.Duration) {
	s.drop(key) // the same question once more
	h.Again()
	s.counted.countMore()
	w := &waitingCall{home: h}
	s.mu.Lock()
	s.calls[key] = w
	w.timer = time.AfterFunc(limit, func() { s.drop(key) })
	s.mu.Unlock()
	detach := h.Attach(func(home.Why) { s.lose(key, w) })
	s.mu.Lock()
	w.detach = detach
	s.mu.Unlock()
}

// take ends the wait of a call whose answer has come, nil for one that does not wait here. The
// caller takes over its count, unless it is lost, and its use of the home.
func (s *waiting) take(key waitingKey) *waitingCall {
	s.mu.Lock()
	w := s.calls[key]
	delete(s.calls, key)
	var detach func() bool
	if w != nil {
		w.timer.Stop()
		detach = w.detach
	}
	s.mu.Unlock()
	if detach != nil {
		detach()
	}
	return w
}

// drop ends the wait of a call whose answer nobody sends any more, and reports whether it counted.
func (s *waiting) drop(key waitingKey) bool {
	w := s.take(key)
	if w == nil || w.lost {
		return false
	}
	w.home.Done()
	s.counted.done()
	return true
}

// lose gives a waiting call up whose home is over. Whoever brings the answer is told that the call is
// lost.
func (s *waiting) lose(key waitingKey, w *waitingCall) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls[key] == w && !w.lost {
		w.lost = true
		s.counted.done()
	}
}

// dropAll ends the waits of all calls, and returns how many there were.
func (s *waiting) dropAll() (calls int) {
	s.mu.Lock()
	keys := slices.Collect(maps.Keys(s.calls))
	s.mu.Unlock()
	for _, key := range keys {
		if s.drop(key) {
			calls++
		}
	}
	return calls
}
