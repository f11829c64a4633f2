package kept

import (
	"bytes"
	"context"
	"errors"
	"slices"
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
	mu  sync.Mutex // guards the fields below
	all *simplelru.LRU[string, entry]
	of  *simplelru.LRU[string, []string] // by owner, the oldest first
}

func newMemory(most int) *memory {
	all, err := simplelru.NewLRU[string, entry](most, nil)
	of, ownersErr := simplelru.NewLRU[string, []string](most, nil)
	if err = errors.Join(err, ownersErr); err != nil {
		panic("kept: a store needs room for a value: " + err.Error())
	}
	return &memory{all: all, of: of}
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
	mine, _ := m.of.Get(owner)
	mine = slices.DeleteFunc(mine, func(one string) bool { return one == name || !m.all.Contains(one) })
	mine = append(mine, name)
	over := max(0, len(mine)-each)
	gone := slices.Clone(mine[:over])
	m.of.Add(owner, mine[over:])
	return gone, nil
}

func (m *memory) drop(_ context.Context, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all.Remove(name)
	return nil
}
