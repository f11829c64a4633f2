package transport

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// Life is the context of one exchange with a server. It ends when the caller's context
// does, when the server is silent for too long, or when it takes too long altogether. One
// timer does both: what the server sends only notes the time, and the timer looks at it
// when it fires.
//
// It has the values of the first caller's context, and is not derived from it: an event
// stream is drained after the caller has its answer, and a parked call outlives its
// caller. There is one for each request, and it costs a fraction of what
// context.WithCancelCause and a timer do.
type Life struct {
	context.Context // the first caller's, without its end

	// OnEnd is nil, or called by End. It is set before the Life is shared.
	OnEnd func(*Life)
	// Room is what large answers are taken from: that of the request which waits; nil for
	// none.
	Room atomic.Pointer[mcp.Room]

	begin time.Time
	last  atomic.Int64 // when the server last showed life, nanoseconds after begin

	mu     sync.Mutex    // guards the fields below
	round  time.Duration // when the present round began, after begin
	idle   time.Duration
	total  time.Duration
	unlink func() bool
	timer  *time.Timer
	paused bool
	cause  error // why it has ended; nil as long as it has not
	done   chan struct{}
	after  []*func() // to be called at its end
	first  [1]*func()
}

// NewLife begins to watch an exchange that this caller waits for; a total of 0 is
// no limit of time. In the end the stream of the exchange must call End.
func NewLife(caller context.Context, idle, total time.Duration) *Life {
	l := &Life{Context: context.WithoutCancel(caller), begin: time.Now()}
	l.after = l.first[:0]
	l.Resume(caller, idle, total)
	return l
}

// Resume begins a new round, for a caller that waits now.
func (l *Life) Resume(caller context.Context, idle, total time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.round, l.idle, l.total, l.paused = time.Since(l.begin), idle, total, false
	l.last.Store(int64(l.round))
	l.unlink = context.AfterFunc(caller, func() { l.Cancel(context.Cause(caller)) })
	if total > 0 {
		l.timer = time.AfterFunc(min(idle, total), l.check)
	}
}

// Patiently lets the server be silent for as long as the round may take.
func (l *Life) Patiently() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.idle = l.total
}

// WaitedFor reports whether a caller waits.
func (l *Life) WaitedFor() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.paused
}

// Pause ends the watch over time and caller; the exchange itself goes on.
func (l *Life) Pause() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.paused {
		l.paused = true
		l.unlink()
		if l.timer != nil {
			l.timer.Stop()
		}
	}
}

// Touch notes that the server shows life.
func (l *Life) Touch() { l.last.Store(int64(time.Since(l.begin))) }

func (l *Life) check() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.paused {
		return
	}
	now := time.Since(l.begin)
	left := min(l.round+l.total-now, time.Duration(l.last.Load())+l.idle-now)
	if left <= 0 {
		l.cancel(ErrTimeout)
		return
	}
	l.timer.Reset(left)
}

// End ends the exchange.
func (l *Life) End() {
	l.Pause()
	l.Cancel(nil)
	if l.OnEnd != nil {
		l.OnEnd(l)
	}
}

// Cancel ends the context. Only the first cause counts; nil stands for context.Canceled.
func (l *Life) Cancel(cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cancel(cause)
}

// cancel is Cancel; l.mu is held.
func (l *Life) cancel(cause error) {
	if l.cause != nil {
		return
	}
	if l.cause = cause; cause == nil {
		l.cause = context.Canceled
	}
	if l.done != nil {
		close(l.done)
	}
	for _, f := range l.after {
		go (*f)() // as context.AfterFunc does
	}
	l.after = nil
}

// Cause is why it has ended, nil as long as it has not.
func (l *Life) Cause() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cause
}

// Why adds to an error of the exchange why it was ended, if it was.
func (l *Life) Why(err error) error {
	if cause := l.Cause(); err != nil && cause != nil && cause != context.Canceled {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

// TimedOut reports whether the exchange was ended for its slowness.
func (l *Life) TimedOut() bool { return l.Cause() == ErrTimeout }

// Done is closed at its end.
func (l *Life) Done() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done == nil {
		l.done = make(chan struct{})
		if l.cause != nil {
			close(l.done)
		}
	}
	return l.done
}

// Err is context.Canceled after its end.
func (l *Life) Err() error {
	if l.Cause() != nil {
		return context.Canceled
	}
	return nil
}

// AfterFunc is what context.AfterFunc and contexts that are made from this one call.
func (l *Life) AfterFunc(f func()) (stop func() bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cause != nil {
		go f()
		return func() bool { return false }
	}
	l.after = append(l.after, &f)
	return func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		i := slices.Index(l.after, &f)
		if i < 0 {
			return false
		}
		l.after = slices.Delete(l.after, i, i+1)
		return true
	}
}
