package redisdb

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
)

// refusal is an error that Redis answers with.
type refusal string

func (r refusal) Error() string { return string(r) }
func (refusal) RedisError()     {}

// asking counts how many of ten operations may go to Redis.
func asking(db *DB) (count int) {
	for range 10 {
		if !db.paused() {
			count++
		}
	}
	return count
}

// While Redis does not answer, one operation a second finds out whether it does
// again. All others fail at once.
func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &DB{start: time.Now(), metrics: NewMetrics(nil), log: slog.New(slog.DiscardHandler)}
		want := func(what string, want int) {
			t.Helper()
			if got := asking(db); got != want {
				t.Errorf("%s: %d of 10 ask, want %d", what, got, want)
			}
		}
		want("at first", 10)
		for what, err := range map[string]error{"no answer": errors.New("i/o timeout"),
			"read-only": refusal("READONLY You can't write")} {
			_ = db.outcome(t.Context(), db.now(), err)
			want(what, 0)
			time.Sleep(pause)
			want(what+", after a pause", 1)
			time.Sleep(pause)
			want(what+", where the one who asked never came back", 1)
			_ = db.outcome(t.Context(), db.now(), nil)
			want(what+", and then an answer", 10)
		}
		_ = db.outcome(t.Context(), db.now(), refusal("OOM command not allowed"))
		want("full, which still answers other things", 10)
	})
}

// The log reports trouble once, however many operations fail and even if some
// succeed.
func TestLogIsCalm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		db := &DB{start: time.Now(), metrics: NewMetrics(nil), log: slog.New(slog.NewTextHandler(&log, nil))}
		for range 100 {
			_ = db.outcome(t.Context(), db.now(), refusal("NOREPLICAS Not enough good replicas"))
			_ = db.outcome(t.Context(), db.now(), nil)
			time.Sleep(calm / 2)
		}
		if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), "redis is not available") {
			t.Errorf("%d lines:\n%s", n, log.String())
		}
		time.Sleep(calm)
		_ = db.outcome(t.Context(), db.now(), nil)
		_ = db.outcome(t.Context(), db.now(), nil)
		if n := strings.Count(log.String(), "\n"); n != 2 || !strings.Contains(log.String(), "redis is available again") {
			t.Errorf("%d lines:\n%s", n, log.String())
		}
		_ = db.outcome(t.Context(), db.now(), refusal("MISCONF cannot persist"))
		if !strings.Contains(log.String(), "level=ERROR") {
			t.Errorf("what nobody expects:\n%s", log.String())
		}
	})
}

// A busy machine is no outage. An operation that takes too long while Redis answers others,
// or that waits too long for a connection, fails alone and starts no pause.
func TestSlowIsNotAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &DB{start: time.Now(), metrics: NewMetrics(nil), log: slog.New(slog.DiscardHandler)}
		began := db.now()
		time.Sleep(opTimeout / 2)
		_ = db.outcome(t.Context(), db.now(), nil)
		time.Sleep(opTimeout / 2)
		if err := db.outcome(t.Context(), began, errors.New("i/o timeout")); !errors.Is(err, ErrDown) ||
			!errors.Is(err, ErrUnsure) {
			t.Errorf("what took too long: %v", err)
		}
		if n := asking(db); n != 10 {
			t.Errorf("while Redis answers others %d of 10 may ask it", n)
		}
		began = db.now()
		time.Sleep(poolTimeout)
		if err := db.outcome(t.Context(), began, redis.ErrPoolTimeout); !errors.Is(err, ErrDown) ||
			errors.Is(err, ErrUnsure) {
			t.Errorf("what never had its turn: %v", err)
		}
		if n := asking(db); n != 10 {
			t.Errorf("while many wait for their turn %d of 10 may ask", n)
		}
		_ = db.outcome(t.Context(), began, errors.New("i/o timeout"))
		if n := asking(db); n != 0 {
			t.Errorf("nobody was answered meanwhile, and %d of 10 wait, too", n)
		}
	})
}

// An operation takes at most two seconds when Redis does not answer, and one
// when Redis cannot be reached, whatever the library's defaults are.
func TestLimitsOfTheClient(t *testing.T) {
	o := settings()
	tries := time.Duration(o.MaxRetries + 1)
	if !o.ContextTimeoutEnabled || o.MaxRetries < 0 || o.DialerRetries < 1 {
		t.Errorf("the library's own settings hold: %+v", o)
	}
	for what, waits := range map[string]time.Duration{"an answer": tries * o.ReadTimeout,
		"taking a request": tries * o.WriteTimeout, "a turn": o.PoolTimeout} {
		if waits <= 0 || waits > 2*time.Second {
			t.Errorf("for %s: %s", what, waits)
		}
	}
	if waits := tries * time.Duration(o.DialerRetries) * o.DialTimeout; waits <= 0 || waits > time.Second {
		t.Errorf("for a connection: %s", waits)
	}
}
