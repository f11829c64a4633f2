package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/gateway/catalog"
	"github.com/gatehouse-mcp/gatehouse/gateway/clients"
	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/gateway/servers"
	"github.com/gatehouse-mcp/gatehouse/internal/cluster"
	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
	"github.com/gatehouse-mcp/gatehouse/session"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// lookAtIssuers is the interval of checks whether issuers have answered.
const lookAtIssuers = 20 * time.Millisecond

// BackendReport is the result of trying something that the gateway cannot do without.
type BackendReport struct {
	Name  string // such as "issuer https://login.example.com"
	Found string // its answer
	Error string // why it cannot be used and what to do, "" if it can
	// Clients say how known clients get in at an issuer. Unknown is why nobody can say it.
	Clients []clients.Way
	Unknown string
}

// CheckBackends tries the session store and every issuer. It returns when each has answered or
// failed, or when ctx ends.
func CheckBackends(ctx context.Context, cfg config.Config) (reports []BackendReport, err error) {
	if cfg.Sessions.Store == session.StoreRedis {
		reports = append(reports, checkRedis(ctx, cfg)...)
	}
	issuers, err := checkIssuers(ctx, cfg.WithDefaults())
	return append(reports, issuers...), err
}

// checkRedis tries the session store, and each replica that has a lease in it.
func checkRedis(ctx context.Context, cfg config.Config) (reports []BackendReport) {
	r := BackendReport{Name: "sessions.redis", Found: "takes sessions"}
	db, err := redisdb.Open(cfg.Sessions.Redis, nil, nil)
	if err == nil {
		defer db.Close()
		err = db.Room(ctx)
	}
	if err != nil {
		r.Error = fmt.Sprintf("%v: start it, or correct url, username and password of sessions.redis", err)
		return append(reports, r)
	}
	reports = append(reports, r)
	if cfg.Replicas.Alone {
		return reports
	}
	key, accepted := cfg.Sessions.Secrets()
	peers, err := cluster.Check(ctx, db, key, accepted)
	if err != nil {
		return append(reports, BackendReport{Name: "replicas", Error: err.Error()})
	}
	for _, p := range peers {
		r := BackendReport{Name: "replica " + p.Name, Found: "can be reached at " + p.Address}
		if p.Err != nil {
			r.Error = fmt.Sprintf("%v: let the replicas connect to each other at replicas.advertise, and give all of them the same sessions.key", p.Err)
		}
		reports = append(reports, r)
	}
	return reports
}

// UpstreamHealth is the state of one upstream. It contains no secrets.
type UpstreamHealth struct {
	Name string `json:"name"`
	// State is connecting, ready, degraded, needs-login, down or disabled.
	State upstream.State `json:"state"`
	// Since is when the state began.
	Since time.Time `json:"since"`
	// LastFailure is the last failure; nil for none.
	LastFailure *admin.Failure `json:"last_failure,omitempty"`
	// RefusedUntil is until when calls are refused without asking the server; zero if they are
	// not.
	RefusedUntil time.Time `json:"calls_refused_until,omitzero"`
	// UsersNeedLogin is how many users have a credential that the server has refused.
	UsersNeedLogin int `json:"users_need_login,omitempty"`
}

// healthOf combines what calls have shown with what lists have shown.
func healthOf(view catalog.UpstreamView, status upstream.Status) UpstreamHealth {
	state, since, last := servers.StateOf(view, status)
	return UpstreamHealth{
		Name: view.Name, State: state, Since: since, LastFailure: servers.ShownFailure(last),
		RefusedUntil: status.Refused, UsersNeedLogin: status.UsersNeedLogin,
	}
}

// ReplicaHealth is the state of another replica, as far as this one knows.
type ReplicaHealth struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	// Revision is the revision of the replica's configuration.
	Revision string `json:"revision,omitempty"`
	// Leaving says that the replica is about to stop.
	Leaving bool `json:"leaving,omitempty"`
	// Error is why the replica cannot be reached, "" if it can.
	Error string `json:"error,omitempty"`
}

func (g *Gateway) replicas() (all []ReplicaHealth) {
	for _, p := range g.services.cluster.Peers() {
		h := ReplicaHealth{Name: p.Name, Address: p.Address, Revision: p.Revision, Leaving: p.Leaving}
		if p.Err != nil {
			h.Error = p.Err.Error()
		}
		all = append(all, h)
	}
	return all
}

func checkIssuers(ctx context.Context, cfg config.Config) (reports []BackendReport, err error) {
	a, err := auth.New(cfg.Auth, auth.Deps{PublicURL: cfg.PublicURL, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	stop := run(a.Run)
	look := time.NewTicker(lookAtIssuers)
	defer look.Stop()
	waits := func(s auth.Status) bool { return s.Fetched.IsZero() && s.Failures == 0 }
	for slices.ContainsFunc(a.Status(), waits) && ctx.Err() == nil {
		select {
		case <-look.C:
		case <-ctx.Done():
		}
	}
	for _, s := range a.Status() {
		r := BackendReport{Name: "issuer " + s.Issuer, Found: fmt.Sprintf("%d keys", s.Keys)}
		if s.Reason != "" {
			r.Error = s.Reason + ": correct the url of the issuer, or make it reachable from here: no token of it is accepted"
		} else if p, err := a.Provider(ctx, s.Issuer); err != nil {
			r.Unknown = err.Error()
		} else {
			r.Clients = clients.Ways(offers(p))
		}
		reports = append(reports, r)
	}
	return reports, stop(context.WithoutCancel(ctx))
}

// offers says how clients get in at an issuer, by its metadata.
func offers(p *auth.Provider) clients.Server {
	why := func(ok bool) error {
		if ok {
			return nil
		}
		return errors.ErrUnsupported
	}
	return clients.Server{
		Document: func(string) error { return why(p.Documents) },
		Register: func([]string) error { return why(p.Registers) },
		Known:    func([]string) string { return "" },
		Public:   p.Public, NamesItself: p.NamesItself,
	}
}

// IssuerHealth is the state of one issuer of tokens.
type IssuerHealth struct {
	URL string `json:"url"`
	// State is ready, degraded or down.
	State string `json:"state"`
	// Reason is why it is not ready.
	Reason string `json:"reason,omitempty"`
	Keys   int    `json:"keys"`
	// Fetched is when its keys were last fetched; zero for never.
	Fetched time.Time `json:"fetched,omitzero"`
}

func (g *Gateway) issuers() (all []IssuerHealth) {
	for _, s := range g.graph().auth.Status() {
		all = append(all, IssuerHealth{URL: s.Issuer, State: s.State, Reason: s.Reason, Keys: s.Keys, Fetched: s.Fetched})
	}
	return all
}

// noIssuer returns why nobody can sign in: no issuer has been reached since the start. An
// issuer that was reached once is enough, since its keys are kept.
func (g *Gateway) noIssuer() []string {
	if g.reached.Load() {
		return nil
	}
	all := g.issuers()
	if len(all) == 0 || slices.ContainsFunc(all, func(i IssuerHealth) bool { return !i.Fetched.IsZero() }) {
		g.reached.Store(true)
		return nil
	}
	return []string{"no issuer of tokens has been reached yet"}
}
