package gateway

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/feature/results"
	"github.com/gatehouse-mcp/gatehouse/gateway/front"
	"github.com/gatehouse-mcp/gatehouse/gateway/handover"
	"github.com/gatehouse-mcp/gatehouse/internal/egress"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/record"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// current holds the graph in force, and the upstreams of earlier ones that still have calls. Parts
// that outlive graphs ask it.
type current struct {
	now   atomic.Pointer[graph]
	calls *handover.Switch // leads to the pipeline of the graph
	front *front.Front     // takes what servers say in sessions; there before anything is served

	places atomic.Pointer[map[string]string] // file:line by the names of rules

	retirement   context.Context // ends when the gateway stops
	stopRetiring context.CancelFunc
	retirements  sync.WaitGroup // one for each of retired

	mu      sync.Mutex // guards retired
	retired []*member  // upstreams of earlier graphs, until nothing runs there
}

func newCurrent() *current {
	c := &current{}
	c.places.Store(new(map[string]string))
	c.retirement, c.stopRetiring = context.WithCancel(context.Background())
	return c
}

// graph returns the graph in force, nil until there is one.
func (c *current) graph() *graph { return c.now.Load() }

// members returns all upstreams that are not closed.
func (c *current) members() []*member {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.graph()
	if now == nil {
		return nil
	}
	return slices.Concat(now.members, c.retired)
}

// endUnused closes an upstream as soon as nothing runs there, or when the gateway stops.
func (c *current) endUnused(m *member, log *slog.Logger) {
	c.mu.Lock()
	c.retired = append(c.retired, m)
	c.mu.Unlock()
	c.retirements.Go(func() {
		ctx, cancel := context.WithTimeout(c.retirement, retiring)
		defer cancel()
		look := time.NewTicker(lookIdle)
		defer look.Stop()
		for !m.Idle() && ctx.Err() == nil {
			select {
			case <-look.C:
			case <-ctx.Done():
			}
		}
		if c.retirement.Err() != nil {
			return // the stop closes it, and knows how long that may take
		}
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), handOver)
		defer cancel()
		if err := m.close(closing); err != nil {
			log.Warn("upstream of the configuration before not closed in good order", failure.ReloadLeftovers.Attr(),
				"error", err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.retired = slices.DeleteFunc(c.retired, func(other *member) bool { return other == m })
	})
}

// close closes all upstreams, including those that only wait for their last call.
func (c *current) close(ctx context.Context) error {
	c.stopRetiring()
	err := closeAll(ctx, c.members())
	c.retirements.Wait() // the ones that closed by themselves have ended, too
	return err
}

// Keeps reports whether a call may use something that a server keeps for its client (front.Upstreams).
func (c *current) Keeps(call *mcp.Call) bool {
	return !results.Reads(call) && c.graph().catalog.Keeps(call)
}

// Differs reports whether a list may differ in what is kept for its client (front.Upstreams).
func (c *current) Differs(call *mcp.Call) bool { return c.graph().catalog.Differs(call) }

// RootsChanged tells the upstreams that the roots of a session's client have changed.
func (c *current) RootsChanged(session string) {
	for _, m := range c.members() {
		m.RootsChanged(session)
	}
}

// Tell passes an event of an upstream to a client's session (upstream.Clients). Log messages pass
// through the client's listening call, so that hooks see them, and the gateway's own events go at once.
func (c *current) Tell(server, session string, e mcp.Event) {
	if now := c.graph(); e.Method != mcp.NoteMessage {
		c.front.Sessions.Tell(session, e)
	} else if now != nil {
		now.catalog.HearMessage(server, session, e)
	}
}

// HearLists passes news of the lists of a client's own session to the catalog.
func (c *current) HearLists(server string, news mcp.SessionLists) {
	if now := c.graph(); now != nil { // sessions may end with a process that could not start
		now.catalog.HearSession(server, news)
	}
}

// approves reports whether someone may decide on calls of all these rules.
func (c *current) approves(rules []string, by *mcp.Caller) bool {
	return c.graph().rules.Approves(rules, by)
}

// holds reports whether a caller is still valid.
func (c *current) holds(ctx context.Context, caller *mcp.Caller) bool {
	return c.graph().holds(ctx, caller)
}

// ruleAt returns the place of a rule in the configuration file, "" if there is none.
func (c *current) ruleAt(rule string) string { return (*c.places.Load())[rule] }

// keeps returns the recorded parts of the arguments of calls on which a rule decides.
func (c *current) keeps(rule string) *record.Keep { return c.graph().rules.Keeps(rule) }

// era returns the revision that a server speaks, "" while it is not known, and whether it keeps sessions.
func (c *current) era(name string) (revision string, stateful bool) {
	if m := c.graph().member(name); m != nil && m.mcp != nil {
		return m.mcp.Era()
	}
	return "", false
}

// url returns the endpoint of a server, "" if there is none.
func (c *current) url(name string) string { return c.configured(name).URL }

// reach returns the URLs that the configuration trusts for a server, and how they are reached.
func (c *current) reach(name string) (trusted []string, route egress.Config) {
	u := c.configured(name)
	if u.URL != "" {
		trusted = u.Auth.Trusted(u.URL)
	}
	return trusted, u.Route()
}

func (c *current) configured(name string) upstream.Config {
	for _, u := range c.graph().cfg.Upstreams {
		if u.Name == name {
			return u
		}
	}
	return upstream.Config{}
}

// signedIn tells the catalog that a user has signed in or out at a server.
func (c *current) signedIn(server string, caller *mcp.Caller) {
	c.graph().catalog.SignedIn(server, caller)
}
