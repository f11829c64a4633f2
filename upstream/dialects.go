package upstream

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream/dialect"
	"github.com/gatehouse-mcp/gatehouse/upstream/stateful"
)

// newEnv makes the environment that both dialects share.
func (u *Upstream) newEnv(deps Deps) *dialect.Env {
	cfg := u.cfg
	return &dialect.Env{
		Upstream: cfg.Name, Process: cfg.Transport == transportStdio,
		PerUser: deps.Credentials != nil && deps.Credentials.PerUser(),
		Places:  cfg.Limits.Sessions, Timeout: dialect.Timeout(cfg.Timeout),
		Base: u.base, Last: u.last, Log: u.log, Memory: deps.Memory, Admit: u.admit,
		ClientInfo: mcp.Object("name", mcp.String("gatehouse"), "version", mcp.String(cmp.Or(deps.Version, "dev"))),
		Voice:      &dialect.Voice{Upstream: cfg.Name, LoopbackLinks: cfg.LoopbackLinks, Log: u.log},
		NextID:     u.ids.next,
		Life:       u.lives.begin, Hold: u.lives.hold, Spawn: u.lives.spawn, Dial: u.dial, Learn: u.probe.learn,
		Meet: u.health.meet, Tried: u.tried, Slow: u.slow, Opened: u.count.connect, Restarts: &u.health.restarts,
	}
}

func (u *Upstream) newStateful(deps Deps) *stateful.Dialect {
	cfg := stateful.Config{
		Shared: u.cfg.Shared, Homes: deps.Homes, Asks: u.cfg.Limits.asks, Failure: u.failure,
		Lost: u.count.lost.Inc, Lasted: deps.Tracer.ClientSession, Server: u.cfg.identity(),
		Lists: func(news mcp.SessionLists) {
			if news.Over {
				u.skills.End(news.Session)
			}
			if deps.Clients != nil {
				deps.Clients.HearLists(u.cfg.Name, news)
			}
		},
	}
	if deps.Clients != nil {
		cfg.Tell = func(session string, e mcp.Event) { deps.Clients.Tell(u.cfg.Name, session, e) }
	}
	if u.cfg.Transport == transportStreamable {
		cfg.Keeper = deps.Keeper
	}
	return stateful.New(u.env, cfg)
}

// identity distinguishes servers by name, URL, revision, headers and the account used
// there.
func (c Config) identity() []string {
	parts := []string{c.Name, c.URL, c.Revision}
	for _, name := range slices.Sorted(maps.Keys(c.Headers)) {
		parts = append(parts, strings.ToLower(name), string(c.Headers[name]))
	}
	return append(append(parts, "auth"), c.Auth.Account()...)
}

// call makes a call in the dialect that the server speaks.
func (u *Upstream) call(ctx context.Context, c *mcp.Call) (reply *mcp.Reply, err error) {
	err = u.inEra(ctx, c, func(e *dialect.Era) error {
		handle := u.stateless.Handle
		if e.Rev.Stateful {
			handle = u.stateful.Handle
		}
		reply, err = handle(ctx, e, c)
		return err
	})
	return reply, err
}

// learnUnfolded learns from a page of tools with unfolded descriptions.
func (u *Upstream) learnUnfolded(c *mcp.Call, page *mcp.List) *mcp.List {
	if e := u.probe.known.Load(); e != nil && e.Rev.Stateful {
		return page
	}
	return u.stateless.LearnTools(c, page)
}
