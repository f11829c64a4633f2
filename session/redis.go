package session

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
)

// startTime bounds what a new store asks Redis before anybody needs it.
const startTime = 2 * time.Second

// Redis is a Store in a Redis, where a session outlives its owner. The owner's copy of a
// session is the truth for as long as the owner has it: a call in a session that is held
// asks Redis nothing, every change is written there, and from time to time that the session
// was used. What the owner writes is compared with the fence (Deps.Fence): a replica that
// owns the session no more is refused, and drops its copy.
type Redis struct {
	cfg     Config
	db      *redisdb.DB
	log     *slog.Logger
	onEnd   func(key string)
	owner   func(key string) (redisKey, token string) // Deps.Fence
	count   *Metrics
	scripts scripts
	seals   seals
	clock   func() time.Duration // monotonic
	logRoom logRoom
	kept    *Kept
	closed  atomic.Bool
	stop    context.CancelFunc // ends run, for which done waits
	done    sync.WaitGroup

	mu     sync.RWMutex // guards the field below
	copies map[name]*held
}

// NewRedis makes a store. Redis need not be there yet.
func NewRedis(cfg Config, deps Deps) (*Redis, error) {
	start := time.Now()
	return newRedis(cfg, deps, func() time.Duration { return time.Since(start) })
}

func newRedis(cfg Config, deps Deps, clock func() time.Duration) (*Redis, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("sessions: %w", err)
	}
	s := &Redis{
		cfg:     cfg.withDefaults(),
		log:     deps.Log,
		onEnd:   deps.OnEnd,
		owner:   deps.Fence,
		count:   deps.Metrics,
		scripts: newScripts(),
		clock:   clock,
		copies:  make(map[name]*held),
	}
	s.kept = &Kept{s: s, derived: make(map[name]time.Duration)}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.count == nil {
		s.count = NewMetrics(nil)
	}
	if s.onEnd == nil {
		s.onEnd = func(string) {}
	}
	var err error
	if s.seals, err = newSeals(cfg.Secrets()); err != nil {
		return nil, fmt.Errorf("sessions: key: %w", err)
	}
	if s.db, err = redisdb.Open(cfg.Redis, s.log, deps.Redis); err != nil {
		return nil, fmt.Errorf("sessions: redis: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTime)
	defer cancel()
	if policy := s.db.Setting(ctx, "maxmemory-policy"); policy != "" && policy != "noeviction" {
		s.log.Warn("redis may drop sessions and limits when it is full: set its maxmemory-policy to noeviction", "maxmemory-policy", policy)
	}
	running, stop := context.WithCancel(context.Background()) // until Close
	s.stop = stop
	s.done.Go(func() { s.run(running) })
	return s, nil
}

// DB is the Redis itself, for what replicas have in common beside sessions. The store
// closes it.
func (s *Redis) DB() *redisdb.DB { return s.db }

// Kept is what is kept of sessions at servers.
func (s *Redis) Kept() *Kept { return s.kept }

// keys are the names of what belongs to a session, as scripts want them. What is not letters,
// digits, "-", "_" or "." of a user is escaped: it could change which part is the user.
func (s *Redis) keys(n name) []string {
	user := ":{" + url.QueryEscape(n.user) + "}"
	keys := make([]string, 0, len(kinds))
	for _, kind := range kinds {
		key := string(kind) + user
		if kind != 'u' {
			key += ":" + n.id
		}
		keys = append(keys, s.db.Key(key))
	}
	return keys
}

// RecordKey is the key in Redis without which there is no session of that key ("user:id"); ""
// for a derived id, which has none.
func (s *Redis) RecordKey(key string) string {
	n := nameOf(key)
	if !validID(n.id) {
		return ""
	}
	return s.keys(n)[recordKey-1]
}

// step runs a script for a session and returns what that returns. Errors: ErrNotFound,
// ErrMoved, ErrUnavailable.
func (s *Redis) step(ctx context.Context, script *redisdb.Script, n name, args ...any) (any, error) {
	if s.closed.Load() {
		return nil, ErrUnavailable
	}
	keys, token := s.keys(n), ""
	if s.owner != nil {
		var home string
		if home, token = s.owner(n.key()); token != "" {
			keys[0] = home
		}
	}
	value, err := s.db.Run(ctx, script, keys, append([]any{token, n.id, s.ttl().Milliseconds()}, args...)...)
	switch {
	case errors.Is(err, redisdb.ErrValue): // not ours: as if it were not there
		s.log.Error("redis holds something else where a session should be", "error", err)
		return nil, ErrNotFound
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	case value == said0:
		return nil, ErrNotFound
	case value == moved:
		return nil, ErrMoved
	}
	return value, nil
}

// ttl is how long Redis keeps a session after its last use.
func (s *Redis) ttl() time.Duration { return s.cfg.Kept() }

// validID reports whether an id could be one that Create minted. Whatever else clients
// send never gets to Redis.
func validID(id string) bool {
	if len(id) != 26 {
		return false
	}
	for _, c := range []byte(id) {
		if (c < 'A' || c > 'Z') && (c < '2' || c > '7') {
			return false
		}
	}
	return true
}

// Create begins a session; see Store. What is written of it after that needs its
// home. The bound on all sessions counts those that this replica holds. A session that makes room may be another replica's:
// it is deleted with its home, and its owner finds out at its next write or sweep.
func (s *Redis) Create(ctx context.Context, r Record) (Record, error) {
	if r.size() > MaxRecordBytes {
		return Record{}, ErrTooLarge
	}
	if s.Known() >= s.cfg.Max {
		return Record{}, ErrTooMany
	}
	r = r.owned()
	r.ID = rand.Text()
	r.Created = time.Now()
	n := name{r.User, r.ID}
	r.key = n.key()
	value, err := encode(r)
	if err != nil {
		return Record{}, err
	}
	unused := evictable + sweepEvery(s.cfg.IdleTimeout) // of which Redis hears that late
	got, err := s.step(ctx, s.scripts.create, n, s.cfg.most(r.User), unused.Milliseconds(), s.seals.records.SealBytes(value, n.user, n.id))
	if errors.Is(err, ErrNotFound) {
		return Record{}, ErrTooMany
	}
	if err != nil {
		return Record{}, err
	}
	if id, _ := got.(string); id != "" {
		if h := s.copyOf(name{r.User, id}); h != nil {
			s.ended(h, s.count.evicted)
		}
	}
	h := s.newHeld(n)
	h.record.Store(&r)
	s.mu.Lock()
	s.copies[n] = h
	s.mu.Unlock()
	s.count.open(r.Revision)
	return r, nil
}

// Get returns a session and restarts its idle time; see Store.
func (s *Redis) Get(ctx context.Context, user, id string) (Record, error) {
	if s.closed.Load() {
		return Record{}, ErrUnavailable
	}
	n := name{user, id}
	if h := s.copyOf(n); h != nil {
		if r := s.known(h); r != nil {
			return *r, nil
		}
	}
	h, err := s.use(ctx, n)
	if err != nil {
		return Record{}, err
	}
	defer h.done()
	return *h.record.Load(), nil
}

// Update changes a session as one step; see Store.
func (s *Redis) Update(ctx context.Context, user, id string, change func(*Record)) (Record, error) {
	n := name{user, id}
	h, err := s.use(ctx, n)
	if err != nil {
		return Record{}, err
	}
	defer h.done()
	old := h.record.Load()
	r := *old
	change(&r)
	r.User, r.ID, r.Created, r.key = old.User, old.ID, old.Created, old.key
	if r.size() > MaxRecordBytes {
		return Record{}, ErrTooLarge
	}
	r = r.owned() // change may have kept its pointer
	value, err := encode(r)
	if err != nil {
		return Record{}, err
	}
	if before, err := encode(*old); err == nil && !h.unsure && bytes.Equal(before, value) {
		return r, nil
	}
	err = s.write(ctx, h, s.scripts.add, true, recordKey, "v", s.seals.records.SealBytes(value, n.user, n.id))
	unsure := errors.Is(err, ErrUnsure)
	if err == nil || unsure {
		h.record.Store(&r)
		h.unsure = unsure
	}
	if err != nil {
		return Record{}, err
	}
	return r, nil
}

// Delete ends a session; see Store.
func (s *Redis) Delete(ctx context.Context, user, id string) error {
	h, err := s.take(ctx, name{user, id})
	if err != nil {
		return err
	}
	defer h.done()
	return s.end(ctx, h, s.count.deleted, -time.Millisecond)
}

// Drop forgets a session that another replica owns now. Nothing ends, and nobody is called.
func (s *Redis) Drop(key string) {
	n := nameOf(key)
	if h := s.copyOf(n); h != nil {
		s.drop(h)
	}
	s.kept.drop(n)
}

// Known is how many sessions this replica holds.
func (s *Redis) Known() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.copies)
}

// Room returns nil if a session could be begun, as far as Redis is concerned: it answers, and
// takes something new. Errors: ErrUnavailable, with redisdb.ErrFull where that is why.
func (s *Redis) Room(ctx context.Context) error {
	if s.closed.Load() {
		return ErrUnavailable
	}
	if err := s.db.Room(ctx); err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return nil
}

// Log is the event log of the sessions.
func (s *Redis) Log() EventLog { return redisLog{s} }

// Close ends the connections and forgets the copies. The sessions are in Redis for who owns
// them next.
func (s *Redis) Close() error {
	if !s.closed.CompareAndSwap(false, true) {
		return nil
	}
	s.stop()
	s.done.Wait()
	for _, h := range s.all() {
		h.log.close() // whoever follows a stream looks again
	}
	return s.db.Close()
}
