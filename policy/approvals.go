package policy

import (
	"context"
	"sync"
	"time"
)

// Bounds of what is remembered of approvals. What is forgotten is asked for again.
const (
	maxPerUser = 256
	maxKept    = 32_768
)

// Approvals remember, for each user and for a limited time, what was asked and what was
// approved of. Replicas that share one take each other's answers.
type Approvals interface {
	// Put remembers a value.
	Put(ctx context.Context, user, key, value string, ttl time.Duration) error
	// Take returns a value and forgets it: of all who ask for it, one gets it.
	Take(ctx context.Context, user, key string) (value string, ok bool, err error)
	// Has reports whether there is a value.
	Has(ctx context.Context, user, key string) (bool, error)
}

// Memory is Approvals in this process. It is bounded, for each user too, so that one
// user's questions push out no one else's. Its errors are always nil.
type Memory struct {
	mu    sync.Mutex // guards the fields below
	users map[string]map[string]kept
	count int
}

type kept struct {
	value   string
	expires time.Time
}

// NewMemory returns an empty Memory.
func NewMemory() *Memory { return &Memory{users: make(map[string]map[string]kept)} }

// Put remembers a value. Of a user who has too many, the one that would be forgotten
// first goes.
func (m *Memory) Put(_ context.Context, user, key, value string, ttl time.Duration) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if len(m.users[user]) >= maxPerUser {
		m.dropOne(user, now)
	}
	if m.count >= maxKept {
		for other := range m.users {
			m.dropOne(other, now)
			break
		}
	}
	if m.users[user] == nil {
		m.users[user] = make(map[string]kept)
	}
	if _, again := m.users[user][key]; !again {
		m.count++
	}
	m.users[user][key] = kept{value, now.Add(ttl)}
	return nil
}

// Take returns a value and forgets it.
func (m *Memory) Take(_ context.Context, user, key string) (string, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k, ok := m.users[user][key]
	if ok {
		m.drop(user, key)
	}
	return k.value, ok && time.Now().Before(k.expires), nil
}

// Has reports whether there is a value.
func (m *Memory) Has(_ context.Context, user, key string) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k, ok := m.users[user][key]
	if ok && !time.Now().Before(k.expires) {
		m.drop(user, key)
		ok = false
	}
	return ok, nil
}

// dropOne drops what of a user has expired, or else what will first.
func (m *Memory) dropOne(user string, now time.Time) {
	first, dropped := "", false
	for key, k := range m.users[user] {
		if !now.Before(k.expires) {
			m.drop(user, key)
			dropped = true
		} else if first == "" || k.expires.Before(m.users[user][first].expires) {
			first = key
		}
	}
	if !dropped && first != "" {
		m.drop(user, first)
	}
}

func (m *Memory) drop(user, key string) {
	delete(m.users[user], key)
	m.count--
	if len(m.users[user]) == 0 {
		delete(m.users, user)
	}
}
