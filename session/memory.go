package session

import (
	"context"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
)

// evictable is how long a session must be unused before it makes room for a new one of its
// user, since many clients never end their sessions. A session with an open stream is in use.
const evictable = time.Minute

// Deps is what a store needs.
type Deps struct {
	// Log may be nil.
	Log *slog.Logger
	// OnEnd is called once for each session that was deleted or idle for too long, with its
	// last record and without a lock held. The record of a session that was never read here has
	// nothing but its user and its id. It delays the caller that ended the session, or noticed
	// that it was idle for too long, so it should not block. For a session that Redis has lost it
	// has a goroutine of its own: whoever noticed may hold a lock. Close waits for it. May be nil.
	OnEnd func(Record)
	// Fence returns the key in Redis that names the owner of a session, and this replica's
	// token there. It takes the session's key. Redis refuses a write of the store unless the
	// two agree. A nil Fence, or an empty token, means that nothing is compared. It is called
	// often and must not block.
	Fence func(key string) (redisKey, token string)
	// Moved is called when Redis has refused a write with this token, with the session's key. It
	// must not block. May be nil.
	Moved func(key, token string)
	// Metrics count sessions, and Redis the commands to Redis. Both may be nil.
	Metrics *Metrics
	Redis   *redisdb.Metrics

	clock func() time.Duration // only tests set it
}

// Memory is a Store in the memory of this process.
type Memory struct {
	sessions

	mu    sync.Mutex // guards the fields below; taken alone or as the innermost lock
	users map[string]map[*held]struct{}
}

// NewMemory makes a store and starts its one goroutine.
func NewMemory(cfg Config, deps Deps) (*Memory, error) {
	m := &Memory{users: make(map[string]map[*held]struct{})}
	if err := m.set(cfg, deps); err != nil {
		return nil, err
	}
	tell := m.onEnd
	m.onEnd = func(h *held) {
		m.mu.Lock()
		own := m.users[h.name.user]
		if delete(own, h); len(own) == 0 {
			delete(m.users, h.name.user)
		}
		m.mu.Unlock()
		tell(h)
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

// Close stops the goroutine, and forgets the sessions without ending them.
func (m *Memory) Close() error {
	m.close()
	return nil
}

// admit begins a session. A user at the bound gets room from a session that is hardly in use any
// more, which admit returns.
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
	if len(own) >= m.cfg.Most(r.User) {
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

// leastUsed returns the least recently used session, ended for its user; nil if it is in use.
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
