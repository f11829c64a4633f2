package gateway

import (
	"context"
	"errors"

	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/internal/recent"
	"github.com/gatehouse-mcp/gatehouse/internal/record"
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

		Upstreams: func() []admin.Upstream { return shownUpstreams(g.graph()) },
		Pins:      func() []admin.Pin { return shownPins(g.graph()) },
		Sessions:  func() []admin.Session { return shownSessions(g.services.list()) },
		EndSession: func(ctx context.Context, digest string) error {
			return endDigest(ctx, g.services.list(), g.services.sessions.Delete, digest)
		},
		Replicas: func() []admin.Replica { return shownReplicas(g) },
		Reload:   func() (admin.Reload, error) { return reloaded(g) },
		Explain: func(ctx context.Context, q admin.Question) (admin.Answer, error) {
			a, err := Explain(ctx, g.graph().cfg, Question{
				Method: q.Method, Name: q.Name, Args: q.Args, Issuer: q.Issuer, User: q.User, Groups: q.Groups, Scopes: q.Scopes,
				Client: q.Client, Claims: q.Claims, View: q.View,
			})
			return admin.Answer{Effect: a.Effect, Text: a.Text, Notes: a.Notes}, err
		},
		State: func() admin.State { return shownState(g) },
	})
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
