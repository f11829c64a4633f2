// Package lifecycle stops in order what a process has started.
//
// It owns the order, last in, first out, and how much time each step gets, so that no step that hangs
// keeps the later ones from their work. The steps belong to the code that registers them. A step that
// never ends is left behind with its goroutine, which ends with the process.
package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
)

const (
	// WindUp bounds the excess of a whole stop over its time. docs/operations.md has operators add
	// it to the grace period of a container.
	WindUp = 10 * time.Second
	// StepGrace is the time for each step once the time for the whole stop has run out, or nearly:
	// enough to close, not to wait for calls.
	StepGrace = time.Second
	// overrun is the excess over its time after which the stop goes on without a step: what the
	// step cuts off needs a moment to end.
	overrun = 2 * time.Second
	// moment is the time for a step when none is left.
	moment = 100 * time.Millisecond
)

// errStuck means that a step did not end, and that what it closes may still run.
var errStuck = errors.New("it does not end: the stop goes on without it")

// List holds the steps of a stop. Code that starts something registers how to undo it in the next
// line; Stop does so, last in, first out. Its zero value is an empty list. It is safe for concurrent
// use.
type List struct {
	// Log records failures. Set it before Stop.
	Log *slog.Logger

	mu    sync.Mutex // guards steps; not held while one runs
	steps []step
}

type step struct {
	name string
	undo func(context.Context) error
	over time.Duration // how much longer than its time it may take
	kept time.Duration // the time that is kept for it
}

// OnStop registers how to undo what was just done.
func (l *List) OnStop(name string, undo func(context.Context) error) {
	l.add(step{name: name, undo: undo, over: overrun})
}

// OnStopSlow is OnStop for a step that may exceed its time by more than others; Stop reserves that
// time for it.
func (l *List) OnStopSlow(name string, over time.Duration, undo func(context.Context) error) {
	l.add(step{name, undo, over, StepGrace + over})
}

func (l *List) add(s step) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.steps = append(l.steps, s)
}

// Stop undoes everything, each step once, and returns all failures. ctx bounds it. Steps for which
// it leaves no time still run, with StepGrace each. One that does not end is given up, and named in
// the log. All of this ends within WindUp after ctx.
func (l *List) Stop(ctx context.Context) error {
	var errs []error
	b := &budget{ctx: ctx}
	for {
		next, kept, ok := l.pop()
		if !ok {
			return errors.Join(errs...)
		}
		if err := b.run(next, kept); err != nil {
			l.Log.Warn("stopping", failure.StopUnclean.Attr(), "part", next.name, "error", err)
			errs = append(errs, fmt.Errorf("stopping %s: %w", next.name, err))
		}
	}
}

// pop takes the next step. kept is the time that is kept for the steps after it.
func (l *List) pop() (next step, kept time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.steps) == 0 {
		return step{}, 0, false
	}
	next = l.steps[len(l.steps)-1]
	l.steps = l.steps[:len(l.steps)-1]
	for _, s := range l.steps {
		kept += s.kept
	}
	return next, kept, true
}

// budget is the time of a stop.
type budget struct {
	ctx context.Context
	end time.Time // WindUp after ctx; zero until it is needed
}

// run runs a step.
func (b *budget) run(s step, kept time.Duration) error {
	ctx, cancel := b.step(kept)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- s.undo(ctx) }() // a step that never returns ends with the process
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	timer := time.NewTimer(max(min(s.over, b.left()-kept), moment))
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return errStuck
	}
}

// step returns the context of a step.
func (b *budget) step(kept time.Duration) (context.Context, context.CancelFunc) {
	end, limited := b.ctx.Deadline()
	if b.ctx.Err() == nil && (!limited || time.Until(end) >= StepGrace) {
		return b.ctx, func() {}
	}
	return context.WithTimeout(context.WithoutCancel(b.ctx), min(StepGrace, b.left()-kept))
}

// left returns the remaining time for the whole stop. It is called when the time of ctx is over, or
// nearly.
func (b *budget) left() time.Duration {
	if b.end.IsZero() {
		end, limited := b.ctx.Deadline()
		if !limited || b.ctx.Err() != nil && time.Until(end) > 0 { // it was cancelled
			end = time.Now()
		}
		b.end = end.Add(WindUp)
	}
	return time.Until(b.end)
}

// Run starts work, which must end with its context. stop ends the context and waits.
func Run(work func(context.Context) error) (stop func(context.Context) error) {
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
