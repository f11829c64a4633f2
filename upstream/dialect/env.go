package dialect

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/upstream/admit"
	"github.com/gatehouse-mcp/gatehouse/upstream/pool"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
)

// Timeout has the fields of upstream.Timeout.
type Timeout struct{ Connect, Call, Total, Ask, Idle time.Duration }

// Env is what an upstream provides to both dialects. All fields but Memory are required.
type Env struct {
	Upstream string // its name
	Process  bool   // reached by stdio: a connection is a process and has no headers
	PerUser  bool   // each user has a credential of its own
	Places   int    // how many sessions, or connections, may be open at a time
	Timeout  Timeout

	Base       context.Context // ends with the upstream
	Last       context.Context // ends when nothing more may be said to the server: some time after Base
	Log        *slog.Logger
	ClientInfo mcp.Raw
	Memory     *mcp.Memory // nil for no bound
	Voice      *Voice
	Admit      *admit.Admit

	NextID func() int64
	// Life begins an exchange that also ends with the upstream. A lasting exchange, which
	// has no end of its own, ends as soon as the upstream closes. Errors:
	// admit.ErrDraining.
	Life func(ctx context.Context, lasting bool) (*transport.Life, error)
	// Hold makes a closing upstream wait until release is called, for what a call has to tell the
	// server. An exchange holds it by itself.
	Hold func() (release func())
	// Spawn runs a function that the upstream waits for when it closes.
	Spawn func(func())
	// Dial connects as servers of an era expect it. Errors are those of transports, and ErrWrongEra
	// if the server does not support that way.
	Dial func(ctx context.Context, owner *transport.Identity, e *Era) (transport.Conn, error)
	// Learn replaces the era after the server turned out to speak another one.
	Learn func(old, new *Era)
	// Meet receives what the server says about itself, and what it declares; nil for nothing.
	Meet func(rev *wire.Revision, serverInfo, capabilities mcp.Raw)
	// Tried receives the result of an attempt to open a session: the revision, when it began, and
	// the error.
	Tried func(e *Era, agreed string, began time.Time, err error)
	// Slow is called if a program is slow to answer after its start.
	Slow func()
	// Opened counts attempts to open sessions and connections, by their errors. Restarts
	// counts those that ended by themselves.
	Opened   func(error)
	Restarts *atomic.Int64
}

// User returns the user for keys of what users do not share, "" if they share it.
func (e *Env) User(caller *mcp.Caller) string {
	if !e.PerUser {
		return ""
	}
	return caller.User()
}

// slowStart is how long a program may take to answer before Env.Slow is called.
const slowStart = 20 * time.Second

// Connect runs reach, independently of any caller, within the time limit for connecting.
func (e *Env) Connect(reach func(context.Context) error) error {
	if e.Process {
		defer time.AfterFunc(slowStart, e.Slow).Stop()
	}
	ctx, cancel := context.WithTimeoutCause(e.Base, e.Timeout.Connect, transport.ErrTimeout)
	defer cancel()
	err := reach(ctx)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w: %w", transport.ErrNotSent, context.Cause(ctx), err)
	}
	return err
}

// NewPool makes the pool of a dialect; over and end are those of pool.Config.
func NewPool[K comparable, D any, V comparable](e *Env, over func(V) bool,
	end func(*pool.Entry[K, D, V], V, bool, <-chan struct{})) *pool.Pool[K, D, V] {
	return pool.New(pool.Config[K, D, V]{
		Places: e.Places, Idle: e.Timeout.Idle, Base: e.Base, Spawn: e.Spawn, Opened: e.Opened, Over: over, End: end,
		// An entry remembers why its process fails, or why its server is down.
		Keeps: func(err error) bool {
			return !errors.Is(err, admit.ErrOverloaded) && (e.Process || errors.Is(err, pool.ErrDown))
		},
	})
}

// NotStarted turns an error of Pool.Acquire into the error of a call.
func NotStarted(err error) error {
	if err != nil && !errors.Is(err, ErrWrongEra) {
		return fmt.Errorf("%w: %w", ErrNotStarted, err)
	}
	return err
}

// Farewell runs what tells the server that something is over. Once the upstream is closing,
// it does so before it returns, because Close ends the connection next.
func (e *Env) Farewell(say func()) {
	if e.Base.Err() != nil {
		say()
		return
	}
	e.Spawn(say)
}

// Watch calls lost when a connection that can be lost is lost before base ends. lived is
// how long the connection had lived.
func (e *Env) Watch(base context.Context, conn transport.Conn, lost func(lived time.Duration)) {
	done, began := conn.Lost(), time.Now()
	if done == nil {
		return
	}
	e.Spawn(func() {
		select {
		case <-done:
			if base.Err() == nil {
				lost(time.Since(began))
			}
		case <-base.Done():
		}
	})
}

// Piped reports whether one pipe carries all that the server sends: then the connection can be lost
// as a whole.
func Piped(conn transport.Conn) bool { return conn.Lost() != nil }

// Lost reports whether a connection has ended by itself.
func Lost(conn transport.Conn) bool {
	select {
	case <-conn.Lost():
		return true
	default:
		return false
	}
}

// Goodbye returns the context for last messages to the server, also after Base has ended.
func (e *Env) Goodbye() (context.Context, context.CancelFunc) {
	return context.WithTimeout(e.Last, Goodbye)
}

// CloseConn closes an unused connection.
func (e *Env) CloseConn(conn transport.Conn) {
	ctx, cancel := e.Goodbye()
	defer cancel()
	_ = conn.Close(ctx) // there is nothing to do about an error
}

// LogOnly writes a log message that is not for any client to the gateway's log.
func LogOnly(said *transport.Chatter, m wire.Message) {
	said.Say("log message", "level", Clip(m.Params.At("level").Text()), "data", transport.ClipLine(m.Params.At("data")))
}
