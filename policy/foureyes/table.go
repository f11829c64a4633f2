package foureyes

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// Bounds of what waits.
const (
	MostWaiting = 1000
	MostOfUser  = 20
	// mostBytes bounds what is shown of all calls together.
	mostBytes = 16 << 20
	// tellEvery is how often a caller hears that the call still waits.
	tellEvery = 10 * time.Second
	// lookEvery is how often a call looks for the verdict of another replica.
	lookEvery = time.Second
)

// Errors of Wait, besides those of its context: the call did not run.
var (
	ErrFull    = errors.New("foureyes: too many calls wait")
	ErrExpired = errors.New("foureyes: nobody has decided in time")
	ErrClosed  = errors.New("foureyes: closed")
	// ErrRestart says that rules have changed: the call has to be decided again. It is the cause with
	// which a caller of Wait ends its context.
	ErrRestart = errors.New("foureyes: rules have changed")
)

// Deps are the dependencies of a Table.
type Deps struct {
	// May reports whether a person may decide on the calls of all these rules; nil if no one may.
	May func(rules []string, by *mcp.Caller) bool
	// Shared lets other replicas decide, too; nil for a gateway alone.
	Shared *Shared
	// Metrics count what becomes of calls; they may be nil.
	Metrics *Metrics
}

// Table has the calls that wait. Its methods may be called concurrently.
type Table struct {
	deps      Deps
	lookEvery time.Duration // shorter in tests

	mu     sync.Mutex // guards the fields below
	calls  map[string]*waiting
	users  map[string]int // how many calls of each wait
	bytes  int
	closed bool
}

type waiting struct {
	call *Call
	user string
	over chan outcome // has room for the one that ends the wait

	shown  bool // those who decide may see it
	shared bool // other replicas see it, too: Redis says which verdict is the first
}

type outcome struct {
	verdict Verdict
	err     error
}

// New makes a table.
func New(deps Deps) *Table {
	if deps.May == nil {
		deps.May = func([]string, *mcp.Caller) bool { return false }
	}
	if deps.Metrics == nil {
		deps.Metrics = NewMetrics(nil)
	}
	return &Table{deps: deps, lookEvery: lookEvery, calls: make(map[string]*waiting), users: make(map[string]int)}
}

// Wait shows a call of a user to those who decide, for a time, and returns what they decided.
// Wait owns the call from then on, and sets Since and Until. tell is called now and then as
// long as the call waits. Errors: the Err of the table, and that of ctx. Once ctx has ended, no verdict counts.
func (t *Table) Wait(ctx context.Context, user string, c *Call, limit time.Duration, tell func()) (Verdict, error) {
	c.Since = time.Now()
	c.Until = c.Since.Add(limit)
	w := &waiting{call: c, user: user, over: make(chan outcome, 1)}
	if err := t.add(w); err != nil {
		t.deps.Metrics.ended(err)
		return Verdict{}, err
	}
	t.deps.Metrics.waiting.Inc()
	defer t.deps.Metrics.waiting.Dec()
	t.show(ctx, w)
	out := t.await(ctx, w, limit, tell)
	if w.shared {
		v, ok := t.deps.Shared.withdraw(context.WithoutCancel(ctx), w.call) // Redis has short time limits
		if ok && out.err != nil {
			out = outcome{verdict: v} // a person has read that this counts
		}
	}
	if err := endOf(ctx); err != nil {
		out = outcome{err: err} // whatever was decided: no call waits for it
	}
	if out.err == nil && !out.verdict.Approve {
		t.deps.Metrics.refused.Inc()
	} else {
		t.deps.Metrics.ended(out.err)
	}
	return out.verdict, out.err
}

// endOf returns why a context has ended, nil if it has not.
func endOf(ctx context.Context) error {
	if errors.Is(context.Cause(ctx), ErrRestart) {
		return ErrRestart
	}
	return ctx.Err()
}

// show shows a call to those who decide.
func (t *Table) show(ctx context.Context, w *waiting) {
	shared := false
	if t.deps.Shared != nil {
		room, err := t.deps.Shared.publish(ctx, w.call)
		shared = room || err != nil // it may be there, or will be when Redis is back
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	w.shared, w.shown = shared, true
}

// await returns how the wait of a call ends.
func (t *Table) await(ctx context.Context, w *waiting, limit time.Duration, tell func()) outcome {
	timer, ticker := time.NewTimer(limit), time.NewTicker(tellEvery)
	defer timer.Stop()
	defer ticker.Stop()
	var look <-chan time.Time
	if w.shared {
		looks := time.NewTicker(t.lookEvery)
		defer looks.Stop()
		look = looks.C
	}
	tell()
	for {
		select {
		case <-ticker.C:
			tell()
		case <-look:
			if v, ok := t.deps.Shared.heard(ctx, w.call); ok {
				return t.end(w, outcome{verdict: v})
			}
		case out := <-w.over:
			return out
		case <-timer.C:
			return t.end(w, outcome{err: ErrExpired})
		case <-ctx.Done():
			return t.end(w, outcome{err: endOf(ctx)})
		}
	}
}

func (t *Table) add(w *waiting) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return ErrClosed
	}
	if t.calls[w.call.ID] != nil || len(t.calls) >= MostWaiting || t.users[w.user] >= MostOfUser ||
		t.bytes+w.size() > mostBytes {
		return ErrFull
	}
	t.calls[w.call.ID] = w
	t.users[w.user]++
	t.bytes += w.size()
	return nil
}

func (w *waiting) size() int {
	size := len(w.call.Arguments) + len(w.call.Name)
	for _, o := range w.call.Others {
		size += len(o.Name) + len(o.Value)
	}
	return size
}

// remove is called with mu held.
func (t *Table) remove(w *waiting) {
	delete(t.calls, w.call.ID)
	t.bytes -= w.size()
	if t.users[w.user]--; t.users[w.user] == 0 {
		delete(t.users, w.user)
	}
}

// end ends a wait, unless it has ended already: then it returns how.
func (t *Table) end(w *waiting, out outcome) outcome {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.calls[w.call.ID] != w {
		return <-w.over // came before w was removed
	}
	t.remove(w)
	return out
}

// Close ends all waits, those to come too, with ErrClosed.
func (t *Table) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	for _, w := range t.calls {
		t.remove(w)
		w.over <- outcome{err: ErrClosed}
	}
}
