package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/gateway/catalog"
	"github.com/gatehouse-mcp/gatehouse/gateway/diagnose"
	"github.com/gatehouse-mcp/gatehouse/gateway/front/live"
	"github.com/gatehouse-mcp/gatehouse/gateway/operate"
	"github.com/gatehouse-mcp/gatehouse/gateway/trial"
	"github.com/gatehouse-mcp/gatehouse/gateway/whatif"
	"github.com/gatehouse-mcp/gatehouse/internal/cluster"
	"github.com/gatehouse-mcp/gatehouse/internal/home"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/recent"
	"github.com/gatehouse-mcp/gatehouse/internal/record"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// newAPI makes the API for operators.
func newAPI(g *Gateway) *admin.API {
	configuration := configurationOf(g)
	return admin.New(admin.Deps{
		Config:        func() admin.Config { return g.graph().cfg.Admin.API },
		Origin:        originOf,
		Identify:      func(r *http.Request) (mcp.Caller, error) { return g.graph().auth.Identify(r) },
		Recent:        g.recent,
		Lasting:       g.lasting,
		Journal:       g.journal,
		FourEyes:      g.waiting,
		Replicas:      operated{g},
		Self:          g.cluster.Self(),
		Servers:       serversOf(g),
		Configuration: configuration,
		Settings:      configuration,
		Sessions:      sessionsOf(g),
		Accounts:      accountsOf(g),
		Finder:        diagnose.NewFinder(func(ctx context.Context) diagnose.Facts { return factsOf(ctx, g) }),
		WhatIf: whatif.Service{
			Configuration: configuration,
			Recent:        g.recent,
			Journal:       g.journal,
			Calls:         g.current.calls,
			Observe:       g.observer.Observe,
			Own:           operated{g}.own,
			Memory:        g.memory,
			Self:          g.cluster.Self(),
		},
		Prober: trial.Service{
			Inspect: Inspector(g.version, slog.New(slog.DiscardHandler)),
			File:    g.file,
			Now:     operated{g}.now,
		},
		Log: g.log,
	})
}

// own makes this replica the owner of what servers keep for a call.
func (g operated) own(ctx context.Context, c *mcp.Call) error {
	if !g.cluster.Shared() || !g.graph().catalog.Keeps(c) {
		return nil
	}
	user, id, _ := strings.Cut(c.Session, ":")
	_, err := g.cluster.Own(ctx, cluster.Home{User: user, ID: id})
	return err
}

// configurationOf answers operators who ask for the configuration.
func configurationOf(g *Gateway) operate.Configuration {
	return operate.Configuration{File: g.file, History: g.history, Now: operated{g}.now, Read: g.Reload, Apply: g.Save}
}

// serversOf answers operators who ask for servers.
func serversOf(g *Gateway) operate.Servers {
	return operate.Servers{
		Book:    g.servers,
		Replica: g.cluster.Self(),
		Now:     operated{g}.now,
		Rebuild: g.rebuild,
		Others:  operated{g}.post,
		Log:     g.log,
	}
}

// serving returns the facts that readiness depends on.
func (g operated) serving() diagnose.Serving {
	return diagnose.Serving{
		Stopping:      g.draining.Load(),
		Heard:         g.graph().catalog.Heard(),
		Upstreams:     g.Health(),
		Issuers:       g.graph().auth.Status(),
		Replicas:      g.replicas(),
		Version:       g.version,
		Configuration: g.ReloadStatus(),
	}
}

// factsOf collects the facts for findings.
func factsOf(ctx context.Context, g *Gateway) diagnose.Facts {
	now, servers, state := g.graph(), serversOf(g), configurationOf(g).State()
	f := diagnose.Facts{
		Now:          time.Now(),
		Stopping:     g.draining.Load(),
		Replicas:     operated{g}.All(),
		Store:        g.health.StoreAway(ctx),
		State:        state,
		Upstreams:    servers.Upstreams(),
		Broken:       diagnose.BrokenOf(operated{g}.now()),
		Pins:         servers.Pins(""),
		Spoofs:       g.spoofs.Found(),
		Hooks:        now.guardrails.Outages(),
		Issuers:      now.auth.Status(),
		Sinks:        g.journal.Status(),
		Certificates: append(diagnose.CertificatesOf(now.cfg), g.certificates.shown()...),
		Keys:         now.cfg.Auth.Keys.All(),
		Series:       g.recent.Series,
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
	for _, m := range g.cluster.Missing() {
		f.Missing = append(f.Missing, diagnose.Missing(m))
	}
	return f
}

// now returns what operators see of the graph.
func (g operated) now() operate.Now {
	of := g.graph()
	now := operate.Now{
		Config:    of.cfg,
		Status:    g.ReloadStatus(),
		Places:    *g.current.places.Load(),
		Auth:      of.auth,
		Rules:     of.rules,
		ViewUsers: of.viewUsers,
		Catalog:   offered{of},
		Lists:     of.pipe.Lists,
		Described: of.described,
		Guards:    of.guards,
		Lock:      of.lock,
	}
	for _, m := range of.members {
		now.Members = append(now.Members, operate.Member{Server: m, MCP: m.mcp, Config: m.cfg})
	}
	return now
}

// offered is the catalog of a graph without its calls.
type offered struct{ *graph }

func (o offered) Status() []catalog.UpstreamView      { return o.catalog.Status() }
func (o offered) Tools(upstream string) []mcp.Item    { return o.catalog.Tools(upstream) }
func (o offered) OwnLists(session string) []string    { return o.catalog.OwnLists(session) }
func (o offered) Offered(c *mcp.Call) []mcp.Item      { return o.catalog.Offered(c) }
func (o offered) Everything(method string) []mcp.Item { return o.catalog.Everything(method) }
func (o offered) Refresh(upstream string)             { o.catalog.Refresh(upstream) }

// operated is a gateway as its operators see it.
type operated struct{ *Gateway }

// All returns this replica and the others.
func (r operated) All() []admin.Replica {
	all := []admin.Replica{{
		Name:     r.cluster.Self(),
		Self:     true,
		Revision: r.ReloadStatus().Revision,
		Leaving:  r.draining.Load(),
	}}
	for _, o := range r.replicas() {
		one := admin.Replica{Name: o.Name, Address: o.Address, Revision: o.Revision, Leaving: o.Leaving, Error: o.Error}
		all = append(all, one)
	}
	return all
}

// LoadOf counts what this replica holds of a session.
func (r operated) LoadOf(session string) live.Load { return r.front.Sessions.LoadOf(session) }

// OwnLists returns the servers that show a session other lists.
func (r operated) OwnLists(session string) []string { return r.graph().catalog.OwnLists(session) }

// post sends a POST to all other replicas. It returns those that did not serve it. One that does
// not know of a server has nothing to do.
func (r operated) post(ctx context.Context, path string) (missing []string) {
	for _, answer := range r.cluster.Ask(ctx, http.MethodPost, path) {
		if answer.Err != nil || answer.Status != http.StatusNoContent && answer.Status != http.StatusNotFound {
			missing = append(missing, answer.Replica)
		}
	}
	return missing
}

// sessionsOf answers operators who ask for sessions.
func sessionsOf(g *Gateway) operate.Sessions {
	return operate.Sessions{
		Log:  g.log,
		Self: g.cluster.Self(),
		List: g.list,
		End:  operated{g}.end,
		Held: operated{g},
		Others: func(ctx context.Context, method, path string,
			heard func(replica string, status int, body []byte, err error)) {
			for _, a := range g.cluster.Ask(ctx, method, path) {
				heard(a.Replica, a.Status, a.Body, a.Err)
			}
		},
	}
}

// end ends a session of this replica.
func (g operated) end(ctx context.Context, user, id string) error {
	h := g.homes().Known(home.Key{User: user, ID: id})
	if h == nil {
		return session.ErrNotFound
	}
	return h.End(ctx, home.Ended)
}

// accountsOf answers operators who ask for users' accounts at servers.
func accountsOf(g *Gateway) operate.Accounts {
	return operate.Accounts{
		Vault:  g.vault,
		Now:    operated{g}.now,
		Lists:  g.current.signedIn,
		Others: operated{g}.post,
		Log:    g.log,
	}
}

// answer answers other replicas: for operators who have signed in on their admin APIs, and for users
// with changed accounts there.
func (g *Gateway) answer(mux *http.ServeMux) {
	sessions := sessionsOf(g)
	mux.HandleFunc("GET "+operate.SessionsPath, sessions.Asked)
	mux.HandleFunc("DELETE "+operate.SessionsPath+"/{session}", sessions.Asked)
	mux.HandleFunc("POST "+operate.AccountsPath, accountsOf(g).Told)
	mux.HandleFunc("POST "+operate.ServersPath+"/{name}/{what}", serversOf(g).Asked)
	if g.recent != nil {
		mux.HandleFunc("GET "+admin.CallPath+"{id}", newAPI(g).AnswerCall)
	}
}

// CallAt asks the replica that ran a call for what it has of the call.
func (r operated) CallAt(ctx context.Context, replica, id string, roles []string) ([]byte, error) {
	path := admin.CallPath + url.PathEscape(id) + "?" + url.Values{"role": roles}.Encode()
	switch a := r.cluster.AskOne(ctx, replica, http.MethodGet, path); {
	case a.Err != nil:
		r.log.Debug("a replica does not answer an operator", "replica", replica, "error", a.Err)
		return nil, fmt.Errorf("replica %s, which alone has its steps and messages, is away", replica)
	case a.Status != http.StatusOK:
		return nil, fmt.Errorf("replica %s, which ran it, has nothing of it any more", replica)
	default:
		return a.Body, nil
	}
}

// replicas returns the other replicas.
func (g *Gateway) replicas() (all []diagnose.Replica) {
	for _, p := range g.cluster.Peers() {
		h := diagnose.Replica{Name: p.Name, Address: p.Address, Revision: p.Revision, Version: p.Version,
			Leaving: p.Leaving}
		if p.Err != nil {
			h.Error = p.Err.Error()
		}
		all = append(all, h)
	}
	return all
}
