package expiring

import (
	"bytes"
	"context"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// entry is a value in memory.
type entry struct {
	value []byte
	until time.Time
}

// memory keeps values for this process alone.
type memory struct {
	mu     sync.Mutex // guards the fields below
	all    *simplelru.LRU[string, entry]
	owners map[string]string                           // by name; of values that have one
	of     map[string]*simplelru.LRU[string, struct{}] // the names of an owner, the oldest first
}

func newMemory(most int) *memory {
	m := &memory{owners: make(map[string]string), of: make(map[string]*simplelru.LRU[string, struct{}])}
	m.all = newLRU(most, func(name string, _ entry) { m.disown(name) })
	return m
}

func newLRU[V any](most int, gone func(string, V)) *simplelru.LRU[string, V] {
	l, err := simplelru.NewLRU(most, gone)
	if err != nil {
		panic("expiring: a store needs room for a value: " + err.Error())
	}
	return l
}

// disown takes a value away from its owner, if it has one. The caller holds mu.
func (m *memory) disown(name string) {
	owner, has := m.owners[name]
	if !has {
		return
	}
	delete(m.owners, name)
	if m.of[owner].Remove(name); m.of[owner].Len() == 0 {
		delete(m.of, owner)
	}
}

// find returns a value that has not ended. The caller holds mu.
func (m *memory) find(name string) ([]byte, bool) {
	e, known := m.all.Get(name)
	if known && !time.Now().Before(e.until) {
		m.all.Remove(name)
		known = false
	}
	return e.value, known
}

func (m *memory) put(_ context.Context, name string, value []byte, life time.Duration) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all.Add(name, entry{value, time.Now().Add(life)})
	return nil
}

func (m *memory) add(_ context.Context, name string, value []byte, life time.Duration) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.find(name); known {
		return false, nil
	}
	m.all.Add(name, entry{value, time.Now().Add(life)})
	return true, nil
}

func (m *memory) get(_ context.Context, name string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	value, known := m.find(name)
	if !known {
		return nil, ErrNone
	}
	return bytes.Clone(value), nil
}

func (m *memory) take(_ context.Context, name string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	value, known := m.find(name)
	if !known {
		return nil, ErrNone
	}
	m.all.Remove(name)
	return value, nil
}

func (m *memory) swap(_ context.Context, name string, old, value []byte, life time.Duration) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now, known := m.find(name); !known || !bytes.Equal(now, old) {
		return false, nil
	}
	m.all.Add(name, entry{value, time.Now().Add(life)})
	return true, nil
}

func (m *memory) claim(_ context.Context, owner, name string, each int, _ time.Duration) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.disown(name)
	mine := m.of[owner]
	if mine == nil {
		mine = newLRU[struct{}](each+1, nil)
		m.of[owner] = mine
	}
	mine.Add(name, struct{}{})
	m.owners[name] = owner
	if mine.Len() <= each {
		return nil, nil
	}
	oldest, _, _ := mine.GetOldest()
	return []string{oldest}, nil
}

func (m *memory) drop(_ context.Context, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all.Remove(name)
	m.disown(name) // it may not have been there yet
	return nil
}
