package upstream

import (
	"context"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/upstream/dialect"
	"github.com/gatehouse-mcp/gatehouse/upstream/stateless"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
)

// This file gives calls to servers without sessions their connections.

func (u *Upstream) newStateless() *stateless.Dialect {
	return stateless.New(stateless.Env{
		Upstream: u.cfg.Name, Piped: u.cfg.Transport == transportStdio, PerUser: u.perUser(), Call: u.cfg.Timeout.Call, Total: u.cfg.Timeout.Total,
		Base: u.base, Log: u.log, Voice: u.voice, Admit: u.admit, Memory: u.memory, ClientInfo: u.clientInfo,
		NextID: func() int64 { return u.ids.Add(1) }, Life: u.life, Spawn: u.spawn,
	})
}

// statelessConn returns the connection to a stateless server: over HTTP none that
// matters, over stdio the one process.
func (u *Upstream) statelessConn(ctx context.Context, e *era, c *mcp.Call) (conn transport.Conn, release func(), err error) {
	s, err := u.acquire(ctx, poolKey{}, &c.Caller, dialect.Capabilities{}, e, false)
	if err != nil {
		return nil, nil, err
	}
	return s.conn, func() { u.pool.release(s) }, nil
}

func (u *Upstream) callStateless(ctx context.Context, e *era, c *mcp.Call) (*mcp.Reply, error) {
	conn, release, err := u.statelessConn(ctx, e, c)
	if err != nil {
		return nil, err
	}
	defer release()
	return u.stateless.Call(ctx, conn, e.rev, c, func(better *wire.Revision) { u.learnEra(e, &era{rev: better}) })
}

func (u *Upstream) listenStateless(ctx context.Context, e *era, c *mcp.Call) (*mcp.Reply, error) {
	conn, release, err := u.statelessConn(ctx, e, c)
	if err != nil {
		return nil, err
	}
	defer release()
	return u.stateless.Listen(ctx, conn, e.rev, c)
}

func (u *Upstream) discoverStateless(ctx context.Context, e *era, c *mcp.Call) (*mcp.Reply, error) {
	result := u.takeDiscover(e)
	if result == nil {
		conn, release, err := u.statelessConn(ctx, e, c)
		if err != nil {
			return nil, err
		}
		defer release()
		if result, err = u.stateless.Discover(ctx, conn, e.rev); err != nil {
			return nil, err
		}
	}
	meta, _ := result.Member("_meta")
	info, _ := meta.Member(wire.MetaServerInfo)
	u.health.meet(e.rev.Name, false, info)
	return dialect.Discovered(e.rev, result, info)
}

// takeDiscover returns the result that the probe got, to the first who wants it.
func (u *Upstream) takeDiscover(e *era) mcp.Raw {
	u.probe.mu.Lock()
	defer u.probe.mu.Unlock()
	result := e.discover
	e.discover = nil
	return result
}

// learnUnfolded takes a page of tools whose descriptions were unfolded.
func (u *Upstream) learnUnfolded(c *mcp.Call, page *mcp.List) *mcp.List {
	if u.isStateful() {
		return page
	}
	return u.stateless.LearnTools(c, page)
}

// letTaskGo cancels the task of a call that nobody will come back for.
func (u *Upstream) letTaskGo(c *mcp.Call) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(u.base), dialect.Goodbye)
	defer cancel()
	err := u.inEra(ctx, c, func(e *era) error {
		if e.rev.Stateful {
			return nil // another server by now
		}
		conn, release, err := u.statelessConn(ctx, e, c)
		if err != nil {
			return err
		}
		defer release()
		u.stateless.LetGo(conn, e.rev, c)
		return nil
	})
	if err != nil {
		u.log.Debug("task not cancelled", "error", err)
	}
}

// neutral is what the gateway declares where it looks at a server for itself. It answers
// what it is asked then (forNobody). A process that clients share declares nothing, since
// their calls run there, and which of them it asks nobody knows.
func (u *Upstream) neutral(rev *wire.Revision) dialect.Capabilities {
	if rev.Stateful && u.cfg.Shared && u.cfg.Transport == transportStdio {
		return dialect.Capabilities{Raw: "{}"}
	}
	return dialect.Neutral(rev)
}
