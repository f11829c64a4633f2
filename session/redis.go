package session

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
)

const (
	// copyLife is how long a replica serves a session from its own copy without asking
	// Redis, which hears of the session's use that seldom.
	copyLife = 5 * time.Second
	// joinTime bounds how long a new store waits for Redis to listen to it.
	joinTime = 2 * time.Second
	// updateTries is how often a change is tried that others get in front of.
	updateTries = 100
)

// Redis is a Store that replicas of the gateway have in common. Each has copies of the
// sessions that it serves, which are good for a few seconds, or, while Redis cannot be
// asked, for as long as a session may be idle.
type Redis struct {
	cfg    Config
	db     *redisdb.DB
	bus    *redisdb.Bus
	log    *slog.Logger
	onEnd  func(key string)
	onMail func(message []byte)
	onJoin func()
	count  *Metrics
	// onBindings takes what other replicas say of bindings
	onBindings func(message []byte)
	self       string // the name of this replica
	scripts    scripts
	seals      seals
	clock      func() time.Duration // monotonic
	words      atomic.Uint64        // how many word has given out
	presence   *presence
	closed     atomic.Bool
	stop       chan struct{}
	done       sync.WaitGroup
	following  sync.WaitGroup // what messages have set off; grows only while the bus is open

	letters     letters       // of other replicas
	sent        atomic.Uint64 // how many letters this one has numbered
	collecting  chan struct{} // one token for each large message that is being fetched
	uncollected atomic.Int64  // how many wait for that, or for their turn

	mu      sync.RWMutex // guards the fields below
	copies  map[name]*held
	telling map[name]chan struct{}   // closed when it was told that this session has ended
	waits   map[string]chan struct{} // closed when a stream of this session has news
	missed  map[missedStream]bool    // streams of which an event could not be kept
	unended map[missedStream]bool    // those that could not be ended
}

// held is this replica's copy of a session, from the moment on that it asks for it.
type held struct {
	name     name
	updating chan struct{} // holds one token: who changes the session takes it
	askers   int           // how many ask Redis for it; guarded by Redis.mu

	mu      sync.Mutex // guards the fields below
	record  *Record    // nil until Redis has answered
	checked time.Duration
	stale   bool
	changes int // how often it was said to be stale
	used    time.Duration
	ended   bool

	confirmed time.Duration // when Redis last had the session
	newest    uint64        // the position of the newest event that is known here

	appending chan struct{} // holds one token: who adds an event takes it
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
		cfg:    cfg.withDefaults(),
		log:    deps.Log,
		onEnd:  deps.OnEnd,
		onMail: deps.OnMail,
		onJoin: deps.OnJoin,
		count:  deps.Metrics,

		onBindings: deps.OnBindings,
		self:       strings.ToLower(rand.Text()[:12]),
		scripts:    newScripts(),
		clock:      clock,
		stop:       make(chan struct{}),

		collecting: make(chan struct{}, maxLarge),

		copies:  make(map[name]*held),
		telling: make(map[name]chan struct{}),
		waits:   make(map[string]chan struct{}),
		missed:  make(map[missedStream]bool),
		unended: make(map[missedStream]bool),
	}
	s.presence = newPresence(s)
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.count == nil {
		s.count = NewMetrics(nil)
	}
	if s.onEnd == nil {
		s.onEnd = func(string) {}
	}
	if s.onMail == nil {
		s.onMail = func([]byte) {}
	}
	if s.onJoin == nil {
		s.onJoin = func() {}
	}
	if s.onBindings == nil {
		s.onBindings = func([]byte) {}
	}
	var err error
	if s.seals, err = newSeals(cfg.Secrets()); err != nil {
		return nil, fmt.Errorf("sessions: key: %w", err)
	}
	if s.db, err = redisdb.Open(cfg.Redis, s.log, deps.Redis); err != nil {
		return nil, fmt.Errorf("sessions: redis: %w", err)
	}
	s.bus = s.db.Listen(redisdb.Hearing{Message: s.hear, Joined: s.joined, Lost: s.doubt}, broadcast, channelOf(s.self))
	s.done.Go(s.run)
	ctx, cancel := context.WithTimeout(context.Background(), joinTime)
	defer cancel()
	s.bus.WaitFirst(ctx)
	s.presence.beat() // before anything runs here that others may follow
	s.done.Go(s.presence.run)
	if policy := s.db.Setting(ctx, "maxmemory-policy"); policy != "" && policy != "noeviction" {
		s.log.Warn("redis may drop sessions and limits when it is full: set its maxmemory-policy to noeviction", "maxmemory-policy", policy)
	}
	return s, nil
}

// DB is the Redis itself, for what replicas have in common beside sessions. The store
// closes it.
func (s *Redis) DB() *redisdb.DB { return s.db }

// keyOf are the names of what belongs to a session. What is not letters, digits, "-",
// "_" or "." of a user is escaped: it could change which part is the user.
func (s *Redis) keyOf(kind string, n name, more ...string) string {
	key := kind + ":{" + url.QueryEscape(n.user) + "}"
	if kind != "u" {
		key += ":" + n.id
	}
	for _, m := range more {
		key += ":" + m
	}
	return s.db.Key(key)
}

// step runs a script for a session. The arguments that all have stand before args.
func (s *Redis) step(ctx context.Context, script *redisdb.Script, n name, keys []string, args ...any) (any, error) {
	if s.closed.Load() {
		return nil, ErrUnavailable
	}
	first := []any{s.db.Key(""), n.user + ":" + n.id, "{" + url.QueryEscape(n.user) + "}", n.id}
	value, err := s.db.Run(ctx, script, keys, append(first, args...)...)
	switch {
	case errors.Is(err, redisdb.ErrValue): // not ours: as if it were not there
		s.log.Error("redis holds something else where a session should be", "error", err)
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return value, nil
}

// ttl is how long Redis keeps a session after it last heard of its use. It hears of it
// late, so that a session may last a little longer than it should, never shorter.
func (s *Redis) ttl() int64 { return (s.cfg.IdleTimeout + copyLife).Milliseconds() }

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

// Create begins a session; see Store. The bound on all sessions counts those that this
// replica has a copy of.
func (s *Redis) Create(ctx context.Context, r Record) (Record, error) {
	if r.size() > MaxRecordBytes {
		return Record{}, ErrTooLarge
	}
	if s.full() {
		return Record{}, ErrTooMany
	}
	r = r.owned()
	r.ID = rand.Text()
	r.Created = time.Now()
	r.key = r.User + ":" + r.ID
	n := name{r.User, r.ID}
	value, err := encode(r)
	if err != nil {
		return Record{}, err
	}
	value = s.seals.records.SealBytes(value, n.user, n.id)
	var victim, victimKey string
	for range 5 {
		keys := []string{s.keyOf("s", n), s.keyOf("u", n), s.keyOf("s", n)}
		if victim != "" {
			keys[2] = s.keyOf("s", name{r.User, victim})
			victimKey = r.User + ":" + victim
		}
		got, err := s.step(ctx, s.scripts.create, n, keys, value, s.ttl(), s.cfg.most(r.User), evictable.Milliseconds(), victim, victimKey)
		if err != nil {
			return Record{}, err
		}
		switch got := got.(type) {
		case int64:
			if got == 0 {
				return Record{}, ErrTooMany
			}
			if victim != "" {
				s.endedHere(ctx, name{r.User, victim}, s.count.deleted)
			}
			s.begin(n, &r)
			s.count.open(r.Revision)
			return r, nil
		case string:
			victim = got
		default:
			return Record{}, ErrUnavailable
		}
	}
	return Record{}, ErrTooMany
}

// Get returns a session and restarts its idle time; see Store.
func (s *Redis) Get(ctx context.Context, user, id string) (Record, error) {
	if s.closed.Load() {
		return Record{}, ErrUnavailable
	}
	n := name{user, id}
	if h := s.copyOf(n); h != nil {
		if r := h.fresh(s.clock()); r != nil {
			return *r, nil
		}
	}
	r, _, err := s.fetch(ctx, n)
	return r, err
}

// fetch asks Redis for a session, and how often it has changed. Where Redis cannot tell,
// a session that is known here goes on, without that number.
func (s *Redis) fetch(ctx context.Context, n name) (Record, string, error) {
	if !validID(n.id) || n.user == "" {
		return Record{}, "", ErrNotFound
	}
	h, err := s.hold(n)
	if err != nil {
		return Record{}, "", err
	}
	defer s.letGo(h)
	changes := h.asked()
	kept, err := s.ask(ctx, n)
	if errors.Is(err, seal.ErrInvalid) { // perhaps only the answer to another question
		s.db.Unopened("session")
		if kept, err = s.ask(ctx, n); errors.Is(err, seal.ErrInvalid) {
			err = ErrNotFound
		}
	}
	switch {
	case errors.Is(err, ErrNotFound):
		s.ended(n, s.count.gone)
		return Record{}, "", ErrNotFound
	case err != nil:
		if r := h.known(s.clock(), s.cfg.IdleTimeout); r != nil && !s.closed.Load() {
			return *r, "", nil
		}
		return Record{}, "", fmt.Errorf("%w: %w", ErrUnavailable, err)
	case !h.learn(kept, changes, s.clock()):
		return Record{}, "", ErrNotFound // it ended meanwhile
	}
	return *kept.record, kept.version, nil
}

// kept is what Redis has of a session.
type kept struct {
	record  *Record
	version string // how often it has changed
	newest  uint64 // the position of its newest event
}

// ask gets a session from Redis. Errors: ErrNotFound, also for what cannot be read,
// ErrUnavailable, seal.ErrInvalid.
func (s *Redis) ask(ctx context.Context, n name) (kept, error) {
	got, err := s.step(ctx, s.scripts.get, n, []string{s.keyOf("s", n), s.keyOf("u", n), s.keyOf("i", n)}, s.ttl())
	if err != nil {
		return kept{}, err
	}
	fields, _ := got.([]any)
	if len(fields) != 3 {
		return kept{}, ErrNotFound
	}
	value, _ := fields[0].(string)
	version, _ := fields[1].(string)
	newest, _ := fields[2].(string)
	plain, err := s.seals.records.OpenBytes([]byte(value), n.user, n.id)
	if err != nil {
		return kept{}, err
	}
	r, err := decode(plain, n)
	if err != nil {
		s.log.Error("redis holds a session that cannot be read", "error", err)
		return kept{}, ErrNotFound
	}
	seq, _ := strconv.ParseUint(newest, 10, 64)
	return kept{r, version, seq}, nil
}

// Update changes a session as one step; see Store.
func (s *Redis) Update(ctx context.Context, user, id string, change func(*Record)) (Record, error) {
	n := name{user, id}
	if _, _, err := s.fetch(ctx, n); err != nil { // also whether there is one
		return Record{}, err
	}
	h := s.copyOf(n)
	if h == nil {
		return Record{}, ErrNotFound
	}
	select {
	case h.updating <- struct{}{}: // of this replica's changes one at a time
		defer func() { <-h.updating }()
	case <-ctx.Done():
		return Record{}, fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
	}
	for range updateTries {
		old, version, err := s.fetch(ctx, n)
		if err != nil {
			return Record{}, err
		}
		if version == "" {
			return Record{}, ErrUnavailable
		}
		r := old
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
		if before, err := encode(old); err == nil && bytes.Equal(before, value) {
			return r, nil
		}
		value = s.seals.records.SealBytes(value, n.user, n.id)
		got, err := s.step(ctx, s.scripts.update, n, []string{s.keyOf("s", n)}, value, version, s.self)
		if err != nil {
			return Record{}, err
		}
		switch got {
		case nil:
			s.ended(n, s.count.gone)
			return Record{}, ErrNotFound
		case int64(1):
			h.replace(&r, s.clock())
			return r, nil
		}
	}
	return Record{}, fmt.Errorf("%w: the session is changed by too many at a time", ErrUnavailable)
}

// Delete ends a session; see Store. All replicas hear of it.
func (s *Redis) Delete(ctx context.Context, user, id string) error {
	n := name{user, id}
	if s.closed.Load() {
		return ErrUnavailable
	}
	if !validID(id) || user == "" {
		return ErrNotFound
	}
	got, err := s.remove(ctx, n, s.word())
	if err != nil {
		return err
	}
	if got != int64(1) {
		s.ended(n, s.count.deleted)
		return ErrNotFound
	}
	s.endedHere(ctx, n, s.count.deleted)
	return nil
}

// remove ends a session for who asks with this word, and again: the client library asks
// twice when an answer does not come in time.
func (s *Redis) remove(ctx context.Context, n name, word string) (any, error) {
	return s.step(ctx, s.scripts.remove, n, []string{s.keyOf("s", n), s.keyOf("u", n), s.keyOf("d", n)}, word, endedTime.Milliseconds())
}

// Known is how many sessions this replica has copies of.
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

// Close ends the connections and forgets the copies. Sessions go on at other replicas.
func (s *Redis) Close() error {
	if !s.closed.CompareAndSwap(false, true) {
		return nil
	}
	close(s.stop)
	s.bus.Close()
	s.done.Wait()
	s.following.Wait()
	s.presence.resign()
	s.wakeAll()
	return s.db.Close()
}
