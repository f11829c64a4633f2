package session

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/home"
	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
)

const (
	// startTime bounds the first requests of a new store to Redis.
	startTime = 2 * time.Second
	// unowned is a token that no replica has.
	unowned = "-"
)

// Redis is a Store in Redis, where a session outlives its owner. Every change is written there,
// and at intervals that the session was used; a call sends nothing. A replica that does not own
// the session any more is refused, and its home of the session is over.
type Redis struct {
	sessions
	db     *redisdb.DB
	seals  seals
	room   rate.Sometimes // limits how often a full Redis is asked whether there is room
	closed atomic.Bool
}

// NewRedis makes a store, without its table. Redis need not be reachable yet.
func NewRedis(cfg Config, deps Deps) (*Redis, error) {
	s := &Redis{}
	if err := s.set(cfg, deps); err != nil {
		return nil, err
	}
	s.place = s
	s.room = rate.Sometimes{Interval: home.SweepEvery(s.cfg.IdleTimeout)}
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
		s.log.Warn("redis may drop sessions and limits when it is full: set its maxmemory-policy to noeviction",
			failure.StoreEvicts.Attr(), "maxmemory-policy", policy)
	}
	return s, nil
}

// Open opens the table of the sessions. deps.Homes.Owners knows their owners.
func (s *Redis) Open(deps Deps) { s.open(deps, s, s.cfg.Kept()) }

// DB is the Redis itself, for what replicas share besides sessions. The store closes it.
func (s *Redis) DB() *redisdb.DB { return s.db }

// Keeper returns what is kept of sessions at servers.
func (s *Redis) Keeper() Keeper { return Keeper{s} }

// keys returns the keys of a session, in the order that the scripts expect. A user is escaped, so
// that no character changes which part of a key is the user.
func (s *Redis) keys(k home.Key) []string {
	user := ":{" + url.QueryEscape(k.User) + "}"
	keys := make([]string, 0, len(kinds))
	for _, kind := range kinds {
		key := string(kind) + user
		if kind != 'u' {
			key += ":" + k.ID
		}
		keys = append(keys, s.db.Key(key))
	}
	return keys
}

// RecordKey is the key in Redis that exists if and only if the session does.
func (s *Redis) RecordKey(k home.Key) string { return s.keys(k)[recordKey-1] }

// step runs a script for a session with the token of its home. Errors: ErrNotFound, ErrMoved,
// ErrUnavailable.
func (s *Redis) step(ctx context.Context, script *redisdb.Script, k home.Key, token string, args ...any) (any, error) {
	if s.closed.Load() {
		return nil, ErrUnavailable
	}
	value, err := s.db.Run(ctx, script, s.keys(k), append([]any{token, k.ID, s.cfg.Kept().Milliseconds()}, args...)...)
	switch {
	case errors.Is(err, redisdb.ErrValue): // not ours: as if it did not exist
		s.log.Error("redis holds something else where a session should be", failure.StoreForeign.Attr(), "error", err)
		return nil, ErrNotFound
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	case value == none:
		return nil, ErrNotFound
	case value == moved:
		return nil, ErrMoved
	}
	return value, nil
}

// open opens a value from Redis; ok is false for none, and for one that no replica has sealed for
// this place.
func (s *Redis) unseal(key *seal.Key, what string, value any, bound ...string) (plain []byte, ok bool) {
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

// Create begins a session; see Store. It has no home yet: the replica that gets its first request
// opens it. A session that makes room may belong to another replica: it is deleted with its home,
// and its owner notices at its next write or sweep.
func (s *Redis) Create(ctx context.Context, r Record) (Record, error) {
	if r.size() > MaxRecordBytes {
		return Record{}, ErrTooLarge
	}
	if s.homes.Len() >= s.cfg.Max {
		return Record{}, ErrTooMany
	}
	r = r.minted()
	k := home.Key{User: r.User, ID: r.ID}
	unused := home.Evictable + home.SweepEvery(s.cfg.IdleTimeout) // Redis learns of uses this late
	got, err := s.step(ctx, createScript, k, "", s.cfg.Most(r.User), unused.Milliseconds(),
		s.seals.records.SealBytes(encode(r), k.User, k.ID))
	switch {
	case errors.Is(err, ErrNotFound): // what is there is not ours
		return Record{}, ErrUnavailable
	case err != nil:
		return Record{}, err
	case got == tooMany:
		return Record{}, ErrTooMany
	}
	id, _ := got.(string) // of the session that has made room; "" for none
	if h := s.homes.Known(home.Key{User: r.User, ID: id}); h != nil {
		h.EndLater(home.Evicted)
	}
	s.count.open(r.Revision)
	return r, nil
}

// Close closes the connections. The sessions stay in Redis for their next owners.
func (s *Redis) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	if s.homes != nil {
		now, cancel := context.WithCancel(context.Background())
		cancel()
		s.homes.Close(now)
	}
	return s.db.Close()
}
