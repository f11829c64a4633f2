package session

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
)

// startTime bounds the first requests of a new store to Redis.
const startTime = 2 * time.Second

// Redis is a Store in Redis, where a session outlives its owner. Every change is written there,
// and at intervals that the session was used; a call sends nothing. A replica that does not own
// the session any more is refused (Deps.Fence), and drops it.
type Redis struct {
	sessions
	db    *redisdb.DB
	owner func(key string) (redisKey, token string) // Deps.Fence
	moved func(key, token string)                   // Deps.Moved
	seals seals
	kept  *Kept
}

// NewRedis makes a store. Redis need not be reachable yet.
func NewRedis(cfg Config, deps Deps) (*Redis, error) {
	s := &Redis{owner: deps.Fence, moved: deps.Moved}
	if err := s.set(cfg, deps); err != nil {
		return nil, err
	}
	s.kept = &Kept{s: s, derived: make(map[name]time.Duration)}
	s.place = s
	var err error
	if s.seals, err = newSeals(cfg.Secrets()); err != nil {
		return nil, fmt.Errorf("sessions: key: %w", err)
	}
	if s.db, err = redisdb.Open(cfg.Redis, s.log, deps.Redis); err != nil {
		return nil, fmt.Errorf("sessions: redis: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTime)
	defer cancel()
	_ = s.db.Room(ctx) // the log says at once what is wrong with Redis, such as its password
	if policy := s.db.Setting(ctx, "maxmemory-policy"); policy != "" && policy != "noeviction" {
		s.log.Warn("redis may drop sessions and limits when it is full: set its maxmemory-policy to noeviction", failure.StoreEvicts.Attr(), "maxmemory-policy", policy)
	}
	s.start()
	return s, nil
}

// DB is the Redis itself, for what replicas share besides sessions. The store closes it.
func (s *Redis) DB() *redisdb.DB { return s.db }

// Kept returns what is kept of sessions at servers.
func (s *Redis) Kept() *Kept { return s.kept }

// keys returns the keys of a session, in the order that the scripts expect. A user is escaped, so
// that no character changes which part of a key is the user.
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

// RecordKey is the key in Redis that exists if and only if the session of that key ("user:id")
// does.
func (s *Redis) RecordKey(key string) string { return s.keys(nameOf(key))[recordKey-1] }

// step runs a script for a session. Errors: ErrNotFound, ErrMoved, ErrUnavailable.
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
	value, err := s.db.Run(ctx, script, keys, append([]any{token, n.id, s.cfg.Kept().Milliseconds()}, args...)...)
	switch {
	case errors.Is(err, redisdb.ErrValue): // not ours: as if it did not exist
		s.log.Error("redis holds something else where a session should be", failure.StoreForeign.Attr(), "error", err)
		return nil, ErrNotFound
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	case value == none:
		return nil, ErrNotFound
	case value == moved:
		if s.moved != nil {
			s.moved(n.key(), token)
		}
		return nil, ErrMoved
	}
	return value, nil
}

// open opens a value from Redis; ok is false for none, and for one that no replica has sealed for
// this place.
func (s *Redis) open(key *seal.Key, what string, value any, bound ...string) (plain []byte, ok bool) {
	sealed, there := value.(string)
	if !there {
		return nil, false
	}
	plain, err := key.OpenBytes([]byte(sealed), bound...)
	if err != nil {
		s.db.Unopened(what)
	}
	return plain, err == nil
}

// ValidID reports whether Create could have minted an id. No other one gets to Redis.
func ValidID(id string) bool {
	return len(id) == 26 && !strings.ContainsFunc(id, func(r rune) bool { return (r < 'A' || r > 'Z') && (r < '2' || r > '7') })
}

// Create begins a session; see Store. The session has no home yet: the caller must make one
// before anything else is written for the session. Max bounds the sessions that this replica
// holds. A session that makes room may belong to another replica: it is deleted with its home,
// and its owner notices at its next write or sweep.
func (s *Redis) Create(ctx context.Context, r Record) (Record, error) {
	if r.size() > MaxRecordBytes {
		return Record{}, ErrTooLarge
	}
	if s.Known() >= s.cfg.Max {
		return Record{}, ErrTooMany
	}
	r = r.minted()
	n := name{r.User, r.ID}
	unused := evictable + sweepEvery(s.cfg.IdleTimeout) // Redis is told of uses this late
	got, err := s.step(ctx, createScript, n, s.cfg.Most(r.User), unused.Milliseconds(), s.seals.records.SealBytes(encode(r), n.user, n.id))
	switch {
	case errors.Is(err, ErrNotFound): // what is there is not ours
		return Record{}, ErrUnavailable
	case err != nil:
		return Record{}, err
	case got == tooMany:
		return Record{}, ErrTooMany
	}
	id, _ := got.(string) // of the session that has made room; "" for none
	if h := s.get(name{r.User, id}); h != nil {
		s.ended(h, s.count.evicted)
	}
	s.begin(s.newHeld(n), &r)
	return r, nil
}

// Drop forgets a session that another replica owns now, without ending it or calling OnEnd.
func (s *Redis) Drop(key string) {
	n := nameOf(key)
	if h := s.get(n); h != nil {
		s.drop(h)
	}
	s.kept.drop(n)
}

// Close closes the connections. The sessions stay in Redis for their next owners.
func (s *Redis) Close() error {
	if !s.close() {
		return nil
	}
	return s.db.Close()
}
