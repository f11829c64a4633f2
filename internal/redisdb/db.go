package redisdb

import (
	"context"
	"crypto/fips140"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
)

// A request must not wait long for a Redis that does not answer: it goes on with what is
// known here, or it fails. An operation takes at most two seconds, for a try and one retry.
// With a shorter limit a busy machine would look like an outage.
const (
	dialTimeout = 500 * time.Millisecond
	opTimeout   = time.Second
	// poolTimeout is how long an operation waits for a free connection.
	poolTimeout = 2 * time.Second
	// pause is how long all operations fail at once after Redis has failed to answer.
	pause = time.Second
	// calm is how long nothing may fail before the log says that Redis is available again.
	// A Redis that takes no writes still answers other operations.
	calm = 5 * time.Second
	// sealedEvery is the shortest time between two log lines about values that cannot be
	// opened.
	sealedEvery = time.Minute
)

// Errors of Run that are no fault of the request.
var (
	// ErrDown means that Redis cannot be reached, does not answer, or accepts no writes
	// now.
	ErrDown = errors.New("redis is not available")
	// ErrUnsure comes with ErrDown when no answer arrived: Redis may have run the script.
	ErrUnsure = errors.New("it may have been done")
	// ErrFull comes with ErrDown when Redis has no memory for new data. All else still
	// works.
	ErrFull = errors.New("redis is full")
	// ErrValue means that a key holds a value of a type that the gateway does not write
	// there.
	ErrValue = errors.New("redis holds a value of another kind")
)

// settings replaces those defaults of the library that do harm: it ignores the deadline of
// the context, dials five times, and sends commands on connect that some servers do not
// know.
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

// DB is a connection to Redis. It is safe for concurrent use.
type DB struct {
	client  redis.UniversalClient
	user    *user
	prefix  string
	log     *slog.Logger
	metrics *Metrics
	cluster bool
	room    *Script

	start  time.Time
	until  atomic.Int64 // end of the pause after a failure, in time since start; 0 for none
	failed atomic.Int64 // last failure, in time since start
	spoke  atomic.Int64 // last answer of Redis, in time since start
	down   atomic.Bool  // the log said last that Redis is not available
	full   atomic.Bool  // Redis has refused a write for lack of memory and accepted none since
	sealed atomic.Int64 // earliest next log line about a value that cannot be opened, in time since start
}

// Open makes a DB. It connects on first use. log and metrics may be nil.
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
	redis.SetLogger(quiet{}) // global to the process; our errors already contain what it would log
	place, _ := cfg.place()
	db := &DB{client: client, user: user, prefix: cfg.Prefix, log: log, metrics: metrics, cluster: place.cluster,
		room: NewScript(roomSource), start: time.Now()}
	if db.prefix == "" {
		db.prefix = DefaultPrefix
	}
	return db, nil
}

type quiet struct{}

// Printf drops the message.
func (quiet) Printf(context.Context, string, ...any) {}

// Close closes all connections.
func (db *DB) Close() error { return db.client.Close() }

// Key returns the name of a key, with the prefix of this gateway. All keys of one script
// must share a part in braces, so that they are on the same node of a Cluster.
func (db *DB) Key(name string) string { return db.prefix + name }

// Script is a Lua script that Redis runs atomically.
type Script struct {
	script *redis.Script
	adds   bool // a full Redis refuses to run it
}

// NewScript makes a Script. The first line of source is a Redis 7 shebang. A script without
// the flag allow-oom there counts as one that adds data. Redis names scripts by SHA-1, which secures
// nothing here, so FIPS 140 has nothing to say about it.
func NewScript(source string) *Script {
	flags, _, _ := strings.Cut(source, "\n")
	s := &Script{adds: !strings.Contains(flags, "allow-oom")}
	fips140.WithoutEnforcement(func() { s.script = redis.NewScript(source) })
	return s
}

// Run runs a script and returns its result: nil, int64, string or []any. The error is
// ErrValue, or ErrDown together with ErrUnsure, ErrFull or the error of ctx where they
// apply.
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

// Room returns nil if Redis would accept new data now, else an error as Run does. It writes
// nothing. In a Cluster it asks only one node.
func (db *DB) Room(ctx context.Context) error {
	_, err := db.Run(ctx, db.room, []string{db.Key("room")})
	return err
}

// Full reports whether Redis has refused a write for lack of memory and accepted none
// since. It stays true until some operation tries again; Room is enough for that.
func (db *DB) Full() bool { return db.full.Load() }

// roomSource does nothing. Its flags do not say that it adds no data, so Redis refuses it
// whenever it would refuse a script that does.
const roomSource = `#!lua
return 1`

// Setting returns a configuration setting of the server, "" if it cannot be read.
func (db *DB) Setting(ctx context.Context, name string) string {
	values, err := db.client.ConfigGet(ctx, name).Result()
	if err != nil {
		return ""
	}
	return values[name]
}

// paused reports whether an operation has to fail at once. When a pause ends, the first
// caller goes to Redis; the others keep failing until it has an answer.
func (db *DB) paused() bool {
	until := db.until.Load()
	if until == 0 {
		return false
	}
	now := db.now()
	return now < until || !db.until.CompareAndSwap(until, now+int64(pause))
}

func (db *DB) now() int64 { return int64(time.Since(db.start)) }

// outcome turns an error of the library into one of ours, and starts or ends the pause.
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
	case !answered && ctx.Err() != nil: // the caller's time ran out: this says nothing about Redis
		return fmt.Errorf("%w: %w: %w", ErrDown, ErrUnsure, ctx.Err())
	case errors.Is(err, redis.ErrPoolTimeout): // every connection is busy
		db.metrics.unavailable.Inc()
		return fmt.Errorf("%w: %v", ErrDown, err)
	case !answered && db.spoke.Load() > began: // slow, but not down: others have had an answer since
		db.metrics.unavailable.Inc()
		return fmt.Errorf("%w: %w: %v", ErrDown, ErrUnsure, err)
	case db.cluster: // this may be about one node of several
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

// servesNobody reports whether a server that answers with err would refuse every client.
func servesNobody(err error) bool {
	return redis.IsReadOnlyError(err) || redis.IsLoadingError(err) || redis.IsMasterDownError(err) ||
		redis.IsMaxClientsError(err) || redis.IsAuthError(err)
}

// expected reports whether err is a usual answer of a server in trouble.
func expected(err error) bool {
	return servesNobody(err) || redis.IsNoReplicasError(err) || redis.IsClusterDownError(err) ||
		redis.IsTryAgainError(err) || redis.IsPermissionError(err)
}

// Unopened counts and logs a sealed value that could not be opened: a replica with another key
// sealed it, or it was changed, moved or forged. what is the kind of value.
func (db *DB) Unopened(what string) {
	db.metrics.sealed.Inc()
	now, next := db.now(), db.sealed.Load()
	if now >= next && db.sealed.CompareAndSwap(next, now+int64(sealedEvery)) {
		db.log.Error("redis holds what no replica with this sessions.key has sealed for its place: it is not used",
			failure.StoreForeign.Attr(), "what", what)
	}
}

// well and ill log changes of the state only.
func (db *DB) well() {
	if db.down.Load() && !db.full.Load() && db.now()-db.failed.Load() > int64(calm) &&
		db.down.CompareAndSwap(true, false) {
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
		db.log.Warn("redis is full: no session can begin", failure.StoreFull.Attr(), "error", err)
		return
	}
	if _, answered := errors.AsType[redis.Error](err); answered && !expected(err) {
		db.log.Error("redis refuses what it was asked", failure.StoreRefused.Attr(), "error", err)
		return
	}
	db.log.Warn("redis is not available", failure.StoreDown.Attr(), "error", err)
}
