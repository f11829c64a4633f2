package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/gateway/ascaller"
	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/gateway/configtext"
	"github.com/gatehouse-mcp/gatehouse/gateway/diagnosis"
	"github.com/gatehouse-mcp/gatehouse/gateway/explain"
	"github.com/gatehouse-mcp/gatehouse/gateway/replay"
	"github.com/gatehouse-mcp/gatehouse/gateway/servers"
	"github.com/gatehouse-mcp/gatehouse/gateway/view"
	"github.com/gatehouse-mcp/gatehouse/internal/cluster"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/pin"
	"github.com/gatehouse-mcp/gatehouse/internal/recent"
	"github.com/gatehouse-mcp/gatehouse/internal/record"
	"github.com/gatehouse-mcp/gatehouse/internal/series"
	"github.com/gatehouse-mcp/gatehouse/internal/strictyaml"
)

// openOperators keeps what operators can ask for, if they can. Replicas have records in common.
func openOperators(g *Gateway, cfg Config, shared *stores, metrics *recent.Metrics) error {
	if !cfg.Admin.Operated() {
		return nil
	}
	deps := recent.Deps{Replica: shared.cluster.Self(), Log: g.log, Metrics: metrics}
	if shared.redis != nil {
		key, err := shared.key("recent records")
		if err != nil {
			return err
		}
		deps.DB, deps.Key = shared.redis, key
	}
	g.recent, g.series = recent.New(deps), series.New(time.Now())
	g.undo.onStop("recent records", g.recent.Close)
	return openConsole(g, cfg, shared)
}

// newAPI makes the API for operators.
func newAPI(g *Gateway) *admin.API {
	last := newLastFindings()
	desk := deskOf(g)
	return admin.New(admin.Deps{
		Config:  func() admin.Config { return g.graph().cfg.Admin.API },
		Trusted: trusted,
		Recent:  g.recent,
		Series:  g.series,
		Self:    g.services.cluster.Self(),
		Trails:  g.services.trails,
		Record:  func(r *record.Record) { g.journal.Put(r) },
		Log:     g.log,

		Upstreams: desk.Upstreams,
		Server:    desk.Server,
		Act:       desk.Act,
		Pins:      desk.Pins,
		Approve:   desk.Approve,
		Findings: func(ctx context.Context) ([]admin.Finding, error) {
			return last.of(ctx, func(ctx context.Context) diagnosis.Facts { return factsOf(ctx, g) })
		},
		Policy: func() admin.Policy {
			return shownPolicy(g.graph().cfg.Policy, func(rule string) string { return ruleAt(g, rule) })
		},
		Sessions:   func(ctx context.Context) ([]admin.Session, []string) { return sessionsOf(g).All(ctx) },
		EndSession: func(ctx context.Context, digest string) error { return sessionsOf(g).EndAnywhere(ctx, digest) },
		Accounts:   accountsDesk(accountNewsOf(g), func() Config { return g.graph().cfg }),
		Identify:   func(r *http.Request) (mcp.Caller, error) { return g.graph().auth.Identify(r) },
		FourEyes:   g.services.waiting,
		RuleAt:     func(rule string) string { return ruleAt(g, rule) },
		Replicas:   func() []admin.Replica { return shownReplicas(g) },
		Reload:     func() (admin.Reload, error) { return reloaded(g) },
		Explain: func(ctx context.Context, q admin.Question) (admin.Answer, error) {
			answer, err := explain.Explain(ctx, g.graph().cfg, q)
			answer.RuleAt = ruleAt(g, answer.Rule)
			return answer, err
		},
		Replay: func(ctx context.Context, d admin.Draft) (*replay.Report, error) { return replayRecent(ctx, g, d) },
		Lists: func(ctx context.Context, q admin.ListQuestion) (admin.ListAnswer, error) {
			return ascaller.Lists(ctx, listsOf(g), q)
		},
		Try: func(ctx context.Context, caller mcp.Caller, t admin.Trial) (admin.Tried, error) {
			return ascaller.Try(ctx, triesOf(g), caller, t)
		},
		Examine: func(ctx context.Context, token, view string) (admin.Examined, error) {
			now := g.graph()
			return explain.ExamineWith(ctx, now.cfg, now.auth, token, view) // knows tokens of the gateway's own authorization server, too
		},
		Alone: func() bool { return !g.graph().cfg.Auth.Identifies() },
		State: func() admin.State { return shownState(g) },
		Settings: admin.Settings{
			Text:      func() (admin.ConfigText, error) { return shownText(g) },
			Effective: func() (admin.EffectiveConfig, error) { return shownEffective(g) },
			History: func() []admin.ConfigChange {
				if g.history == nil {
					return nil
				}
				return g.history.All()
			},
			Check: func(text string, blind bool) admin.ConfigCheck { return checkText(g, []byte(text), blind) },
			Save:  func(text, revision string) (admin.Reload, error) { return savedText(g, []byte(text), revision) },
			Probe: func(ctx context.Context, p admin.Attempt) (admin.Probed, error) { return probed(ctx, g, p) },
			Saves: func() bool { return g.graph().cfg.Admin.Console.Save },
		},
	})
}

// refuses reports whether a caller may not use the view whose endpoint they come to.
func (g *graph) refuses(caller *mcp.Caller) bool {
	i := slices.IndexFunc(g.cfg.Views, func(v view.Config) bool { return v.Name == caller.View })
	return i >= 0 && g.viewUsers[i].First(caller) < 0
}

// listsOf returns what the lists of callers are made of.
func listsOf(g *Gateway) ascaller.ListDeps {
	now := g.graph()
	alone := !now.cfg.Auth.Identifies()
	return ascaller.ListDeps{
		Caller: func(q admin.ListQuestion) (mcp.Caller, error) {
			if _, err := config.ViewNamed(now.cfg, q.View); err != nil {
				return mcp.Caller{}, err
			}
			if alone {
				return mcp.NewCaller(mcp.Caller{View: q.View}), nil
			}
			return explain.Caller(now.cfg, admin.Question{Issuer: q.Issuer, User: q.User, Groups: q.Groups, Scopes: q.Scopes, Client: q.Client, Claims: q.Claims, View: q.View})
		},
		Alone: alone, Refused: now.refuses, Lists: now.way.Lists, Offered: now.catalog.Offered, Everything: now.catalog.Everything,
		Left: func() (all []ascaller.Left) {
			for i, view := range now.catalog.Status() { // in the order of the upstreams
				all = append(all, leftOut(view, now.members[i].Status())...)
			}
			for _, guard := range now.guards {
				all = append(all, notApproved(guard)...)
			}
			return all
		},
		Unknown: func() []string { return unknownLists(now.catalog.Status()) },
		Rules:   now.rules, RuleAt: func(rule string) string { return ruleAt(g, rule) }, Short: now.described.Short,
	}
}

// triesOf returns what tries tools.
func triesOf(g *Gateway) ascaller.TryDeps {
	now := g.graph()
	return ascaller.TryDeps{
		Calls: g.calls, Refused: now.refuses, Memory: g.services.memory, Trails: g.services.trails, Self: g.services.cluster.Self(),
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
		return nil, &admin.BadDraft{Problems: shownProblems(err)}
	}
	d.Filter.Kinds = []string{record.KindCall}
	found := g.recent.Find(ctx, recent.Query{Filter: d.Filter})
	r, err := explain.NewReplay(replay.Config{Key: g.journal.Key(), NoArguments: !d.Arguments}, draft, inForce(g))
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
		if err := r.Line(ctx, item.JSON(d.Arguments)); err != nil {
			r.Problem(replay.Problem{Message: err.Error()})
		}
	}
	return r.Report(), nil
}

// inForce returns the configuration that holds. If it is still in its file, references in it are
// read as in a draft, so that both can be compared.
func inForce(g *Gateway) *config.Loaded {
	if g.file != nil {
		if data, _, _, err := strictyaml.SeeFile(g.file.Path, config.MaxBytes); err == nil && config.RevisionOf(data) == g.ReloadStatus().Revision {
			if l, err := config.ReadBlindly(g.file.Path, data, nil); err == nil && config.DecidesBlindly(l) == nil {
				l.Text = data
				return &l
			}
		}
	}
	l := config.Loaded{Config: g.graph().cfg}
	if places := g.rulePlaces.Load(); places != nil {
		l.Places = *places
	}
	return &l
}

// maskedText returns a text of a configuration without its secrets, or why it is not shown.
func maskedText(text []byte) (masked, hidden string) {
	if text == nil {
		return "", "the file cannot be read"
	}
	masked, err := configtext.Masked(text, reflect.TypeFor[Config]())
	if err != nil {
		return "", err.Error()
	}
	return masked, ""
}

// noteRead adds a reading of the file to the history.
func noteRead(g *Gateway, l config.Loaded, changed []string, err error) {
	if g.history == nil {
		return
	}
	masked, hidden := maskedText(l.Text)
	g.history.Add(admin.ConfigChange{At: time.Now(), Revision: l.Revision, Applied: err == nil, Problems: shownProblems(err), Changed: changed}, masked, hidden)
}

func shownText(g *Gateway) (admin.ConfigText, error) {
	if g.file == nil {
		return admin.ConfigText{}, admin.ErrNoFile
	}
	data, _, _, err := strictyaml.SeeFile(g.file.Path, config.MaxBytes)
	if err != nil {
		return admin.ConfigText{}, fmt.Errorf("%s: cannot be read: %w", g.file.Path, err)
	}
	t := admin.ConfigText{File: g.file.Path, Revision: config.RevisionOf(data), Save: g.graph().cfg.Admin.Console.Save}
	t.Text, t.Hidden = maskedText(data)
	t.Masked = t.Hidden == "" && t.Text != string(data)
	t.InForce = t.Revision == g.ReloadStatus().Revision
	return t, nil
}

func shownEffective(g *Gateway) (admin.EffectiveConfig, error) {
	if g.history == nil {
		return admin.EffectiveConfig{}, admin.ErrNoFile
	}
	e := admin.EffectiveConfig{Revision: g.ReloadStatus().Revision}
	masked, hidden := g.history.Holds()
	cfg := g.graph().cfg
	cfg.Upstreams = slices.Clone(cfg.Upstreams)
	for i, u := range cfg.Upstreams {
		if u.Skills == "" {
			cfg.Upstreams[i] = u.WithDefaults()
			cfg.Upstreams[i].Transport = u.Transport // what it is by default shows when it is tried
		}
	}
	if e.Hidden = hidden; hidden == "" {
		var err error
		if e.Text, err = configtext.Effective(masked, cfg); err != nil {
			return e, err
		}
	}
	return e, nil
}

// checkText says what is wrong with a text, and what a reload of it would change. With blind, its
// references are not looked up.
func checkText(g *Gateway, text []byte, blind bool) (c admin.ConfigCheck) {
	before := g.graph().cfg
	next, err := config.Loaded{}, error(nil)
	switch {
	case maskProblem(text) != nil:
		c.Problems = maskProblem(text)
		return c
	case len(text) > config.MaxBytes:
		err = fmt.Errorf("it has more than %d bytes", config.MaxBytes)
	case blind:
		c.Notes = append(c.Notes, "References are not looked up for you: problems on lines that have one are not reported.")
		if now := inForce(g); now.Text != nil {
			before = now.Config.WithDefaults()
		} else {
			c.Notes = append(c.Notes, "The file is not the one that holds, so what the text would change cannot be told where it has references.")
		}
		next, err = config.ReadBlindly("", text, nil)
		if restart := next.Config.WithDefaults().NeedsRestart(before); err == nil && restart != nil {
			err = strictyaml.Unplaced(restart)
		}
	case g.file == nil:
		next, err = config.ReadText("", text, &before, os.LookupEnv)
	default:
		next, err = config.ReadText(g.file.Path, text, &before, os.LookupEnv)
	}
	if c.Problems = shownProblems(err); err != nil {
		return c
	}
	c.Warnings = shownProblems(&config.Error{Problems: next.Warnings})
	c.Changed = config.ChangedSections(before, next.Config.WithDefaults())
	c.Added, c.Replaced, c.Removed = config.ChangedServers(before, next.Config)
	slices.Sort(c.Removed)
	return c
}

// maskProblem says where a mask stands in place of a secret.
func maskProblem(text []byte) []admin.Problem {
	line, column := configtext.FindMask(text)
	if line == 0 {
		return nil
	}
	return []admin.Problem{{Line: line, Column: column, Message: configtext.Mask + " stands in place of a secret of the file, which is not shown: write a reference, such as ${env:NAME}, and put the secret there"}}
}

// savedText writes a text into the file and applies it.
func savedText(g *Gateway, text []byte, revision string) (admin.Reload, error) {
	switch {
	case g.file == nil:
		return admin.Reload{}, admin.ErrNoFile
	case !g.graph().cfg.Admin.Console.Save:
		return admin.Reload{}, admin.ErrNoSaving
	case len(text) > config.MaxBytes:
		return admin.Reload{}, &admin.BadDraft{Problems: []admin.Problem{{Message: fmt.Sprintf("it has more than %d bytes", config.MaxBytes)}}}
	case maskProblem(text) != nil:
		return admin.Reload{}, &admin.BadDraft{Problems: maskProblem(text)}
	}
	err := g.file.Still(revision)
	if err == nil {
		err = g.Save(text, revision)
	}
	if bad, ok := errors.AsType[*config.Error](err); ok {
		return admin.Reload{}, &admin.BadDraft{Problems: shownProblems(bad)}
	}
	if err != nil && !errors.Is(err, admin.ErrFileChanged) {
		err = fmt.Errorf("nothing was changed: %w", err)
	}
	return admin.Reload{Applied: err == nil, Revision: g.ReloadStatus().Revision}, err
}

// deskOf answers operators who ask for servers.
func deskOf(g *Gateway) servers.Desk {
	return servers.Desk{
		Book: g.services.servers, Replica: g.services.cluster.Self(), Log: g.log,
		Others:  func(ctx context.Context, path string) []string { return postOthers(ctx, g, path) },
		Now:     func() servers.Now { return g.graph().now() },
		Refresh: func(upstream string) { g.graph().catalog.Refresh(upstream) },
		Rebuild: g.rebuild, ReadLock: func() (pin.Lock, error) { return config.ReadLock(g.graph().cfg) },
	}
}

// factsOf collects what findings are about.
func factsOf(ctx context.Context, g *Gateway) diagnosis.Facts {
	now, desk := g.graph(), deskOf(g)
	f := diagnosis.Facts{
		Now: time.Now(), Stopping: g.draining.Load(), Replicas: shownReplicas(g), Store: strings.Join(g.storeAway(ctx), "; "), State: shownState(g),
		Upstreams: desk.Upstreams(), Pins: desk.Pins(""), Sinks: g.journal.Status(), Certificates: certificatesOf(now.cfg), Keys: now.cfg.Auth.Keys.All(), Series: g.series,
		Records: func(filter record.Filter) (all []*record.Entry) {
			for _, item := range g.recent.Find(ctx, recent.Query{Filter: filter}).Items {
				all = append(all, item.Entry())
			}
			return all
		},
	}
	if g.file != nil && len(f.State.Problems) > 0 {
		f.Line = lineOf(g.file.Path, f.State.Problems[0])
	}
	for _, m := range g.services.cluster.Missing() {
		f.Missing = append(f.Missing, diagnosis.Missing(m))
	}
	for _, d := range g.services.lookout.Found() {
		f.Deceits = append(f.Deceits, diagnosis.Deceit{Upstream: d.Upstream, Text: d.Text})
	}
	for i, view := range now.catalog.Status() { // in the order of the upstreams
		f.Broken = append(f.Broken, brokenOf(view, now.members[i].Status())...)
	}
	for _, i := range g.issuers() {
		f.Issuers = append(f.Issuers, diagnosis.Issuer{URL: i.URL, State: i.State, Reason: i.Reason})
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
func (g *graph) now() servers.Now {
	now := servers.Now{
		Views: g.catalog.Status(), Tools: g.catalog.Tools, Short: g.described.Short, Shortens: g.described,
		Hooks: g.cfg.Hooks, Guards: g.guards, Lock: g.lock, LockFile: config.LockFile(g.cfg),
	}
	for _, m := range g.members { // in the order of Views
		now.Members = append(now.Members, servers.Member{
			Server: m, MCP: m.mcp, Config: m.cfg, Transport: config.TransportOf(m.cfg), Target: config.TargetOf(m.cfg), Pinning: config.PinMode(g.cfg, m.cfg),
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
	if g.file == nil {
		return admin.Reload{}, admin.ErrNoFile
	}
	err := g.Reload()
	if errors.Is(err, ErrNotRunning) {
		return admin.Reload{}, err
	}
	return admin.Reload{Applied: err == nil, Revision: g.ReloadStatus().Revision, Problems: shownProblems(err)}, nil
}

// shownProblems returns what is wrong, a problem for each line of a configuration.
func shownProblems(err error) (all []admin.Problem) {
	if err == nil {
		return nil
	}
	bad, ok := errors.AsType[*config.Error](err)
	if !ok {
		return []admin.Problem{{Message: err.Error()}}
	}
	for _, p := range bad.Problems {
		message := p.Message
		if p.Path != "" {
			message = p.Path + ": " + message
		}
		all = append(all, admin.Problem{File: p.File, Line: p.Line, Column: p.Column, Message: message})
	}
	return all
}

func shownState(g *Gateway) admin.State {
	status, state := g.ReloadStatus(), g.graph().cfg.Summary().State
	state.Revision, state.Loaded, state.Tried, state.Problems = status.Revision, status.Loaded, status.Tried, shownProblems(status.Err)
	return state
}
