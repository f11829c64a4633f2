package gateway

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestLifecycleStop(t *testing.T) {
	l := &lifecycle{log: slog.New(slog.DiscardHandler)}
	var order []string
	for _, name := range []string{"first", "second", "third"} {
		l.onStop(name, func(context.Context) error {
			order = append(order, name)
			if name == "first" {
				return nil
			}
			return errors.New("no " + name)
		})
	}
	err := l.stop(t.Context())
	if got := strings.Join(order, " "); got != "third second first" {
		t.Errorf("order %q, want the last in to be the first out", got)
	}
	if want := "stopping third: no third\nstopping second: no second"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if err := l.stop(t.Context()); err != nil || len(order) != 3 {
		t.Errorf("second stop: %v, %q; want nothing to do", err, order)
	}
}

// TestLifecycleLateSteps: a step that uses up all the time leaves the later ones a little, so
// that they can still kill and close.
func TestLifecycleLateSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lifecycle{log: slog.New(slog.DiscardHandler)}
		wait := func(ctx context.Context) error { <-ctx.Done(); return nil }
		l.onStop("killed", wait)
		l.onStop("late", wait)
		l.onStop("slow", wait)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		start := time.Now()
		if err := l.stop(ctx); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took != 10*time.Second+2*stepGrace {
			t.Errorf("took %s, want the time given and %s for each step after it", took, stepGrace)
		}
	})
}

// TestLifecycleStuckStep: a step that never ends does not keep the later ones from being undone.
func TestLifecycleStuckStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		l := &lifecycle{log: slog.New(slog.NewTextHandler(&log, nil))}
		freed, closed := make(chan struct{}), false
		defer close(freed)
		l.onStop("file", func(context.Context) error { closed = true; return nil })
		l.onStop("knot", func(context.Context) error { <-freed; return nil })
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		start := time.Now()
		if err := l.stop(ctx); !errors.Is(err, errStuck) || !strings.Contains(err.Error(), "stopping knot") {
			t.Errorf("got %v, want the step that does not end by name", err)
		}
		if took := time.Since(start); !closed || took != 10*time.Second+overrun {
			t.Errorf("after %s, the next step has run: %t", took, closed)
		}
		if !strings.Contains(log.String(), "GH-STOP-UNCLEAN part=knot") {
			t.Errorf("log: %s", &log)
		}
	})
}
