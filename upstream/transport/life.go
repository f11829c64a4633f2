package transport

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// Life is the context of one exchange with a server. It ends when the caller's context
// does, when the server is silent for too long, or when the exchange takes too long
// altogether. One timer watches both limits: what the server sends only notes the time, and
// the timer looks at it when it fires.
//
// It has the values of the first caller's context but does not end with it: an event stream
// is drained after the caller has its answer, and a parked call outlives its caller.
type Life struct {
	context.Context
	// Cancel ends the context. Only the first cause counts; nil stands for context.Canceled.
	Cancel context.CancelCauseFunc

	// OnEnd is nil, or called by End. It is set before the Life is shared.
	OnEnd func(*Life)
	// Room provides the memory for large answers: that of the waiting request; nil for none.
	Room atomic.Pointer[mcp.Room]

	begin time.Time
	last  atomic.Int64 // when the server last showed life, nanoseconds after begin

	mu     sync.Mutex    // guards the fields below
	round  time.Duration // when the present round began, after begin
	idle   time.Duration
	total  time.Duration
	unlink func() bool // nil while no caller waits
	timer  *time.Timer
}

// NewLife begins to watch an exchange that this caller waits for. A total of 0 means no
// time limit. The stream of the exchange must call End in the end.
func NewLife(caller context.Context, idle, total time.Duration) *Life {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(caller))
	l := &Life{Context: ctx, Cancel: cancel, begin: time.Now()}
	l.Resume(caller, idle, total)
	return l
}

// Resume begins a new round, for a caller that waits now.
func (l *Life) Resume(caller context.Context, idle, total time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.round, l.idle, l.total = time.Since(l.begin), idle, total
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
	return l.unlink != nil
}

// Pause ends the watch over time and caller; the exchange itself goes on.
func (l *Life) Pause() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.unlink != nil {
		l.unlink()
		l.unlink = nil
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
	if l.unlink == nil {
		return
	}
	now := time.Since(l.begin)
	left := min(l.round+l.total-now, time.Duration(l.last.Load())+l.idle-now)
	if left <= 0 {
		l.Cancel(ErrTimeout)
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

// Cause returns why the exchange has ended, nil as long as it has not.
func (l *Life) Cause() error { return context.Cause(l.Context) }

// Why adds the reason for which the exchange was ended, if it was, to one of its errors.
func (l *Life) Why(err error) error {
	if cause := l.Cause(); err != nil && cause != nil && cause != context.Canceled {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}
