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

// Env is what both dialects have of their upstream. All fields but Memory are required.
type Env struct {
	Upstream string // its name
	Process  bool   // it is reached by stdio: a connection is a process, and has no headers
	PerUser  bool   // each user has a credential of its own
	Places   int    // how many sessions, or connections, are open at a time
	Timeout  Timeout

	Base       context.Context // ends with the upstream
	Log        *slog.Logger
	ClientInfo mcp.Raw
	Memory     *mcp.Memory // nil for a boundless one
	Voice      *Voice
	Admit      *admit.Admit

	NextID func() int64
	// Life begins an exchange that ends with the upstream, too: at once when it is a standing
	// one, without an end of its own. Errors: admit.ErrDraining.
	Life func(ctx context.Context, standing bool) (*transport.Life, error)
	// Spawn runs what the upstream waits for at its end.
	Spawn func(func())
	// Dial connects in the way of an era. Errors are those of transports, and ErrWrongEra for a
	// way that leads nowhere.
	Dial func(ctx context.Context, owner *transport.Identity, e *Era) (transport.Conn, error)
	// Learn replaces the era by what the server turned out to speak.
	Learn func(old, new *Era)
	// Meet is told what the server says of itself, nil for nothing.
	Meet func(rev *wire.Revision, serverInfo mcp.Raw)
	// Opened counts sessions and connections by how their opening went; Restarts those that
	// ended by themselves, and Garbage what came on them that was no message.
	Opened   func(error)
	Restarts *atomic.Int64
	Garbage  *atomic.Int64
}

// User is the user in keys of what is not shared between users, "" where all share it.
func (e *Env) User(caller *mcp.Caller) string {
	if !e.PerUser {
		return ""
	}
	return caller.User()
}

// Connect runs what reaches the server, apart from any caller, for as long as that may take.
func (e *Env) Connect(reach func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(e.Base, e.Timeout.Connect, transport.ErrTimeout)
	defer cancel()
	err := reach(ctx)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w: %w", transport.ErrNotSent, context.Cause(ctx), err)
	}
	return err
}

// NewPool makes the pool of a dialect; over and end are those of pool.Config.
func NewPool[K comparable, D any, V comparable](e *Env, over func(V) bool, end func(*pool.Entry[K, D, V], V, bool, <-chan struct{})) *pool.Pool[K, D, V] {
	return pool.New(pool.Config[K, D, V]{
		Places: e.Places, Idle: e.Timeout.Idle, Base: e.Base, Spawn: e.Spawn, Opened: e.Opened, Over: over, End: end,
		// An entry whose process fails, or whose server is down, remembers why.
		Keeps: func(err error) bool {
			return !errors.Is(err, admit.ErrOverloaded) && (e.Process || errors.Is(err, pool.ErrDown))
		},
	})
}

// NotStarted makes of an error of Pool.Acquire that of a call.
func NotStarted(err error) error {
	if err != nil && !errors.Is(err, ErrWrongEra) {
		return fmt.Errorf("%w: %w", ErrNotStarted, err)
	}
	return err
}

// Farewell runs what tells the server that something is over: at once, where Close ends what
// it is told on next.
func (e *Env) Farewell(say func()) {
	if e.Base.Err() != nil {
		say()
		return
	}
	e.Spawn(say)
}

// Watch calls lost when a connection that can be lost is, before base ends: how long it had
// lived.
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

// Piped reports whether a connection is one pipe for all that a server says, which can
// be lost as a whole.
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

// CloseConn closes a connection that nobody uses.
func CloseConn(conn transport.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), Goodbye)
	defer cancel()
	_ = conn.Close(ctx) // there is nobody to tell, and nothing to be done about it
}

// LogOnly writes a log message that is for no client into the gateway's log.
func LogOnly(said *transport.Chatter, m wire.Message) {
	said.Say("log message", "level", Clip(m.Params.At("level").Text()), "data", transport.ClipLine(m.Params.At("data")))
}
