package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
)

// stepGrace is what each step of a stop still gets after the time for the whole stop has run
// out: enough to kill and to close, not to wait for anybody.
const stepGrace = 2 * time.Second

// overrun is how much longer than its time a step may take before the stop goes on without it:
// more than what the steps themselves allow for farewells (dialect.Goodbye).
const overrun = 6 * time.Second

// errStuck means that a step did not end, and that what it closes may still run.
var errStuck = errors.New("it does not end: the stop goes on without it")

// lifecycle is the list of what has to be undone. Whoever starts something registers how to
// undo it in the next line; stop does so, last in, first out.
type lifecycle struct {
	log *slog.Logger

	mu    sync.Mutex // guards steps; not held while one runs
	steps []step
}

type step struct {
	name string
	undo func(context.Context) error
}

// onStop registers how to undo what was just done.
func (l *lifecycle) onStop(name string, undo func(context.Context) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.steps = append(l.steps, step{name, undo})
}

// stop undoes everything, each step once, and returns what went wrong. ctx bounds it. Steps
// for which it leaves no time still run, with stepGrace each. One that does not heed its time
// is given up, and named in the log.
func (l *lifecycle) stop(ctx context.Context) error {
	var errs []error
	for {
		next, ok := l.pop()
		if !ok {
			return errors.Join(errs...)
		}
		if err := l.run(ctx, next); err != nil {
			l.log.Warn("stopping", failure.StopUnclean.Attr(), "part", next.name, "error", err)
			errs = append(errs, fmt.Errorf("stopping %s: %w", next.name, err))
		}
	}
}

func (l *lifecycle) run(ctx context.Context, s step) error {
	if ctx.Err() != nil {
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), stepGrace)
		defer cancel()
		ctx = late
	}
	done := make(chan error, 1)
	go func() { done <- s.undo(ctx) }() // a step that never returns ends with the process
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	timer := time.NewTimer(overrun)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return errStuck
	}
}

func (l *lifecycle) pop() (step, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.steps) == 0 {
		return step{}, false
	}
	last := l.steps[len(l.steps)-1]
	l.steps = l.steps[:len(l.steps)-1]
	return last, true
}

// run starts work, which must end with its context. stop ends the context and waits.
func run(work func(context.Context) error) (stop func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- work(ctx) }()
	return func(ctx context.Context) error {
		cancel()
		select {
		case err := <-done:
			if errors.Is(err, context.Canceled) {
				return nil
			}
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
