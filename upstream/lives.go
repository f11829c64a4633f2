package upstream

import (
	"context"
	"sync"
	"time"

	"github.com/gatehouse-mcp/gatehouse/upstream/admit"
	"github.com/gatehouse-mcp/gatehouse/upstream/dialect"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
)

// lives are the exchanges and goroutines that must end before an Upstream is closed.
type lives struct {
	idle, total time.Duration // Config.Timeout of an exchange

	mu      sync.Mutex // guards the fields below
	closed  bool
	running map[*transport.Life]bool // exchanges under way; true for those without an end
	held    int                      // calls that are between exchanges, or in one
	ended   chan struct{}            // closed when the last exchange ends after closed was set
	left    chan struct{}            // likewise, when the last such call has ended, too
	active  int                      // goroutines that wg counts
	waited  bool                     // wait is waiting for the last of them
	wg      sync.WaitGroup
}

func newLives(cfg Timeout) *lives {
	return &lives{idle: cfg.Call, total: cfg.Total, running: make(map[*transport.Life]bool), ended: make(chan struct{}),
		left: make(chan struct{})}
}

// begin implements dialect.Env.Life.
func (l *lives) begin(ctx context.Context, lasting bool) (*transport.Life, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, admit.ErrDraining
	}
	idle, total := l.idle, l.total
	if lasting {
		idle, total = 0, 0
	}
	life := transport.NewLife(ctx, idle, total)
	life.OnEnd = l.end
	l.running[life] = lasting
	return life, nil
}

func (l *lives) end(life *transport.Life) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.running[life]; !ok {
		return
	}
	delete(l.running, life)
	l.settle()
}

// hold implements dialect.Env.Hold.
func (l *lives) hold() (release func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.held--
		l.settle()
	}
}

// settle closes the channels that are due. mu is held.
func (l *lives) settle() {
	if !l.closed || len(l.running) > 0 {
		return
	}
	shut(l.ended)
	if l.held == 0 {
		shut(l.left)
	}
}

// shut closes a channel that may be closed.
func shut(c chan struct{}) {
	select {
	case <-c:
	default:
		close(c)
	}
}

// calls returns how many exchanges with an end of their own are under way.
func (l *lives) calls() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, lasting := range l.running {
		if !lasting {
			n++
		}
	}
	return n
}

// spawn runs f on a goroutine that wait waits for. f must end soon after the Upstream's
// base. If no goroutine may start any more, f runs on the caller's and has to see at once
// that base has ended.
func (l *lives) spawn(f func()) {
	l.mu.Lock()
	if l.waited && l.active == 0 {
		l.mu.Unlock()
		f()
		return
	}
	l.active++
	l.wg.Go(func() {
		defer func() {
			l.mu.Lock()
			l.active--
			l.mu.Unlock()
		}()
		f()
	})
	l.mu.Unlock()
}

// close lets no new exchange begin, and ends all exchanges or the lasting ones.
func (l *lives) close(all bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.settle()
	for life, lasting := range l.running {
		if all || lasting {
			life.Cancel(dialect.ErrClosed)
		}
	}
}

// wait waits for all goroutines.
func (l *lives) wait() {
	l.mu.Lock()
	l.waited = true
	l.mu.Unlock()
	l.wg.Wait()
}
