package policy

import (
	"context"
	"sync"
	"time"
)

// Bounds of stored approvals. The user is asked again for an approval that was dropped.
const (
	maxPerUser = 256
	maxKept    = 32_768
)

// Approvals stores, for a limited time, what each user was asked and what they approved. Replicas
// that share a store accept each other's answers.
type Approvals interface {
	// Put stores a value for ttl.
	Put(ctx context.Context, user, key, value string, ttl time.Duration) error
	// Take returns a value and deletes it: of several concurrent callers, one gets it.
	Take(ctx context.Context, user, key string) (value string, ok bool, err error)
	// Has reports whether there is a value.
	Has(ctx context.Context, user, key string) (bool, error)
}

// Memory is an Approvals in this process. It is bounded in all and for each user, so that one
// user's questions cannot displace those of others. Its errors are always nil.
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

// Put stores a value for ttl. If the user has too many values, it drops the one that expires
// first.
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

// Take returns a value and deletes it.
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

// dropOne drops the user's expired values, or else the one that expires first.
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
