package session

import "sync"

const (
	// letterMark is how much of a message tells it from others: senders seal each with bytes
	// of its own at the beginning.
	letterMark = 48
	// maxLetters is how many messages are remembered. One that comes twice does so within
	// the time limits of Redis.
	maxLetters = 8192
)

// letters remembers messages of other replicas. Redis may be told twice to pass one on: when
// its answer does not come in time, the client library asks again.
type letters struct {
	mu    sync.Mutex // guards the fields below
	known map[string]struct{}
	order []string // a ring
	next  int
}

// twice reports whether a message has come before.
func (l *letters) twice(message string) bool {
	mark := message[:min(len(message), letterMark)]
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.known[mark]; ok {
		return true
	}
	if l.known == nil {
		l.known = make(map[string]struct{}, maxLetters)
	}
	mark = string(append([]byte(nil), mark...)) // without the rest of the message
	if len(l.order) < maxLetters {
		l.order = append(l.order, mark)
	} else {
		delete(l.known, l.order[l.next])
		l.order[l.next] = mark
		l.next = (l.next + 1) % maxLetters
	}
	l.known[mark] = struct{}{}
	return false
}
