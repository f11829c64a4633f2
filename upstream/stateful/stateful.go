// Package stateful speaks to servers of the revisions with sessions, 2024-11-05 to 2025-11-25. Each
// client session has a session at the server, and the server may send questions while a call runs.
//
// It owns the sessions and everything that runs in them, the calls that wait for their
// users, and what another replica needs to resume a session. It leaves to upstream when to
// call and what the server speaks, to upstream/stateful/restore what outlives a session,
// and to upstream/pool the table of sessions.
//
//	stateful.go      the Dialect
//	pool.go          its sessions
//	keeper.go        the stored part of a session
//	session.go       a session: handshake and requests
//	deliver.go       messages outside of calls, and news of a session's lists
//	exchange.go      a call under way
//	questions.go     a call's questions
//	park.go          the calls that wait for answers
//	roots.go         questions for roots outside of a call
//	pages.go         questions that send the user to a URL
//	listen.go        subscriptions
//	getstream.go     the stream outside of calls
//	tasks.go         tasks of 2025-11-25
//	bridge.go        those tasks for clients of the extension
//
// A small call starts no goroutine. Env.Spawn runs one goroutine for each GET stream,
// for each call that waits for its user, for opening a session, for watching a process or
// an event stream, and for farewell messages.
package stateful

import (
	"context"
	"errors"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/home"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/upstream/dialect"
	"github.com/gatehouse-mcp/gatehouse/upstream/pool"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
)

// Config holds what the dialect needs in addition to its Env.
type Config struct {
	// Shared lets all clients share one session, in which the server cannot ask them
	// anything.
	Shared bool
	// Asks is how many calls of a caller may wait for answers at a time.
	Asks func(*mcp.Caller) int
	// Tell is upstream.Deps.Tell; may be nil.
	Tell func(session string, e mcp.Event)
	// Lists is upstream.Deps.Lists.
	Lists func(mcp.SessionLists)
	// Failure turns an error into one that a client may read.
	Failure func(context.Context, error) error
	// Lost counts sessions that the server no longer knew.
	Lost func()
	// Lasted receives how long a session lasted here that a server had agreed to.
	Lasted func(revision string, lasted time.Duration)
	// Homes are those of the clients' sessions here; nil for none.
	Homes Homes
	// Keeper stores sessions for other processes, nil for none. Server tells the sessions
	// of this server and account apart from others.
	Keeper Keeper
	Server []string
}

// Dialect speaks to one server. Its methods may be called concurrently.
type Dialect struct {
	env  *dialect.Env
	cfg  Config
	said *transport.Chatter
	kept keeper
	pool *pool.Pool[key, *place, *session]
	// parks holds the calls, and the tasks, that wait for their users' answers. Each holds
	// a stream and one goroutine that reads it.
	parks *parking
}

// New returns a Dialect.
func New(env *dialect.Env, cfg Config) *Dialect {
	d := &Dialect{env: env, cfg: cfg, said: transport.NewChatter(env.Log), kept: keeper{cfg.Keeper, cfg.Server}}
	d.pool = dialect.NewPool(env, (*session).over, d.end)
	d.parks = newParking((*exchange).dropLater)
	return d
}

// Handle makes a call to a server of this era. Errors are dialect.ErrWrongEra, errors of
// transports, and errors that the client may read.
func (d *Dialect) Handle(ctx context.Context, e *dialect.Era, c *mcp.Call) (*mcp.Reply, error) {
	switch c.Method {
	case mcp.MethodDiscover:
		return d.discover(ctx, e, c)
	case mcp.MethodListen:
		return d.listen(ctx, e, c)
	}
	if len(c.Round) > 0 && c.Round.Top().Kind != mcp.FrameRoots {
		return d.retry(ctx, c)
	}
	for lost := 1; ; lost++ {
		step := c.Trail.Begin("session", d.env.Upstream)
		s, err := d.acquire(ctx, e, c)
		if step.End(""); err != nil {
			return nil, err
		}
		call := s.call
		switch task := mcp.IsTaskMethod(c.Method); {
		case task && !s.server.Tasks:
			s.release()
			return nil, mcp.ErrUnknown(c.Method, c.Name) // the server speaks another era by now
		case task && c.Tasks == mcp.ExtensionTasks:
			call = s.bridge
		}
		reply, err := call(ctx, c)
		switch {
		case err == nil:
			s.doubt.worked.Store(true)
			return reply, nil
		case errors.Is(err, transport.ErrSessionGone):
			s.lose()
		case !s.doubt.forgotten(ctx, e, err) || !neverRan(err):
			return nil, err
		}
		if lost > 1 {
			return nil, err
		}
	}
}

func (d *Dialect) discover(ctx context.Context, e *dialect.Era, c *mcp.Call) (*mcp.Reply, error) {
	s, err := d.acquire(ctx, e, c)
	if err != nil {
		return nil, err
	}
	defer s.release()
	return dialect.Discovered(s.rev, s.result, s.result.At("serverInfo"))
}

// attach ends a session at the server with the client's session that it belongs to.
func (d *Dialect) attach(at *entry) {
	if at.Key.session == "" || d.cfg.Homes == nil {
		return
	}
	if h := d.cfg.Homes.Known(home.ParseKey(at.Key.session)); h != nil {
		detach := h.Attach(func(why home.Why) { d.endWith(at, why.Over()) })
		at.Data.detach.Store(&detach)
	}
}

// endWith ends a session at the server, and its parked calls, since the client's session has ended
// here. With forget false, the session stays open at the server if it is kept.
func (d *Dialect) endWith(at *entry, forget bool) {
	d.parks.dropAll("the session has ended", func(x *exchange) bool { return x.s.at == at })
	// Calls are cancelled, and the server hears of that, before the session ends: at many
	// servers the end of a session does not end its calls.
	at.Data.state.End(transport.ErrEnded)
	d.pool.End(at, forget)
}

// RootsChanged forgets the roots of a client's session, and tells the server that they
// changed.
func (d *Dialect) RootsChanged(session string) {
	for at := range d.pool.All() {
		if at.Key.session != session || session == "" {
			continue
		}
		at.Data.state.Roots.Changed()
		if s := at.Current(); s != nil && s.declared.RootsChange {
			d.env.Spawn(func() { s.post(wire.AppendNotification(nil, mcp.NoteRootsListChanged, nil)) })
		}
	}
}

// Drain gives up everything that waits for users, and ends all listening.
func (d *Dialect) Drain() {
	d.parks.close()
	for at := range d.pool.All() {
		at.Data.state.End(dialect.ErrClosed)
	}
}

// Close ends all sessions at the server that are not kept. It uses Env.Spawn.
func (d *Dialect) Close() { d.pool.Close() }

// Reset ends all sessions, because the server now speaks something else.
func (d *Dialect) Reset() { d.pool.Reset() }

// Sessions returns how many sessions are open.
func (d *Dialect) Sessions() int { return d.pool.Len() }

// Parked returns how many calls wait for their users.
func (d *Dialect) Parked() int { return d.parks.count() }
