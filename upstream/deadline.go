package upstream

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// errTimeout is why a call's context ended when it took too long.
var errTimeout = errors.New("timeout")

// deadline is the life of one exchange with a server: the context it runs under,
// which ends when the caller's does, when the server is silent for too long, or when
// it takes too long altogether. One timer does both: what the server sends only
// notes the time, and the timer looks at it when it fires.
//
// The context is not derived from the caller's: an event stream is drained after the
// caller has its answer, and a parked call outlives its caller.
type deadline struct {
	ctx   *lifetime
	ended func(*deadline) // nil, or told of the end
	begin time.Time
	last  atomic.Int64 // when the server last showed life, nanoseconds after begin
	// room is what large answers are taken from: that of the request which waits; nil for
	// none.
	room atomic.Pointer[mcp.Room]

	mu     sync.Mutex    // guards the fields below
	round  time.Duration // when the present round began, after begin
	idle   time.Duration
	total  time.Duration
	unlink func() bool
	timer  *time.Timer
	paused bool
}

// newDeadline begins to watch an exchange that this caller waits for; a total of 0 is
// no limit of time. In the end the stream of the exchange must call end.
func newDeadline(caller context.Context, idle, total time.Duration) *deadline {
	d := &deadline{begin: time.Now(), ctx: newLifetime(caller)}
	d.resume(caller, idle, total)
	return d
}

// resume begins a new round, for a caller that waits now.
func (d *deadline) resume(caller context.Context, idle, total time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.round, d.idle, d.total, d.paused = time.Since(d.begin), idle, total, false
	d.last.Store(int64(d.round))
	d.unlink = context.AfterFunc(caller, func() { d.cancel(context.Cause(caller)) })
	if total > 0 {
		d.timer = time.AfterFunc(min(idle, total), d.check)
	}
}

// patiently lets the server be silent for as long as the round may take.
func (d *deadline) patiently() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.idle = d.total
}

// waitedFor reports whether a caller waits.
func (d *deadline) waitedFor() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.paused
}

// pause ends the watch over time and caller; the exchange itself goes on.
func (d *deadline) pause() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.paused {
		d.paused = true
		d.unlink()
		if d.timer != nil {
			d.timer.Stop()
		}
	}
}

// end ends the exchange.
func (d *deadline) end() {
	d.pause()
	d.cancel(nil)
	if d.ended != nil {
		d.ended(d)
	}
}

// why adds to an error of the exchange why it was ended, if it was.
func (d *deadline) why(err error) error {
	if cause := d.ctx.why(); err != nil && cause != nil && cause != context.Canceled {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

// timedOut reports whether the exchange was ended for its slowness.
func (d *deadline) timedOut() bool { return d.ctx.why() == errTimeout }

// cancel ends the exchange's context; nil stands for context.Canceled.
func (d *deadline) cancel(cause error) { d.ctx.end(cause) }

// touch notes that the server shows life.
func (d *deadline) touch() { d.last.Store(int64(time.Since(d.begin))) }

func (d *deadline) check() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.paused {
		return
	}
	now := time.Since(d.begin)
	left := min(d.round+d.total-now, time.Duration(d.last.Load())+d.idle-now)
	if left <= 0 {
		d.cancel(errTimeout)
		return
	}
	d.timer.Reset(left)
}
