package trial

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/gateway/clients"
	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/gateway/lifecycle"
	"github.com/gatehouse-mcp/gatehouse/internal/cluster"
	"github.com/gatehouse-mcp/gatehouse/internal/egress"
	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// lookAtIssuers is the interval of checks whether issuers have answered.
const lookAtIssuers = 20 * time.Millisecond

// Backend is the result of trying a service that the gateway cannot do without.
type Backend struct {
	Name  string `json:"name"`            // such as "issuer https://login.example.com"
	Found string `json:"found,omitempty"` // its answer
	// Certificate describes that of an issuer, as in Report; "" if it shows none that is valid.
	Certificate string `json:"certificate,omitempty"`
	Error       string `json:"error,omitempty"` // why it cannot be used and what to do, "" if it can
	// Clients describe how known clients get in at an issuer. Unknown is why that is unknown.
	Clients []clients.Entry `json:"clients,omitempty"`
	Unknown string          `json:"unknown,omitempty"`
}

// Backends tries the session store and every issuer. It returns when each has answered or
// failed, or when ctx ends.
func Backends(ctx context.Context, cfg config.Config) (reports []Backend, err error) {
	if cfg.Sessions.Store == session.StoreRedis {
		reports = append(reports, checkRedis(ctx, cfg)...)
	}
	issuers, err := checkIssuers(ctx, cfg.WithDefaults())
	return append(reports, issuers...), err
}

// checkRedis tries the session store, and each replica that has a lease in it.
func checkRedis(ctx context.Context, cfg config.Config) (reports []Backend) {
	r := Backend{Name: "sessions.redis", Found: "takes sessions"}
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
		return append(reports, Backend{Name: "replicas", Error: err.Error()})
	}
	for _, p := range peers {
		r := Backend{Name: "replica " + p.Name, Found: "can be reached at " + p.Address}
		if p.Err != nil {
			r.Error = fmt.Sprintf("%v: let the replicas connect to each other at replicas.advertise, and give all of them the same sessions.key", p.Err)
		}
		reports = append(reports, r)
	}
	return reports
}

func checkIssuers(ctx context.Context, cfg config.Config) (reports []Backend, err error) {
	a, err := auth.New(cfg.Auth, auth.Deps{PublicURL: cfg.PublicURL, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	stop := lifecycle.Run(a.Run)
	look := time.NewTicker(lookAtIssuers)
	defer look.Stop()
	for slices.ContainsFunc(a.Status(), auth.Status.Pending) && ctx.Err() == nil {
		select {
		case <-look.C:
		case <-ctx.Done():
		}
	}
	for _, s := range a.Status() {
		r := Backend{Name: "issuer " + s.Issuer, Found: fmt.Sprintf("%d keys", s.Keys)}
		if s.Certificate != nil {
			r.Certificate = egress.Describe(s.Certificate)
		}
		switch {
		case s.Reason != "":
			r.Error = s.Reason + ": correct the url of the issuer, or make it reachable from here: no token of it is accepted"
		case !cfg.Auth.Server.Enabled: // else clients sign in there
			if p, err := a.Provider(ctx, s.Issuer); err != nil {
				r.Unknown = err.Error()
			} else {
				r.Clients = clients.Entries(offers(p))
			}
		}
		reports = append(reports, r)
	}
	return reports, stop(context.WithoutCancel(ctx))
}

// offers returns how clients get in at an issuer, by its metadata.
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
