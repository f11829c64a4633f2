package session

import (
	"encoding/binary"
	"sync"
)

const (
	// maxLate is how many numbers a letter may be behind the newest of its sender: one that
	// Redis is late with, or is told again to pass on, is. An older one is refused.
	maxLate = 8192
	// maxSenders bounds the replicas that are remembered, each for as long as this one runs:
	// a letter of one that has gone must not be taken again. No more are heard.
	maxSenders = 4096
	// letterHead is the length of a letter's number and its form.
	letterHead = 9
)

// Forms of letters: what is published is the message itself, or the key that it waits at.
const (
	letterWhole byte = iota
	letterLarge
)

// letters remembers which letters of other replicas have come: each is taken once. Redis may
// be told twice to pass one on, as the client library asks again when an answer does not
// come in time, and whoever else can publish there may repeat what they heard.
type letters struct {
	mu      sync.Mutex // guards the fields below
	senders map[string]*window
}

// window is which numbers of a sender have come: all that are maxLate or more behind the
// newest count as if they had.
type window struct {
	newest uint64
	seen   [maxLate / 64]uint64 // a ring of bits
}

// first reports whether a sender's letter with this number has not come before. Numbers
// begin at 1.
func (l *letters) first(sender string, number uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.senders[sender]
	if w == nil {
		if len(l.senders) >= maxSenders {
			return false
		}
		if l.senders == nil {
			l.senders = make(map[string]*window)
		}
		w = &window{}
		l.senders[sender] = w
	}
	return w.first(number)
}

func (w *window) first(number uint64) bool {
	if number == 0 || w.newest >= maxLate && number <= w.newest-maxLate {
		return false
	}
	for w.newest < number {
		if number-w.newest >= maxLate { // none of those before counts any more
			w.newest, w.seen = number, [maxLate / 64]uint64{}
			break
		}
		w.newest++
		w.seen[w.newest%maxLate/64] &^= 1 << (w.newest % 64)
	}
	bit := uint64(1) << (number % 64)
	at := &w.seen[number%maxLate/64]
	if *at&bit != 0 {
		return false
	}
	*at |= bit
	return true
}

// writeLetter writes what is sealed of a letter.
func writeLetter(number uint64, form byte, content []byte) []byte {
	plain := binary.BigEndian.AppendUint64(make([]byte, 0, letterHead+len(content)), number)
	return append(append(plain, form), content...)
}

// readLetter reads it; ok is false for what has no form.
func readLetter(plain []byte) (number uint64, form byte, content []byte, ok bool) {
	if len(plain) < letterHead {
		return 0, 0, nil, false
	}
	return binary.BigEndian.Uint64(plain), plain[letterHead-1], plain[letterHead:], true
}
