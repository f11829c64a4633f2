package redisdb

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// refusal is an error that Redis answers.
type refusal string

func (r refusal) Error() string { return string(r) }
func (refusal) RedisError()     {}

// asking counts who of many may ask.
func asking(db *DB) (count int) {
	for range 10 {
		if !db.paused() {
			count++
		}
	}
	return count
}

// H/179: while Redis does not answer, one a second finds out whether it does again, and all
// others do not wait.
func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &DB{start: time.Now(), metrics: NewMetrics(nil), log: slog.New(slog.DiscardHandler)}
		want := func(what string, want int) {
			t.Helper()
			if got := asking(db); got != want {
				t.Errorf("H/179 %s: %d of 10 ask, want %d", what, got, want)
			}
		}
		want("at first", 10)
		for what, err := range map[string]error{"no answer": errors.New("i/o timeout"), "read-only": refusal("READONLY You can't write")} {
			_ = db.outcome(t.Context(), err)
			want(what, 0)
			time.Sleep(pause)
			want(what+", after a pause", 1)
			time.Sleep(pause)
			want(what+", where the one who asked never came back", 1)
			_ = db.outcome(t.Context(), nil)
			want(what+", and then an answer", 10)
		}
		_ = db.outcome(t.Context(), refusal("OOM command not allowed"))
		want("H/185 full, which still answers other things", 10)
	})
}

// H/180: the log says once that Redis is in trouble, however often it is asked, and some of
// it answered.
func TestLogIsCalm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		db := &DB{start: time.Now(), metrics: NewMetrics(nil), log: slog.New(slog.NewTextHandler(&log, nil))}
		for range 100 {
			_ = db.outcome(t.Context(), refusal("NOREPLICAS Not enough good replicas"))
			_ = db.outcome(t.Context(), nil)
			time.Sleep(calm / 2)
		}
		if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), "redis is not available") {
			t.Errorf("H/180 %d lines:\n%s", n, log.String())
		}
		time.Sleep(calm)
		_ = db.outcome(t.Context(), nil)
		_ = db.outcome(t.Context(), nil)
		if n := strings.Count(log.String(), "\n"); n != 2 || !strings.Contains(log.String(), "redis is available again") {
			t.Errorf("%d lines:\n%s", n, log.String())
		}
		_ = db.outcome(t.Context(), refusal("MISCONF cannot persist"))
		if !strings.Contains(log.String(), "level=ERROR") {
			t.Errorf("what nobody expects:\n%s", log.String())
		}
	})
}
