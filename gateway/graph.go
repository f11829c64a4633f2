package gateway

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/auth/accounts"
	"github.com/gatehouse-mcp/gatehouse/auth/clientele"
	"github.com/gatehouse-mcp/gatehouse/auth/grants"
	"github.com/gatehouse-mcp/gatehouse/auth/outbound"
	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/gateway/catalog"
	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/gateway/diagnose"
	"github.com/gatehouse-mcp/gatehouse/gateway/feature/disclosure"
	"github.com/gatehouse-mcp/gatehouse/gateway/feature/loadskill"
	"github.com/gatehouse-mcp/gatehouse/gateway/lifecycle"
	"github.com/gatehouse-mcp/gatehouse/gateway/operate"
	"github.com/gatehouse-mcp/gatehouse/gateway/pinning"
	"github.com/gatehouse-mcp/gatehouse/gateway/view"
	"github.com/gatehouse-mcp/gatehouse/internal/egress"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/pin"
	"github.com/gatehouse-mcp/gatehouse/policy"
	"github.com/gatehouse-mcp/gatehouse/upstream"
	"github.com/gatehouse-mcp/gatehouse/upstream/skilldir"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport/dial"
)

// graph holds the parts that the configuration shapes: the authentication of callers, the
// upstreams, the catalog over them and the pipeline above it. Making one does no I/O. A reload
// makes a new graph, which shares the unchanged parts.
type graph struct {
	cfg  config.Config // with defaults
	auth *auth.Auth
	// server is the gateway's own authorization server, nil for none.
	server    *grants.Server
	viewUsers operate.ViewUsers
	staff     *admin.Staff // the roles of people in the console

	members []*member        // the upstreams, in the order of the configuration
	guards  []*pinning.Guard // of the upstreams that are pinned
	lock    pin.Lock         // their approved definitions, for operators; nil if there are none
	catalog *catalog.Catalog
	stages

	stop func(context.Context) error // ends the catalog's watches; nil before they begin
}

// member is an upstream and what belongs to it alone.
type member struct {
	server
	reports     *operate.Reports   // take its states
	renewed     bool               // the next graph makes it again; Gateway.reloading guards it
	counted     catalog.Upstream   // the same upstream, for the catalog
	mcp         *upstream.Upstream // the server; nil, like the next two fields, for a directory of skills
	cfg         upstream.Config
	credentials *outbound.Credentials
	oneUser     bool // see newMember
	transport   *dial.Transport
}

// server is an upstream of either kind: an MCP server or a directory of skills.
type server interface {
	catalog.Upstream
	Status() upstream.Status
	PerUser() bool
	Idle() bool
	RootsChanged(session string)
	Close(ctx context.Context) error
}

// holds reports whether a caller is still valid, and may still use the view of the call.
func (g *graph) holds(ctx context.Context, c *mcp.Caller) bool {
	_, err := config.ViewNamed(g.cfg, c.View)
	return err == nil && !g.viewUsers.Refuse(c) && g.auth.Holds(ctx, c)
}

// newGraph makes a graph of a configuration with defaults. before is the graph that it
// replaces, nil for none: unchanged upstreams are taken from there.
func newGraph(cfg config.Config, with *shared, before *graph) (g *graph, err error) {
	g = &graph{cfg: cfg}
	defer func() {
		if err != nil {
			g.drop(before)
			g = nil
		}
	}()
	if before != nil && before.cfg.PublicURL == cfg.PublicURL && before.cfg.Proxy == cfg.Proxy &&
		before.cfg.Auth.SameButKeys(cfg.Auth) {
		g.auth, g.server = before.auth, before.server
	} else if g.auth, g.server, err = newAuth(cfg, with); err != nil {
		return g, err
	}
	views := make(map[string]*view.View)
	g.viewUsers = make(operate.ViewUsers)
	for i, v := range cfg.Views {
		if g.viewUsers[v.Name], err = policy.NewAudiences([]policy.Who{v.Who}); err != nil {
			return g, fmt.Errorf("%s: who: %w", config.ViewKey(i, v), err)
		}
		if views[v.Name], err = view.New(v, disclosure.ToolName, loadskill.ToolName); err != nil {
			return g, fmt.Errorf("%s: %w", config.ViewKey(i, v), err)
		}
	}
	if g.staff, err = admin.NewStaff(cfg.Admin.Rules, cfg.Policy.Approvers()); err != nil {
		return g, fmt.Errorf("admin.rules: %w", err)
	}
	var lock pin.Lock
	if with.collect == nil {
		if lock, err = config.NeededLock(cfg); err != nil {
			return g, err
		}
	}
	if with.servers != nil {
		g.lock = lock
	}
	var sources []catalog.Source
	for _, c := range cfg.Upstreams {
		if !config.Enabled(c) {
			continue
		}
		m, err := newMember(c, with, before.member(c.Name), !cfg.Auth.Identifies() && c.Auth.Type == outbound.TypeUserOAuth)
		if err != nil {
			return g, err
		}
		g.members = append(g.members, m)
		server := m.counted
		switch mode := config.PinMode(cfg, c); {
		case with.collect != nil:
			server = pinning.Collector{Server: server, Collect: with.collect}
		case mode != pinning.Off:
			guard := pinning.New(server, mode, lock.Of(c.Name), func(f pinning.Finding) { with.events.NotApproved(with.log, f) })
			g.guards, server = append(g.guards, guard), guard
		}
		source := catalog.Source{Upstream: with.servers.Guard(server), Prefix: c.Prefix, PerUser: m.PerUser(),
			SkillDir: c.Skills != "", Items: c.Limits.Items}
		if m.mcp != nil {
			source.Keeps, source.HasSession, source.ByClass = m.mcp.Keeps, m.mcp.HasSession, !c.Shared
		}
		if c.Auth.Type == outbound.TypeUserOAuth {
			source.SignInAt = accounts.Origin(cfg.PublicURL) + accounts.Root
		}
		sources = append(sources, source)
	}
	deps := catalog.Deps{Views: views, Log: with.listed, Seal: with.cursors, Tasks: with.tasks,
		Changed: with.events.Changed, Turned: with.turned, Published: with.spoofs.Changed, Keep: with.kept}
	if before == nil {
		g.catalog, err = catalog.New(cfg.Naming, sources, deps)
	} else {
		g.catalog, err = before.catalog.Successor(cfg.Naming, sources, deps)
	}
	if err != nil {
		return g, err
	}
	g.stages, err = pipeline(cfg, g.catalog, with)
	g.pipe.Holds = g.holds
	return g, err
}

// newAuth makes the authentication of callers, and the gateway's own authorization server, nil if
// there is none.
func newAuth(cfg config.Config, with *shared) (*auth.Auth, *grants.Server, error) {
	deps := auth.Deps{PublicURL: cfg.PublicURL, Views: config.ViewURLs(cfg), Log: with.log, Metrics: with.metrics.Tokens,
		Proofs: with.proofs, Judged: with.events.Judged, Origin: originOf}
	if !cfg.Auth.Server.Enabled {
		who, err := auth.New(cfg.Auth, deps)
		return who, nil, err
	}
	keys, err := with.oauth.NewKeys(cfg.Auth.Server)
	if err != nil {
		return nil, nil, err
	}
	deps.Local = keys
	who, err := auth.New(cfg.Auth, deps)
	if err != nil {
		return nil, nil, err
	}
	issuer := cfg.Auth.WithDefaults(deps.PublicURL).Server.Issuer
	known, err := clientele.New(cfg.Auth.Server.Clientele(), clientele.Deps{
		Issuer: issuer, Key: with.oauth.ClientsKey(), Documents: with.oauth.Documents(),
		Route: egress.Config{Proxy: cfg.Proxy}, Shared: cfg.Connections.Proxied, Log: with.log,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("auth: server: %w", err)
	}
	server, err := grants.New(cfg.Auth, grants.Deps{
		PublicURL: deps.PublicURL, Views: deps.Views, Auth: who, Clients: known, State: with.oauth, Keys: keys,
		Log: with.log, Metrics: with.metrics.Grants, Recorded: with.events.Granted,
	})
	return who, server, err
}

// newMember makes an upstream, unless the one before is the same. oneUser says that the accounts there are
// those of one user without a name.
func newMember(c upstream.Config, with *shared, before *member, oneUser bool) (*member, error) {
	if before != nil && !before.renewed && before.oneUser == oneUser && config.SameServer(c, before.cfg) {
		same := *before
		same.cfg = c
		return &same, nil
	}
	if c.Skills != "" {
		d, err := skilldir.New(c, with.log)
		if err != nil {
			return nil, err
		}
		return &member{server: d, reports: with.servers.Of(c.Name).NewReports(), counted: with.metrics.Calls.Of(d), cfg: c},
			nil
	}
	credentials, err := outbound.New(c.Auth, outbound.Deps{Log: with.log, Upstream: c.Name, URL: c.URL, Vault: with.vault,
		Route: c.Route(), OneUser: oneUser, Fetched: with.events.Fetched})
	if err != nil {
		return nil, err
	}
	var former *upstream.Upstream
	if before != nil {
		former = before.mcp
	}
	transport, reports := upstream.NewTransport(with.metrics.Upstreams, c), with.servers.Of(c.Name).NewReports()
	u, err := upstream.New(c, upstream.Deps{
		Log:         with.log,
		HTTP:        transport,
		HTTPFor:     transport.For,
		Credentials: credentials,
		Version:     with.version,
		Hop:         with.hop,
		Clients:     with.clients,
		Changed:     reports.Called,
		Before:      former,
		Homes:       with.homes(),
		Keeper:      with.kept,
		Memory:      with.memory,
		Metrics:     with.metrics.Upstreams,
		Tracer:      with.tracer,
	})
	if err != nil {
		credentials.Close()
		return nil, err
	}
	return &member{server: u, reports: reports, counted: with.metrics.Calls.Of(u), mcp: u, cfg: c,
		credentials: credentials, oneUser: oneUser, transport: transport}, nil
}

// close ends the upstream and its processes.
func (m *member) close(ctx context.Context) error {
	err := m.server.Close(ctx)
	if m.mcp != nil {
		m.credentials.Close()
		m.transport.CloseIdleConnections()
	}
	if err != nil {
		return fmt.Errorf("upstream %s: %w", m.Name(), err)
	}
	return nil
}

// member returns the member with a name, or nil.
func (g *graph) member(name string) *member {
	if g != nil {
		for _, m := range g.members {
			if m.Name() == name {
				return m
			}
		}
	}
	return nil
}

// has reports whether an upstream belongs to this graph.
func (g *graph) has(m *member) bool {
	same := g.member(m.Name())
	return same != nil && same.server == m.server
}

// watch runs the catalog's watches, and a SpoofLog unless it is nil, until stop. Then hooks need no
// connections any more, except those of calls that still run.
func (g *graph) watch(l *diagnose.SpoofLog) {
	g.stop = lifecycle.Run(func(ctx context.Context) error {
		defer g.guardrails.Close()
		if l != nil {
			var search sync.WaitGroup
			defer search.Wait()
			search.Go(func() { l.Run(ctx, g.surface()) })
		}
		return g.catalog.Run(ctx)
	})
}

// surface returns what clients see.
func (g *graph) surface() diagnose.Surface {
	return diagnose.Surface{Config: g.cfg, Tools: g.catalog.Tools, Shown: g.catalog.Shown}
}

// drop closes the parts of a graph that was never used, except those that it shares with before.
func (g *graph) drop(before *graph) {
	now, cancel := context.WithCancel(context.Background())
	cancel()
	for _, m := range g.members {
		if before == nil || !before.has(m) {
			_ = m.close(now) // nothing was done with it
		}
	}
}

// closeAll ends upstreams, all at the same time.
func closeAll(ctx context.Context, members []*member) error {
	errs := make([]error, len(members))
	var all sync.WaitGroup
	for i, m := range members {
		all.Go(func() { errs[i] = m.close(ctx) })
	}
	all.Wait()
	return errors.Join(errs...)
}
