package session

import (
	"context"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/home"
)

// Memory is a Store in the memory of this process.
type Memory struct{ sessions }

// NewMemory makes a store and its table.
func NewMemory(cfg Config, deps Deps) (*Memory, error) {
	m := &Memory{}
	if err := m.set(cfg, deps); err != nil {
		return nil, err
	}
	m.open(deps, m, 0)
	return m, nil
}

// Create begins a session; see Store.
func (m *Memory) Create(_ context.Context, r Record) (Record, error) {
	if r.size() > MaxRecordBytes {
		return Record{}, ErrTooLarge
	}
	r = r.minted()
	err := m.homes.Begin(home.Key{User: r.User, ID: r.ID}, func(h *home.Home) { m.attach(h).record.Store(&r) })
	if err != nil {
		return Record{}, err
	}
	m.count.open(r.Revision)
	return r, nil
}

// RecordKey is "": there is no Redis (home.Store).
func (m *Memory) RecordKey(home.Key) string { return "" }

// Load finds nothing: the sessions have their homes from the beginning (home.Store).
func (m *Memory) Load(context.Context, *home.Home) error { return ErrNotFound }

// Keep does nothing (home.Store).
func (m *Memory) Keep(context.Context, *home.Home, time.Duration) error { return nil }

// End does nothing: the session ends with its home (home.Store).
func (m *Memory) End(context.Context, *home.Home, home.Why) error { return nil }

// Close ends the table, and with it all sessions.
func (m *Memory) Close() error {
	m.homes.Close(context.Background())
	return nil
}
