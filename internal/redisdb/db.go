package redisdb

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// A call must not wait for a Redis that does not answer: what it needs is known here,
// or it fails at once.
const (
	dialTimeout = 500 * time.Millisecond
	opTimeout   = 300 * time.Millisecond
	// pause is how long nobody tries again after a Redis that did not answer.
	pause = time.Second
)

// What is wrong where it is not the request.
var (
	// ErrDown: Redis cannot be reached, does not answer, or takes no writes now.
	ErrDown = errors.New("redis is not available")
	// ErrValue: what stands at a key is not what we would have put there.
	ErrValue = errors.New("redis holds a value of another kind")
)

// settings are what the library's defaults would have cost: a deadline that is not kept,
// five attempts to dial, commands at connect that not every server knows.
func settings() *redis.UniversalOptions {
	return &redis.UniversalOptions{
		ContextTimeoutEnabled:    true,
		DialTimeout:              dialTimeout,
		DialerRetries:            1,
		ReadTimeout:              opTimeout,
		WriteTimeout:             opTimeout,
		PoolTimeout:              opTimeout,
		MaxRetries:               1,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

// DB is a Redis. It is safe for concurrent use.
type DB struct {
	client  redis.UniversalClient
	prefix  string
	log     *slog.Logger
	cluster bool

	start time.Time
	until atomic.Int64 // when the pause after a failure ends, in time since start
	down  atomic.Bool  // what the log said last
}

// Open makes a DB. It connects when it is first used.
func Open(cfg Config, log *slog.Logger) (*DB, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	client, err := cfg.client()
	if err != nil {
		return nil, err
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	redis.SetLogger(quiet{}) // the library's own, for the process: what it would say is in our errors
	place, _ := cfg.place()
	db := &DB{client: client, prefix: cfg.Prefix, log: log, cluster: place.cluster, start: time.Now()}
	if db.prefix == "" {
		db.prefix = DefaultPrefix
	}
	return db, nil
}

type quiet struct{}

// Printf drops what the library has to say.
func (quiet) Printf(context.Context, string, ...any) {}

// Close ends all connections.
func (db *DB) Close() error { return db.client.Close() }

// Key is a key of this gateway, or the name of a channel. Keys that one script uses have
// the same part in braces, so that they are on one node of a Cluster.
func (db *DB) Key(name string) string { return db.prefix + name }

// Script is a Lua script that runs as one step.
type Script struct{ script *redis.Script }

// NewScript makes one of its source.
func NewScript(source string) *Script { return &Script{redis.NewScript(source)} }

// Run runs a script and returns what it returns: nil, int64, string or []any. Errors:
// ErrDown, ErrValue, that of ctx, or that the script is wrong.
func (db *DB) Run(ctx context.Context, s *Script, keys []string, args ...any) (any, error) {
	if db.paused() {
		return nil, ErrDown
	}
	value, err := s.script.Run(ctx, db.client, keys, args...).Result()
	return value, db.outcome(ctx, err)
}

// Publish sends a message to whoever listens on a channel.
func (db *DB) Publish(ctx context.Context, channel string, message []byte) error {
	if db.paused() {
		return ErrDown
	}
	return db.outcome(ctx, db.client.Publish(ctx, db.Key(channel), message).Err())
}

// Setting returns a setting of the server, "" if it cannot be known.
func (db *DB) Setting(ctx context.Context, name string) string {
	values, err := db.client.ConfigGet(ctx, name).Result()
	if err != nil {
		return ""
	}
	return values[name]
}

func (db *DB) paused() bool { return int64(time.Since(db.start)) < db.until.Load() }

// outcome sorts what went wrong, and keeps others from waiting for the same.
func (db *DB) outcome(ctx context.Context, err error) error {
	if err == nil || errors.Is(err, redis.Nil) {
		db.up()
		return nil
	}
	if _, answered := errors.AsType[redis.Error](err); answered {
		switch {
		case strings.HasPrefix(err.Error(), "WRONGTYPE"), strings.Contains(err.Error(), "WRONGTYPE"):
			return fmt.Errorf("%w: %v", ErrValue, err)
		case redis.IsReadOnlyError(err), redis.IsLoadingError(err), redis.IsClusterDownError(err), redis.IsMasterDownError(err),
			redis.IsTryAgainError(err), redis.IsOOMError(err), redis.IsMaxClientsError(err), redis.IsAuthError(err), redis.IsPermissionError(err):
		default:
			db.log.Error("redis refuses what it was asked", "error", err)
		}
		db.failed(err)
		return fmt.Errorf("%w: %v", ErrDown, err)
	}
	if ctx.Err() != nil { // its own time was over: that says nothing of Redis
		return fmt.Errorf("%w: %w", ErrDown, ctx.Err())
	}
	if !db.cluster { // there, one node of several may be meant
		db.until.Store(int64(time.Since(db.start) + pause))
	}
	db.failed(err)
	return fmt.Errorf("%w: %v", ErrDown, err)
}

// up and failed say what changed, not what stays.
func (db *DB) up() {
	if db.down.Load() && db.down.CompareAndSwap(true, false) {
		db.log.Info("redis is available again")
	}
}

func (db *DB) failed(err error) {
	if db.down.CompareAndSwap(false, true) {
		db.log.Warn("redis is not available", "error", err)
	}
}
