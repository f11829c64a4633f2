package redisdb

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// A call must not wait long for a Redis that does not answer: what it needs is known here,
// or it fails. An operation takes two seconds at most, a try and another: less would take a
// busy machine for an outage.
const (
	dialTimeout = 500 * time.Millisecond
	opTimeout   = time.Second
	// poolTimeout is how long an operation waits for its turn.
	poolTimeout = 2 * time.Second
	// pause is how long nobody tries again after a Redis that did not answer anybody.
	pause = time.Second
	// calm is for how long nothing fails before the log says that all is well again: a
	// Redis that takes no writes answers other things all the time.
	calm = 5 * time.Second
	// sealedEvery is how often the log says that something could not be opened.
	sealedEvery = time.Minute
)

// What is wrong where it is not the request.
var (
	// ErrDown: Redis cannot be reached, does not answer, or takes no writes now.
	ErrDown = errors.New("redis is not available")
	// ErrUnsure, beside ErrDown: the answer did not come, and it may have been done.
	ErrUnsure = errors.New("it may have been done")
	// ErrFull, beside ErrDown: Redis has no room for anything new, and does all else.
	ErrFull = errors.New("redis is full")
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
		PoolTimeout:              poolTimeout,
		MaxRetries:               1,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

// DB is a Redis. It is safe for concurrent use.
type DB struct {
	client  redis.UniversalClient
	user    *user
	prefix  string
	log     *slog.Logger
	metrics *Metrics
	cluster bool
	room    *Script

	start  time.Time
	until  atomic.Int64 // when the pause after a failure ends, in time since start; 0 for none
	failed atomic.Int64 // when something failed last, likewise
	spoke  atomic.Int64 // when Redis answered last, likewise
	down   atomic.Bool  // what the log said last
	full   atomic.Bool  // from what was refused for want of room until something is taken
	sealed atomic.Int64 // when the log may next say that something could not be opened, in time since start
}

// Open makes a DB. It connects when it is first used. log and metrics may be nil.
func Open(cfg Config, log *slog.Logger, metrics *Metrics) (*DB, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	user := &user{}
	user.set(cfg)
	client, err := cfg.client(user)
	if err != nil {
		return nil, err
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if metrics == nil {
		metrics = NewMetrics(nil)
	}
	redis.SetLogger(quiet{}) // the library's own, for the process: what it would say is in our errors
	place, _ := cfg.place()
	db := &DB{client: client, user: user, prefix: cfg.Prefix, log: log, metrics: metrics, cluster: place.cluster,
		room: NewScript(roomSource), start: time.Now()}
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

// Key is a key of this gateway. Keys that one script uses have
// the same part in braces, so that they are on one node of a Cluster.
func (db *DB) Key(name string) string { return db.prefix + name }

// Script is a Lua script that runs as one step.
type Script struct {
	script *redis.Script
	adds   bool // a Redis that is full does not run it
}

// NewScript makes one of its source. Its first line is that of Redis 7's scripts, such as
// "#!lua flags=allow-oom".
func NewScript(source string) *Script {
	flags, _, _ := strings.Cut(source, "\n")
	return &Script{redis.NewScript(source), !strings.Contains(flags, "allow-oom")}
}

// Run runs a script and returns what it returns: nil, int64, string or []any. Errors:
// ErrDown, with ErrUnsure, ErrFull or that of ctx where they apply, and ErrValue.
func (db *DB) Run(ctx context.Context, s *Script, keys []string, args ...any) (any, error) {
	if db.paused() {
		db.metrics.notAsked.Inc()
		return nil, ErrDown
	}
	defer db.metrics.since(time.Now())
	began := db.now()
	value, err := s.script.Run(ctx, db.client, keys, args...).Result()
	if s.adds && (err == nil || errors.Is(err, redis.Nil)) {
		db.full.Store(false)
	}
	return value, db.outcome(ctx, began, err)
}

// Room returns nil if something new could be put there now, else as Run. It puts nothing
// there. Of a Cluster it asks one node.
func (db *DB) Room(ctx context.Context) error {
	_, err := db.Run(ctx, db.room, []string{db.Key("room")})
	return err
}

// Full reports whether something was refused for want of room, and nothing taken since:
// somebody has to try, with Room if with nothing else.
func (db *DB) Full() bool { return db.full.Load() }

// roomSource does nothing. Redis refuses it all the same where it would refuse a script
// that adds something: its flags do not say that it adds nothing.
const roomSource = `#!lua
return 1`

// Setting returns a setting of the server, "" if it cannot be known.
func (db *DB) Setting(ctx context.Context, name string) string {
	values, err := db.client.ConfigGet(ctx, name).Result()
	if err != nil {
		return ""
	}
	return values[name]
}

// paused reports whether nobody is to ask now. When a pause is over, the first to come
// finds out for all whether Redis answers.
func (db *DB) paused() bool {
	until := db.until.Load()
	if until == 0 {
		return false
	}
	now := db.now()
	return now < until || !db.until.CompareAndSwap(until, now+int64(pause))
}

func (db *DB) now() int64 { return int64(time.Since(db.start)) }

// outcome sorts what went wrong with an operation, and keeps others from waiting for the
// same.
func (db *DB) outcome(ctx context.Context, began int64, err error) error {
	if err == nil || errors.Is(err, redis.Nil) {
		db.spoke.Store(db.now())
		db.until.Store(0)
		db.well()
		return nil
	}
	_, answered := errors.AsType[redis.Error](err)
	if answered {
		db.spoke.Store(db.now())
	}
	switch {
	case answered && strings.Contains(err.Error(), "WRONGTYPE"):
		db.until.Store(0)
		db.metrics.values.Inc()
		return fmt.Errorf("%w: %v", ErrValue, err)
	case !answered && ctx.Err() != nil: // its own time was over: that says nothing of Redis
		return fmt.Errorf("%w: %w: %w", ErrDown, ErrUnsure, ctx.Err())
	case errors.Is(err, redis.ErrPoolTimeout): // there is more to do than can be done
		db.metrics.unavailable.Inc()
		return fmt.Errorf("%w: %v", ErrDown, err)
	case !answered && db.spoke.Load() > began: // it is slow, and not away: others were answered
		db.metrics.unavailable.Inc()
		return fmt.Errorf("%w: %w: %v", ErrDown, ErrUnsure, err)
	case db.cluster: // one node of several may be meant
	case !answered || servesNobody(err):
		db.until.Store(db.now() + int64(pause))
	default:
		db.until.Store(0)
	}
	if redis.IsOOMError(err) {
		db.full.Store(true)
		db.ill(err)
		return fmt.Errorf("%w: %w: %v", ErrDown, ErrFull, err)
	}
	db.ill(err)
	if dial, _ := errors.AsType[*net.OpError](err); answered || dial != nil && dial.Op == "dial" {
		return fmt.Errorf("%w: %v", ErrDown, err)
	}
	return fmt.Errorf("%w: %w: %v", ErrDown, ErrUnsure, err)
}

// servesNobody reports whether a server that answers this has nothing better for anybody.
func servesNobody(err error) bool {
	return redis.IsReadOnlyError(err) || redis.IsLoadingError(err) || redis.IsMasterDownError(err) || redis.IsMaxClientsError(err) || redis.IsAuthError(err)
}

// expected reports whether an answer is one that a server in trouble gives.
func expected(err error) bool {
	return servesNobody(err) || redis.IsNoReplicasError(err) || redis.IsClusterDownError(err) ||
		redis.IsTryAgainError(err) || redis.IsPermissionError(err)
}

// Unopened is told that a sealed value could not be opened: a replica with another key has
// sealed it, or somebody has changed, moved or made it. what says of what kind it was.
func (db *DB) Unopened(what string) {
	db.metrics.sealed.Inc()
	now, next := db.now(), db.sealed.Load()
	if now >= next && db.sealed.CompareAndSwap(next, now+int64(sealedEvery)) {
		db.log.Error("redis holds what no replica with this sessions.key has sealed for its place: it is not used", "what", what)
	}
}

// well and ill say what changed, not what stays.
func (db *DB) well() {
	if db.down.Load() && !db.full.Load() && db.now()-db.failed.Load() > int64(calm) && db.down.CompareAndSwap(true, false) {
		db.metrics.up.Set(1)
		db.log.Info("redis is available again")
	}
}

func (db *DB) ill(err error) {
	db.failed.Store(db.now())
	db.metrics.unavailable.Inc()
	if !db.down.CompareAndSwap(false, true) {
		return
	}
	db.metrics.up.Set(0)
	if redis.IsOOMError(err) {
		db.log.Warn("redis is full: no session can begin", "error", err)
		return
	}
	if _, answered := errors.AsType[redis.Error](err); answered && !expected(err) {
		db.log.Error("redis refuses what it was asked", "error", err)
		return
	}
	db.log.Warn("redis is not available", "error", err)
}
