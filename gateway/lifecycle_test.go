package gateway

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/upstream"
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

// TestLifecycleIsBounded: however many steps do not end, the stop does, and the step that ends
// processes has had its time.
func TestLifecycleIsBounded(t *testing.T) {
	for name, end := range map[string]func(context.Context) (context.Context, context.CancelFunc){
		"its time runs out": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 10*time.Second)
		},
		"it is cancelled": func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithTimeout(ctx, time.Hour)
			time.AfterFunc(10*time.Second, cancel)
			return ctx, cancel
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &lifecycle{log: slog.New(slog.DiscardHandler)}
				freed := make(chan struct{})
				defer close(freed)
				stuck := func(context.Context) error { <-freed; return nil }
				for range 3 {
					l.onStop("after", stuck)
				}
				killed := false
				l.onStopSlow("processes", processesEnd, func(ctx context.Context) error {
					<-ctx.Done()
					time.Sleep(upstream.Overtime)
					killed = true
					return nil
				})
				for range 9 {
					l.onStop("before", stuck)
				}
				ctx, cancel := end(t.Context())
				defer cancel()
				start := time.Now()
				if err := l.stop(ctx); !errors.Is(err, errStuck) {
					t.Error(err)
				}
				if took, most := time.Since(start), 10*time.Second+windUp+9*moment; took > most || !killed {
					t.Errorf("took %s, want at most %s; the processes have ended: %t", took, most, killed)
				}
			})
		})
	}
}

// TestLifecycleLastMoment: a step that begins just before the end has no less time than one that
// begins after it.
func TestLifecycleLastMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lifecycle{log: slog.New(slog.DiscardHandler)}
		var got time.Duration
		l.onStop("late", func(ctx context.Context) error {
			start := time.Now()
			<-ctx.Done()
			got = time.Since(start)
			return nil
		})
		l.onStop("slow", func(context.Context) error { time.Sleep(10*time.Second - time.Millisecond); return nil })
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := l.stop(ctx); err != nil || got != stepGrace {
			t.Errorf("%v, after %s", err, got)
		}
	})
}
