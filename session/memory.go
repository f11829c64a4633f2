package session

import (
	"context"
	"crypto/rand"
	"fmt"
	"hash/maphash"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
)

// shardCount divides the sessions so that readers of different ones rarely meet.
const shardCount = 256

// evictable is how long a session was not used that makes room for a new one of its
// user: many clients never end theirs. One whose stream is open is used.
const evictable = time.Minute

// Deps is what a store needs from its owner.
type Deps struct {
	// Log may be nil.
	Log *slog.Logger
	// OnEnd is called once for each session that was deleted or left idle for too
	// long, with its key, and under no lock; nil for nobody. It delays the Delete,
	// or the end of other idle sessions: it should not wait for anything.
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
	cfg   Config
	log   *slog.Logger
	onEnd func(key string)
	count *Metrics
	start time.Time // times are kept as nanoseconds since then, by the monotonic clock
	seed  maphash.Seed

	shards  [shardCount]shard
	logRoom logRoom
	closed  atomic.Bool
	stop    chan struct{}
	done    chan struct{}

	mu    sync.Mutex // guards the fields below; taken alone or inside nothing
	users map[string]*owner
	total int
}

// owner is a user who has sessions.
type owner struct {
	sessions map[*entry]struct{} // guarded by Memory.mu
}

type shard struct {
	mu      sync.RWMutex // guards entries, and each entry's record for writing
	entries map[name]*entry
}

type entry struct {
	name    name
	record  *Record // never written to: Update puts another one in its place
	used    lastUse
	owner   *owner // not changed once the session has begun
	streams streams
}

// NewMemory makes a store and starts its one goroutine.
func NewMemory(cfg Config, deps Deps) (*Memory, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("sessions: %w", err)
	}
	m := &Memory{
		cfg:   cfg.withDefaults(),
		log:   deps.Log,
		onEnd: deps.OnEnd,
		count: deps.Metrics,
		start: time.Now(),
		seed:  maphash.MakeSeed(),
		stop:  make(chan struct{}),
		done:  make(chan struct{}),
		users: make(map[string]*owner),
	}
	if m.log == nil {
		m.log = slog.New(slog.DiscardHandler)
	}
	if m.count == nil {
		m.count = NewMetrics(nil)
	}
	if m.onEnd == nil {
		m.onEnd = func(string) {}
	}
	for i := range m.shards {
		m.shards[i].entries = make(map[name]*entry)
	}
	go m.expire()
	return m, nil
}

// Create begins a session; see Store.
func (m *Memory) Create(_ context.Context, r Record) (Record, error) {
	if r.size() > MaxRecordBytes {
		return Record{}, ErrTooLarge
	}
	r = r.owned()
	r.ID = rand.Text()
	r.Created = time.Now()
	r.key = r.User + ":" + r.ID
	e := &entry{name: name{r.User, r.ID}, record: &r, streams: streams{user: r.User, room: &m.logRoom}}
	e.used.Store(m.now())
	old, err := m.reserve(e)
	if err != nil {
		return Record{}, err
	}
	if old != nil {
		m.evict(old)
	}
	s := m.shard(r.ID)
	s.mu.Lock()
	s.entries[e.name] = e
	s.mu.Unlock()
	m.count.open(r.Revision)
	return r, nil
}

// Get returns a session and restarts its idle time; see Store.
func (m *Memory) Get(_ context.Context, user, id string) (Record, error) {
	if m.closed.Load() {
		return Record{}, ErrUnavailable
	}
	s := m.shard(id)
	s.mu.RLock()
	defer s.mu.RUnlock()
	e := s.entries[name{user, id}]
	if e == nil || !e.used.touch(m.now(), m.cfg.IdleTimeout) {
		return Record{}, ErrNotFound
	}
	return *e.record, nil
}

// Update changes a session as one step; see Store.
func (m *Memory) Update(_ context.Context, user, id string, change func(*Record)) (Record, error) {
	if m.closed.Load() {
		return Record{}, ErrUnavailable
	}
	s := m.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[name{user, id}]
	if e == nil || !e.used.touch(m.now(), m.cfg.IdleTimeout) {
		return Record{}, ErrNotFound
	}
	old := e.record
	r := *old
	change(&r)
	r.User, r.ID, r.Created, r.key = old.User, old.ID, old.Created, old.key
	if r.size() > MaxRecordBytes {
		return Record{}, ErrTooLarge
	}
	stored := r.owned() // change may have kept its pointer
	e.record = &stored
	return stored, nil
}

// Delete ends a session; see Store.
func (m *Memory) Delete(_ context.Context, user, id string) error {
	if m.closed.Load() {
		return ErrUnavailable
	}
	s := m.shard(id)
	s.mu.Lock()
	e := s.entries[name{user, id}]
	if e == nil || !e.used.touch(m.now(), m.cfg.IdleTimeout) {
		s.mu.Unlock()
		return ErrNotFound // one that is idle for too long is ended by expire
	}
	delete(s.entries, name{user, id})
	s.mu.Unlock()
	m.ended(e, m.count.deleted)
	return nil
}

// Log is the event log of the sessions.
func (m *Memory) Log() EventLog { return memoryLog{m} }

// Close stops the goroutine and forgets the sessions without ending them.
func (m *Memory) Close() error {
	if m.closed.CompareAndSwap(false, true) {
		close(m.stop)
	}
	<-m.done
	return nil
}

// Known is how many sessions there are.
func (m *Memory) Known() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.total
}

// reserve counts a session that is about to begin. A user who has as many as may be
// gets room by one that is hardly in use any more: it is returned, to be evicted.
func (m *Memory) reserve(e *entry) (old *entry, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed.Load() {
		return nil, ErrUnavailable
	}
	own := m.users[e.name.user]
	if own == nil {
		own = &owner{sessions: make(map[*entry]struct{})}
	}
	if len(own.sessions) >= m.cfg.most(e.name.user) {
		if old = m.leastUsed(own.sessions); old == nil {
			return nil, ErrTooMany
		}
		delete(own.sessions, old)
	}
	if old == nil && m.total >= m.cfg.Max {
		return nil, ErrTooMany
	}
	m.users[e.name.user] = own
	own.sessions[e], e.owner = struct{}{}, own
	m.total++
	return old, nil
}

// leastUsed returns the session that was used longest ago, and ends it for its user;
// nil when even that was used just now.
func (m *Memory) leastUsed(own map[*entry]struct{}) *entry {
	var least *entry
	used := int64(math.MaxInt64)
	for e := range own {
		if at := e.used.Load(); at < used {
			least, used = e, at
		}
	}
	if least == nil || used != expired && m.now()-used < int64(evictable) || !least.used.CompareAndSwap(used, expired) {
		return nil
	}
	return least
}

// evict takes a session out that leastUsed ended, unless expire does at the moment.
func (m *Memory) evict(e *entry) {
	s := m.shard(e.name.id)
	s.mu.Lock()
	there := s.entries[e.name] == e
	if there {
		delete(s.entries, e.name)
	}
	s.mu.Unlock()
	if there {
		m.ended(e, m.count.evicted)
	}
}

// ended does what is to be done, once, for a session that was taken out of its
// shard.
func (m *Memory) ended(e *entry, why cause) {
	why.Inc()
	m.mu.Lock()
	m.total--
	if delete(e.owner.sessions, e); len(e.owner.sessions) == 0 && m.users[e.name.user] == e.owner {
		delete(m.users, e.name.user)
	}
	m.mu.Unlock()
	e.streams.close()
	m.onEnd(e.record.key)
}

// expire ends idle sessions until the store is closed. A session is gone for its
// user at its time; only what follows from that can be late, by one tick.
func (m *Memory) expire() {
	defer close(m.done)
	tick := time.NewTicker(sweepEvery(m.cfg.IdleTimeout))
	defer tick.Stop()
	for {
		select {
		case <-m.stop:
			return
		case <-tick.C:
		}
		count := 0
		for i := range m.shards {
			idle := m.takeIdle(&m.shards[i])
			for _, e := range idle {
				m.ended(e, m.count.idle)
			}
			count += len(idle)
		}
		if count > 0 {
			m.log.Debug("idle sessions ended", "count", count)
		}
	}
}

// takeIdle takes the idle sessions out of a shard and has the others forget their
// old streams.
func (m *Memory) takeIdle(s *shard) (idle []*entry) {
	now := m.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for n, e := range s.entries {
		if !e.used.alive(now, m.cfg.IdleTimeout) {
			delete(s.entries, n)
			idle = append(idle, e)
			continue
		}
		e.streams.forget(now)
	}
	return idle
}

func (m *Memory) shard(id string) *shard {
	return &m.shards[maphash.String(m.seed, id)%shardCount]
}

// now is the time since the store began: the monotonic clock, so that a clock set
// forward ends no session.
func (m *Memory) now() int64 { return int64(time.Since(m.start)) }
