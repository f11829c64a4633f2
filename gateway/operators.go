package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/auth/signin"
	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/gateway/diagnose"
	"github.com/gatehouse-mcp/gatehouse/gateway/operate"
	"github.com/gatehouse-mcp/gatehouse/gateway/replay"
	"github.com/gatehouse-mcp/gatehouse/gateway/trial"
	"github.com/gatehouse-mcp/gatehouse/gateway/whatif"
	"github.com/gatehouse-mcp/gatehouse/internal/cluster"
	"github.com/gatehouse-mcp/gatehouse/internal/loopback"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/pin"
	"github.com/gatehouse-mcp/gatehouse/internal/recent"
	"github.com/gatehouse-mcp/gatehouse/internal/record"
	"github.com/gatehouse-mcp/gatehouse/internal/trail"
)

// openOperators keeps what operators can ask for, if they can. Replicas have records in common.
func openOperators(g *Gateway, cfg config.Config, shared *stores, metrics *recent.Metrics) {
	if !cfg.Admin.Operated() {
		return
	}
	deps := recent.Deps{
		Replica:  shared.cluster.Self(),
		Most:     cfg.Admin.API.RecentBytes,
		Messages: trail.Mode(cfg.Admin.API.Messages),
		Log:      g.log,
		Metrics:  metrics,
	}
	if shared.redis != nil {
		deps.DB, deps.Key = shared.redis, shared.key("recent records")
	}
	g.recent = recent.New(deps)
	g.undo.OnStop("recent records", g.recent.Close)
	if !cfg.Admin.Console.IsZero() {
		g.console = visitors{
			people: signin.NewSessions(shared.redis, shared.key("people who have signed in")),
			flows:  shared.key("sign-ins that have begun"),
			ended:  signin.NewEnded(shared.redis),
		}
	}
}

// newAPI makes the API for operators.
func newAPI(g *Gateway) *admin.API {
	servers, configuration := serversOf(g), configurationOf(g)
	return admin.New(admin.Deps{
		Config:  func() admin.Config { return g.graph().cfg.Admin.API },
		Trusted: loopback.Sent,
		Recent:  g.recent,
		Lasting: g.services.lasting,
		Self:    g.services.cluster.Self(),
		CallAt: func(ctx context.Context, replica, id string, roles []string) ([]byte, error) {
			return callAt(ctx, g, replica, id, roles)
		},
		Record: func(r *record.Record) { g.journal.Put(r) },
		Origin: originOf,
		Log:    g.log,

		Upstreams:  servers.Upstreams,
		Server:     servers.Server,
		Act:        servers.Act,
		Pins:       servers.Pins,
		Approve:    servers.Approve,
		Findings:   diagnose.NewFinder(func(ctx context.Context) diagnose.Facts { return factsOf(ctx, g) }).Findings,
		Policy:     configuration.Policy,
		Sessions:   func(ctx context.Context) ([]admin.Session, []string) { return sessionsOf(g).All(ctx) },
		EndSession: func(ctx context.Context, digest string) error { return sessionsOf(g).EndAnywhere(ctx, digest) },
		Accounts:   accountsOf(g),
		Identify:   func(r *http.Request) (mcp.Caller, error) { return g.graph().auth.Identify(r) },
		FourEyes:   g.services.waiting,
		RuleAt:     g.ruleAt,
		Replicas:   func() []admin.Replica { return shownReplicas(g) },
		Reload:     func() (admin.Reload, error) { return reloaded(g) },
		Explain: func(ctx context.Context, q admin.Question) (admin.Answer, error) {
			answer, err := whatif.Explain(ctx, g.graph().cfg, q)
			answer.RuleAt = g.ruleAt(answer.Rule)
			return answer, err
		},
		Replay: func(ctx context.Context, d admin.Draft) (*replay.Report, error) { return replayRecent(ctx, g, d) },
		Lists: func(ctx context.Context, q admin.ListQuestion) (admin.ListAnswer, error) {
			return whatif.Lists(ctx, listsOf(g), q)
		},
		Try: func(ctx context.Context, caller mcp.Caller, t admin.Trial) (admin.Tried, error) {
			return whatif.Try(ctx, triesOf(g), caller, t)
		},
		Examine: func(ctx context.Context, token, view string) (admin.Examined, error) {
			now := g.graph()
			return whatif.ExamineWith(ctx, now.cfg, now.auth, token, view) // knows tokens of the gateway's own authorization server, too
		},
		Alone: func() bool { return !g.graph().cfg.Auth.Identifies() },
		State: configuration.State,
		Settings: admin.Settings{
			Text: configuration.Text, Effective: configuration.Effective, History: configuration.Changes, Check: configuration.Check, Save: configuration.Save, Saves: configuration.Saves,
			Probe: func(ctx context.Context, p admin.Attempt) (admin.Probed, error) { return tries(g).Probe(ctx, p) },
		},
	})
}

// refuses reports whether a caller may not use the view whose endpoint they come to.
func (g *graph) refuses(caller *mcp.Caller) bool {
	users := g.viewUsers[caller.View]
	return users != nil && users.First(caller) < 0
}

// tries returns what operators try servers with.
func tries(g *Gateway) trial.Service {
	now := g.graph().cfg
	d := trial.Service{Inspect: Inspector(g.services.version, slog.New(slog.DiscardHandler)), Configured: now.Upstreams}
	if g.file != nil && now.Admin.Console.Save {
		d.File = g.file.Path
	}
	return d
}

// listsOf returns what the lists of callers are made of.
func listsOf(g *Gateway) whatif.ListDeps {
	now := g.graph()
	alone := !now.cfg.Auth.Identifies()
	return whatif.ListDeps{
		Caller: func(q admin.ListQuestion) (mcp.Caller, error) {
			if _, err := config.ViewNamed(now.cfg, q.View); err != nil {
				return mcp.Caller{}, err
			}
			if alone {
				return mcp.NewCaller(mcp.Caller{View: q.View}), nil
			}
			return whatif.Caller(now.cfg, admin.Question{Issuer: q.Issuer, User: q.User, Groups: q.Groups, Scopes: q.Scopes, Client: q.Client, Claims: q.Claims, View: q.View})
		},
		Alone: alone, Refused: now.refuses, Lists: now.pipe.Lists, Offered: now.catalog.Offered, Everything: now.catalog.Everything,
		Now: now.now, Rules: now.rules, RuleAt: g.ruleAt,
	}
}

// triesOf returns what tries tools.
func triesOf(g *Gateway) whatif.TryDeps {
	now := g.graph()
	return whatif.TryDeps{
		Calls: g.calls, Observe: g.observer.Observe, Refused: now.refuses, Memory: g.services.memory, Trails: g.recent.Trails(), Self: g.services.cluster.Self(),
		HasView: func(name string) bool { _, err := config.ViewNamed(now.cfg, name); return err == nil },
		Own: func(ctx context.Context, c *mcp.Call) error {
			if !g.services.cluster.Shared() || !now.catalog.Keeps(c) {
				return nil
			}
			user, id, _ := strings.Cut(c.Session, ":")
			_, err := g.services.cluster.Own(ctx, cluster.Home{User: user, ID: id})
			return err
		},
	}
}

// mostDraftRules bounds the rules of a draft: compiling their conditions takes time, which calls
// need.
const mostDraftRules = 2000

// replayRecent runs a draft against the calls that are kept in memory. Whoever asks may know
// neither the environment nor the files of this machine, so the draft decides nothing by them.
func replayRecent(ctx context.Context, g *Gateway, d admin.Draft) (*replay.Report, error) {
	draft, err := config.ReadBlindly("draft", []byte(d.Config), nil)
	if err == nil {
		err = config.DecidesBlindly(draft)
	}
	if n := len(draft.Config.Policy.Rules); err == nil && n > mostDraftRules {
		err = fmt.Errorf("policy.rules: %d are more than %d: let gatehouse policy replay try them, with files of records", n, mostDraftRules)
	}
	if err != nil {
		return nil, &admin.BadDraft{Problems: operate.Problems(err)}
	}
	d.Filter.Kinds = []string{record.KindCall}
	found := g.recent.Find(ctx, recent.Query{Filter: d.Filter})
	r, err := whatif.NewReplay(replay.Config{Key: g.journal.Key(), NoArguments: !d.Arguments}, draft, configurationOf(g).InForce())
	if err != nil {
		return nil, err
	}
	if found.Partial != nil {
		r.Note("Redis does not answer: calls at other replicas may be missing.")
	}
	for _, item := range slices.Backward(found.Items) { // the newest one is first
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		r.Record(ctx, item.Shown(d.Arguments))
	}
	return r.Report(), nil
}

// configurationOf answers operators who ask for the configuration.
func configurationOf(g *Gateway) operate.Configuration {
	return operate.Configuration{
		File: g.file, History: g.history, Apply: g.Save,
		Now:    func() config.Config { return g.graph().cfg },
		Status: g.ReloadStatus,
		Places: func() map[string]string { return *g.rulePlaces.Load() },
	}
}

// serversOf answers operators who ask for servers.
func serversOf(g *Gateway) operate.Servers {
	return operate.Servers{
		Book: g.services.servers, Replica: g.services.cluster.Self(), Log: g.log,
		Others:  func(ctx context.Context, path string) []string { return postOthers(ctx, g, path) },
		Now:     func() operate.Now { return g.graph().now() },
		Refresh: func(upstream string) { g.graph().catalog.Refresh(upstream) },
		Rebuild: g.rebuild, ReadLock: func() (pin.Lock, error) { return config.ReadLock(g.graph().cfg) },
	}
}

// factsOf collects what findings are about.
func factsOf(ctx context.Context, g *Gateway) diagnose.Facts {
	now, servers, state := g.graph(), serversOf(g), configurationOf(g).State()
	f := diagnose.Facts{
		Now: time.Now(), Stopping: g.draining.Load(), Replicas: shownReplicas(g), Store: g.health.StoreAway(ctx), State: state,
		Upstreams: servers.Upstreams(), Pins: servers.Pins(""), Sinks: g.journal.Status(), Certificates: diagnose.CertificatesOf(now.cfg), Hooks: now.guardrails.Outages(), Keys: now.cfg.Auth.Keys.All(), Series: g.recent.Series,
		Spoofs: g.services.spoofs.Found(), Broken: diagnose.BrokenOf(now.now()), Issuers: now.auth.Status(),
		Records: func(filter record.Filter) (all []*record.Record) {
			for _, item := range g.recent.Find(ctx, recent.Query{Filter: filter}).Items {
				all = append(all, item.Record)
			}
			return all
		},
	}
	if len(state.Problems) > 0 {
		f.Line = configurationOf(g).Line(state.Problems[0])
	}
	for _, m := range g.services.cluster.Missing() {
		f.Missing = append(f.Missing, diagnose.Missing(m))
	}
	return f
}

// postOthers has all other replicas serve a POST. It returns those that did not. One that does not
// know of a server has nothing to do.
func postOthers(ctx context.Context, g *Gateway, path string) (missing []string) {
	for _, answer := range g.services.cluster.Ask(ctx, http.MethodPost, path) {
		if answer.Err != nil || answer.Status != http.StatusNoContent && answer.Status != http.StatusNotFound {
			missing = append(missing, answer.Replica)
		}
	}
	return missing
}

// now is what operators see of a graph.
func (g *graph) now() operate.Now {
	now := operate.Now{
		Views: g.catalog.Status(), Tools: g.catalog.Tools, Short: g.described.Short, Shortens: g.described,
		Hooks: g.cfg.Hooks, Guards: g.guards, Lock: g.lock, LockFile: config.LockFile(g.cfg),
	}
	for _, m := range g.members { // in the order of Views
		now.Members = append(now.Members, operate.Member{
			Server: m, MCP: m.mcp, Config: m.cfg, Transport: config.TransportOf(m.cfg), Target: g.cfg.Target(m.cfg), Pinning: config.PinMode(g.cfg, m.cfg),
		})
	}
	return now
}

func shownReplicas(g *Gateway) []admin.Replica {
	all := []admin.Replica{{Name: g.services.cluster.Self(), Self: true, Revision: g.ReloadStatus().Revision, Leaving: g.draining.Load()}}
	for _, r := range g.replicas() {
		all = append(all, admin.Replica{Name: r.Name, Address: r.Address, Revision: r.Revision, Leaving: r.Leaving, Error: r.Error})
	}
	return all
}

// reloaded reads the configuration again.
func reloaded(g *Gateway) (admin.Reload, error) {
	err := g.Reload()
	if errors.Is(err, admin.ErrNoFile) || errors.Is(err, ErrNotRunning) {
		return admin.Reload{}, err
	}
	state := configurationOf(g).State()
	return admin.Reload{Applied: err == nil, Revision: state.Revision, Problems: operate.Problems(err), Pending: state.Pending}, nil
}
