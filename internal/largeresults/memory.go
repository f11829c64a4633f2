package largeresults

import (
	"context"
	"sync"
	"time"
)

// Memory keeps results in the memory of this process. It is safe for concurrent use.
type Memory struct {
	most Bounds // with defaults

	mu     sync.Mutex // guards the fields below
	kept   map[place]*result
	users  map[string]usage
	all    usage
	closed bool
}

// place is where a result is kept.
type place struct{ user, id string }

type result struct {
	value  []byte
	until  time.Time
	expiry *time.Timer
}

// NewMemory returns an empty store.
func NewMemory(most Bounds) *Memory {
	return &Memory{most: most.withDefaults(), kept: make(map[place]*result), users: make(map[string]usage)}
}

// Keep keeps a result of a user for ttl, in place of the one with the same id. The caller does
// not change value any more. kept is false if there is no room. The error is always nil.
func (m *Memory) Keep(_ context.Context, user, id string, value []byte, ttl time.Duration) (kept bool, err error) {
	at := place{user, id}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return false, nil
	}
	was, size := m.kept[at], int64(len(value))
	count := 1
	if was != nil {
		count, size = 0, size-int64(len(was.value))
	}
	if !m.users[user].plus(count, size).within(m.most.of(user)) ||
		!m.all.plus(count, size).within(usage{m.most.Max, m.most.MaxBytes}) {
		return false, nil
	}
	if was != nil {
		m.remove(at, was)
	}
	one := &result{value: value, until: time.Now().Add(ttl)}
	one.expiry = time.AfterFunc(ttl, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.kept[at] == one {
			m.remove(at, one)
		}
	})
	m.kept[at] = one
	m.users[user] = m.users[user].plus(1, int64(len(value)))
	m.all = m.all.plus(1, int64(len(value)))
	return true, nil
}

// Load returns a result of a user, not to be modified; nil for none. The error is always nil.
func (m *Memory) Load(_ context.Context, user, id string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	one := m.kept[place{user, id}]
	if one == nil || !time.Now().Before(one.until) {
		return nil, nil
	}
	return one.value, nil
}

// remove forgets a result. The caller holds mu.
func (m *Memory) remove(at place, one *result) {
	one.expiry.Stop()
	delete(m.kept, at)
	m.all = m.all.plus(-1, -int64(len(one.value)))
	left := m.users[at.user].plus(-1, -int64(len(one.value)))
	if m.users[at.user] = left; left.count == 0 {
		delete(m.users, at.user)
	}
}

// Close forgets everything, and keeps nothing from then on.
func (m *Memory) Close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	for at, one := range m.kept {
		m.remove(at, one)
	}
}
