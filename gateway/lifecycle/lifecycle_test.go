package lifecycle

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

func TestStop(t *testing.T) {
	l := &List{Log: slog.New(slog.DiscardHandler)}
	var order []string
	for _, name := range []string{"first", "second", "third"} {
		l.OnStop(name, func(context.Context) error {
			order = append(order, name)
			if name == "first" {
				return nil
			}
			return errors.New("no " + name)
		})
	}
	err := l.Stop(t.Context())
	if got := strings.Join(order, " "); got != "third second first" {
		t.Errorf("order %q, want the last in to be the first out", got)
	}
	if want := "stopping third: no third\nstopping second: no second"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if err := l.Stop(t.Context()); err != nil || len(order) != 3 {
		t.Errorf("second stop: %v, %q; want nothing to do", err, order)
	}
}

// TestLateSteps: a step that uses up all the time leaves the later ones a little, so
// that they can still kill and close.
func TestLateSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &List{Log: slog.New(slog.DiscardHandler)}
		wait := func(ctx context.Context) error { <-ctx.Done(); return nil }
		l.OnStop("killed", wait)
		l.OnStop("late", wait)
		l.OnStop("slow", wait)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		start := time.Now()
		if err := l.Stop(ctx); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took != 10*time.Second+2*StepGrace {
			t.Errorf("took %s, want the time given and %s for each step after it", took, StepGrace)
		}
	})
}

// TestStuckStep: a step that never ends does not keep the later ones from being undone.
func TestStuckStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		l := &List{Log: slog.New(slog.NewTextHandler(&log, nil))}
		freed, closed := make(chan struct{}), false
		defer close(freed)
		l.OnStop("file", func(context.Context) error { closed = true; return nil })
		l.OnStop("knot", func(context.Context) error { <-freed; return nil })
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		start := time.Now()
		if err := l.Stop(ctx); !errors.Is(err, errStuck) || !strings.Contains(err.Error(), "stopping knot") {
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

// TestListIsBounded: however many steps do not end, the stop does, and the step that ends
// processes has had its time.
func TestListIsBounded(t *testing.T) {
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
				l := &List{Log: slog.New(slog.DiscardHandler)}
				freed := make(chan struct{})
				defer close(freed)
				stuck := func(context.Context) error { <-freed; return nil }
				for range 3 {
					l.OnStop("after", stuck)
				}
				killed := false
				l.OnStopSlow("processes", upstream.Overtime+time.Second, func(ctx context.Context) error {
					<-ctx.Done()
					time.Sleep(upstream.Overtime)
					killed = true
					return nil
				})
				for range 9 {
					l.OnStop("before", stuck)
				}
				ctx, cancel := end(t.Context())
				defer cancel()
				start := time.Now()
				if err := l.Stop(ctx); !errors.Is(err, errStuck) {
					t.Error(err)
				}
				if took, most := time.Since(start), 10*time.Second+WindUp+9*moment; took > most || !killed {
					t.Errorf("took %s, want at most %s; the processes have ended: %t", took, most, killed)
				}
			})
		})
	}
}

// TestLastMoment: a step that begins just before the end has no less time than one that
// begins after it.
func TestLastMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &List{Log: slog.New(slog.DiscardHandler)}
		var got time.Duration
		l.OnStop("late", func(ctx context.Context) error {
			start := time.Now()
			<-ctx.Done()
			got = time.Since(start)
			return nil
		})
		l.OnStop("slow", func(context.Context) error { time.Sleep(10*time.Second - time.Millisecond); return nil })
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := l.Stop(ctx); err != nil || got != StepGrace {
			t.Errorf("%v, after %s", err, got)
		}
	})
}
