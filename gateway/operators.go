package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/gateway/replay"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/recent"
	"github.com/gatehouse-mcp/gatehouse/internal/record"
	"github.com/gatehouse-mcp/gatehouse/internal/strictyaml"
)

// openRecent keeps recent records, if operators can ask for them. Replicas have them in common.
func openRecent(g *Gateway, cfg Config, shared *stores, metrics *recent.Metrics) error {
	if cfg.Admin.API.IsZero() {
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
	g.recent = recent.New(deps)
	g.undo.onStop("recent records", g.recent.Close)
	return nil
}

// newAPI makes the API for operators.
func newAPI(g *Gateway) *admin.API {
	return admin.New(admin.Deps{
		Config:  func() admin.Config { return g.graph().cfg.Admin.API },
		Trusted: trusted,
		Recent:  g.recent,
		Record:  func(r *record.Record) { g.journal.Put(r) },
		Log:     g.log,

		Upstreams:  func() []admin.Upstream { return shownUpstreams(g.graph()) },
		Pins:       func() []admin.Pin { return shownPins(g.graph()) },
		Sessions:   func(ctx context.Context) ([]admin.Session, []string) { return sessionsOf(g).all(ctx) },
		EndSession: func(ctx context.Context, digest string) error { return sessionsOf(g).endAnywhere(ctx, digest) },
		Identify:   func(r *http.Request) (mcp.Caller, error) { return g.graph().auth.Identify(r) },
		FourEyes:   g.services.waiting,
		RuleAt:     func(rule string) string { return ruleAt(g.rulePlaces.Load(), rule) },
		Replicas:   func() []admin.Replica { return shownReplicas(g) },
		Reload:     func() (admin.Reload, error) { return reloaded(g) },
		Explain: func(ctx context.Context, q admin.Question) (admin.Answer, error) {
			a, err := Explain(ctx, g.graph().cfg, Question{
				Method: q.Method, Name: q.Name, Args: q.Args, Issuer: q.Issuer, User: q.User, Groups: q.Groups, Scopes: q.Scopes,
				Client: q.Client, Claims: q.Claims, View: q.View,
			})
			return admin.Answer{Effect: a.Effect, Text: a.Text, Hooks: a.Hooks, Notes: a.Notes}, err
		},
		Replay: func(ctx context.Context, d admin.Draft) (*replay.Report, error) { return replayRecent(ctx, g, d) },
		State:  func() admin.State { return shownState(g) },
	})
}

// mostDraftRules bounds the rules of a draft: compiling their conditions takes time, which calls
// need.
const mostDraftRules = 2000

// replayRecent runs a draft against the calls that are kept in memory. Whoever asks may know
// neither the environment nor the files of this machine, so the draft decides nothing by them.
func replayRecent(ctx context.Context, g *Gateway, d admin.Draft) (*replay.Report, error) {
	draft, err := parseDraft("draft", []byte(d.Config))
	if err == nil {
		err = decidesBlindly(draft)
	}
	if n := len(draft.cfg.Policy.Rules); err == nil && n > mostDraftRules {
		err = fmt.Errorf("policy.rules: %d are more than %d: let gatehouse policy replay try them, with files of records", n, mostDraftRules)
	}
	if err != nil {
		return nil, &admin.BadDraft{Problems: shownProblems(err)}
	}
	d.Filter.Kinds = []string{record.KindCall}
	found := g.recent.Find(ctx, recent.Query{Filter: d.Filter})
	r, err := newReplay(replay.Config{Key: g.journal.Key(), NoArguments: !d.Arguments}, draft, inForce(g))
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
func inForce(g *Gateway) *loaded {
	if g.file != nil {
		if data, _, _, err := strictyaml.SeeFile(g.file.path, maxConfigBytes); err == nil && revisionOf(data) == g.ReloadStatus().Revision {
			if l, err := parseDraft(g.file.path, data); err == nil && decidesBlindly(l) == nil {
				return &l
			}
		}
	}
	l := loaded{cfg: g.graph().cfg}
	if places := g.rulePlaces.Load(); places != nil {
		l.places = *places
	}
	return &l
}

// decidesBlindly says where something that decides is a reference that was not looked up.
func decidesBlindly(l loaded) error {
	var errs []error
	blind := func(key string, section any) {
		if text, err := json.Marshal(section); err != nil || bytes.Contains(text, []byte(strictyaml.StandIn)) {
			errs = append(errs, fmt.Errorf("%s: has a reference, which is not looked up here: write what it stands for", key))
		}
	}
	blind("policy", l.cfg.Policy)
	for i, v := range l.cfg.Views {
		blind(viewKey(i, v), v)
	}
	for i, issuer := range l.cfg.Auth.Issuers {
		blind(fmt.Sprintf("auth.issuers[%d].url", i), issuer.URL)
	}
	for i, u := range l.cfg.Upstreams {
		blind(fmt.Sprintf("upstreams[%d].name", i), u.Name)
	}
	if len(errs) == 0 {
		return nil
	}
	return strictyaml.Unplaced(errors.Join(errs...))
}

func shownUpstreams(now *graph) (all []admin.Upstream) {
	for i, view := range now.catalog.Status() { // in the order of the upstreams
		m := now.members[i]
		status := m.Status()
		health := healthOf(view, status)
		u := admin.Upstream{
			Name: view.Name, State: string(health.State), Since: health.Since, Transport: transportOf(m.cfg), Revision: status.Revision,
			Server: status.ServerName, Version: status.ServerVersion,
			Tools: view.Tools, Prompts: view.Prompts, Resources: view.Resources, Skills: view.Skills,
			Calls: status.Calls, Sessions: status.Sessions,
			LastFailure: (*admin.Failure)(health.LastFailure), RefusedUntil: health.RefusedUntil, UsersNeedLogin: health.UsersNeedLogin,
		}
		if u.Revision != "" {
			u.Era = "stateless"
			if status.Stateful {
				u.Era = "stateful"
			}
		}
		all = append(all, u)
	}
	return all
}

func shownPins(now *graph) (all []admin.Pin) {
	for _, guard := range now.guards {
		for _, f := range guard.Found() {
			all = append(all, admin.Pin{
				Upstream: f.Upstream, List: string(f.Kind), Name: f.Name, New: f.New, Differs: f.Differ, Deceives: f.Hidden, Hidden: f.Blocked,
				Definition: f.Definition,
			})
		}
	}
	return all
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
	bad, ok := errors.AsType[*ConfigError](err)
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
	status, s := g.ReloadStatus(), g.graph().cfg.Summary()
	state := admin.State{
		Revision: status.Revision, Loaded: status.Loaded, Tried: status.Tried, Problems: shownProblems(status.Err),
		Listen: s.Listen, Endpoint: s.Endpoint, Auth: s.Auth, Sessions: s.Sessions, Policy: s.Policy, Limits: s.Limits, Audit: s.Audit,
		Servers: []admin.ConfiguredOne{},
	}
	for _, u := range s.Upstreams {
		state.Servers = append(state.Servers, admin.ConfiguredOne(u))
	}
	for _, v := range s.Views {
		state.Views = append(state.Views, admin.ConfiguredView(v))
	}
	return state
}
