package session

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
)

// evictable is how long a session was not used that makes room for a new one of its
// user: many clients never end theirs. One whose stream is open is used.
const evictable = time.Minute

// Deps is what a store needs from its owner.
type Deps struct {
	// Log may be nil.
	Log *slog.Logger
	// OnEnd is called once for each session that was deleted or left idle for too
	// long, with its key, and under no lock; nil for nobody. It delays whoever has
	// ended the session, or found that it has: it should not wait for anything.
	OnEnd func(key string)
	// Fence names the key of Redis that says whose a session is, by its key, and what this
	// replica's is marked with there: what the store writes of the session is refused where
	// the two do not agree. nil, or no token, for nothing to compare. It is asked often, and
	// must not wait.
	Fence func(key string) (redisKey, token string)
	// Metrics count sessions, and Redis what is asked of Redis; nil for nobody to know.
	Metrics *Metrics
	Redis   *redisdb.Metrics
}

// Memory is a Store in the memory of this process.
type Memory struct {
	sessions
	began time.Time

	mu    sync.Mutex // guards the fields below; taken alone or inside nothing
	users map[string]map[*held]struct{}
}

// NewMemory makes a store and starts its one goroutine.
func NewMemory(cfg Config, deps Deps) (*Memory, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("sessions: %w", err)
	}
	m := &Memory{began: time.Now(), users: make(map[string]map[*held]struct{})}
	m.sessions.set(cfg, deps)
	m.clock = func() time.Duration { return time.Since(m.began) }
	m.onEnd = func(h *held) {
		m.release(h)
		if deps.OnEnd != nil {
			deps.OnEnd(h.name.key())
		}
	}
	m.start()
	return m, nil
}

// Create begins a session; see Store.
func (m *Memory) Create(_ context.Context, r Record) (Record, error) {
	if r.size() > MaxRecordBytes {
		return Record{}, ErrTooLarge
	}
	r = r.minted()
	old, err := m.admit(&r)
	if err != nil {
		return Record{}, err
	}
	if old != nil {
		m.ended(old, m.count.evicted)
	}
	return r, nil
}

// Close stops the goroutine and forgets the sessions without ending them.
func (m *Memory) Close() error {
	m.close()
	return nil
}

// admit begins a session. A user who has as many as may be gets room by one that is hardly in
// use any more: it is returned, to be evicted.
func (m *Memory) admit(r *Record) (old *held, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed.Load() {
		return nil, ErrUnavailable
	}
	own := m.users[r.User]
	if own == nil {
		own = make(map[*held]struct{})
	}
	if len(own) >= m.cfg.most(r.User) {
		if old = m.leastUsed(own); old == nil {
			return nil, ErrTooMany
		}
		delete(own, old)
	}
	if old == nil && m.Known() >= m.cfg.Max {
		return nil, ErrTooMany
	}
	h := m.newHeld(name{r.User, r.ID})
	m.users[r.User] = own
	own[h] = struct{}{}
	m.begin(h, r)
	return old, nil
}

// release forgets a session of a user that has ended.
func (m *Memory) release(h *held) {
	m.mu.Lock()
	defer m.mu.Unlock()
	own := m.users[h.name.user]
	if delete(own, h); len(own) == 0 {
		delete(m.users, h.name.user)
	}
}

// leastUsed returns the session that was used longest ago, and ends it for its user;
// nil when even that was used just now.
func (m *Memory) leastUsed(own map[*held]struct{}) *held {
	var least *held
	used := int64(math.MaxInt64)
	for h := range own {
		if at := h.used.Load(); at < used {
			least, used = h, at
		}
	}
	if least == nil || used != expired && int64(m.clock())-used < int64(evictable) || !least.used.CompareAndSwap(used, expired) {
		return nil
	}
	return least
}
