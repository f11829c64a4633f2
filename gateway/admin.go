package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/netutil"

	"github.com/gatehouse-mcp/gatehouse/auth/signin"
	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/gateway/console"
	"github.com/gatehouse-mcp/gatehouse/gateway/settings"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/kept"
	"github.com/gatehouse-mcp/gatehouse/internal/loopback"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// serveConsole adds the console to what operators are served.
func serveConsole(g *Gateway, api *admin.API, mux *http.ServeMux) error {
	pages, err := console.New(console.Deps{
		Guard: console.NewGuard(console.GuardDeps{
			URL:    g.graph().cfg.Admin.At(),
			Config: func() console.Config { return g.graph().cfg.Admin.Console },
			Roles:  func(person *mcp.Caller) []string { return g.graph().staff.Roles(person) },
			SignsIn: func(person *mcp.Caller) bool {
				flow := g.console.flow(g.graph())
				return flow != nil && flow.Issuer == person.Issuer
			},
			Approver: func(person *mcp.Caller) bool { return g.graph().staff.Approves(person) },
			Trusted:  loopback.SentByAny,
			People:   g.console.people,
		}),
		Flow:     func() *signin.Flow { return g.console.flow(g.graph()) },
		SignedIn: g.services.events.ConsoleSignIn,
		API:      api, Version: g.services.version, Log: g.log,
	})
	if err != nil {
		return err
	}
	mux.Handle(console.Root+"/", pages)
	mux.Handle("GET "+console.Root, pages)
	mux.Handle("GET /{$}", http.RedirectHandler(console.Root+"/", http.StatusSeeOther))
	g.log.Info("serving the console", "url", g.graph().cfg.Admin.At()+console.Root+"/")
	return nil
}

// visitors are those who look at the console.
type visitors struct {
	people *signin.Sessions // nil without a console
	flows  *seal.Key        // for sign-ins that have begun
	ended  *kept.Store      // those that have ended
}

// flow returns how people sign in to the console under a graph, nil if they do not.
func (v visitors) flow(under *graph) *signin.Flow {
	cfg := under.cfg.Admin.Console.SignIn
	if cfg.IsZero() {
		return nil
	}
	f := &signin.Flow{
		Issuer: cmp.Or(cfg.Issuer, under.cfg.Auth.Servers()[0]), ClientID: cfg.ClientID, ClientSecret: cfg.ClientSecret, Scopes: cfg.Scopes,
		Redirect: under.cfg.Admin.At() + console.CallbackPath, Cookie: console.FlowCookie, Path: console.CallbackPath,
		Key: v.flows, Ended: v.ended, Issuers: under.auth,
	}
	askForToken(f, under.cfg.Auth, under.cfg.PublicURL)
	return f
}

// adminConnections bounds the connections of operators, probes and the like that are served at
// a time; further ones wait.
const adminConnections = 256

// openAdmin binds the port for operators, if one is configured.
func (g *Gateway) openAdmin(cfg config.Config, given net.Listener) (err error) {
	if cfg.Admin.Listen == "" {
		return nil
	}
	if g.admin = given; given == nil {
		if g.admin, err = net.Listen("tcp", cfg.Admin.Listen); err != nil {
			return err // the error of net names the address
		}
	}
	g.admin = netutil.LimitListener(g.admin, adminConnections)
	g.undo.onStop("admin listener", closing(g.admin))
	return nil
}

// serveAdmin serves operators until nearly the end of a stop.
func (g *Gateway) serveAdmin() {
	if g.admin == nil {
		return
	}
	g.services.remember(g.graph())
	server := newServer(g.adminRoutes(), g.log)
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := server.Serve(g.admin); !errors.Is(err, http.ErrServerClosed) {
			g.log.Error("operators are not served any more", failure.AdminDown.Attr(), "error", err)
		}
	})
	g.undo.onStop("admin server", func(context.Context) error {
		err := server.Close()
		serving.Wait()
		return err
	})
	g.log.Info("serving operators", "address", g.admin.Addr().String())
}

// adminRoutes returns the handler for operators.
func (g *Gateway) adminRoutes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte("ok\n"))
	})
	mux.HandleFunc("GET /readyz", g.readyz)
	mux.HandleFunc("GET /metrics", g.serveMetrics())
	if g.recent != nil {
		api := newAPI(g)
		if !g.graph().cfg.Admin.API.IsZero() {
			mux.Handle(admin.Path, api)
		}
		if g.console.people != nil {
			if err := serveConsole(g, api, mux); err != nil {
				g.log.Error("the console is not served", failure.Internal.Attr(), "error", err)
			}
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		mux.ServeHTTP(w, r)
	})
}

// excludeStore is the check that a balancer can exclude: without the store all replicas are
// alike, and still serve what needs no session.
const excludeStore = "store"

// readyz tells whether this replica takes new sessions: 200, or 503 with the reasons.
func (g *Gateway) readyz(w http.ResponseWriter, r *http.Request) {
	reasons := append(g.notReady(), g.noIssuer()...)
	excluded, told := r.URL.Query().Get("exclude") == excludeStore, loopback.Sent(r)
	var away []string
	if !excluded || told {
		away = g.storeAway(r.Context())
	}
	if !excluded {
		reasons = append(reasons, away...)
	}
	answer := struct {
		Ready         bool             `json:"ready"`
		Reasons       []string         `json:"reasons,omitempty"`
		Upstreams     []UpstreamHealth `json:"upstreams,omitempty"`
		Issuers       []IssuerHealth   `json:"issuers,omitempty"`
		Store         *storeHealth     `json:"store,omitempty"`
		Replicas      []ReplicaHealth  `json:"replicas,omitempty"` // the other replicas
		Configuration *configHealth    `json:"configuration,omitempty"`
	}{Ready: len(reasons) == 0, Reasons: reasons}
	if told {
		answer.Upstreams, answer.Configuration = g.Health(), g.configHealth()
		answer.Issuers, answer.Replicas = g.issuers(), g.replicas()
		answer.Store = &storeHealth{Kind: cmp.Or(g.graph().cfg.Sessions.Store, session.StoreMemory), Ready: len(away) == 0, Reason: strings.Join(away, "; ")}
	}
	w.Header().Set("Content-Type", "application/json")
	if !answer.Ready {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(answer) // whoever asked has left
}

// serveMetrics answers scrapes. A request from this machine must use a name of this machine;
// otherwise a web page in its browser could read the answer.
func (g *Gateway) serveMetrics() http.HandlerFunc {
	scrapes := g.services.metrics.scrapes(g.log, g.services.tracer.On)
	return func(w http.ResponseWriter, r *http.Request) {
		local, err := loopback.From(r)
		if err != nil || loopback.FromPage(r) || local && !loopback.To(r) {
			http.Error(w, "ask by the address, not by another name: 127.0.0.1 or localhost", http.StatusForbidden)
			return
		}
		scrapes.ServeHTTP(w, r)
	}
}

// notReady returns why this replica takes no new sessions, nil if it does.
func (g *Gateway) notReady() (reasons []string) {
	if g.draining.Load() {
		reasons = append(reasons, "the gateway is stopping")
	}
	if !g.warm.Load() && !g.graph().catalog.Heard() {
		reasons = append(reasons, "the gateway has just started and waits for its upstreams")
	}
	g.warm.Store(len(reasons) == 0 || g.warm.Load())
	return reasons
}

// storeAway returns why no replica takes new sessions, nil if the store can keep one.
func (g *Gateway) storeAway(ctx context.Context) []string {
	if g.services.redis == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	switch err := g.services.redis.Room(ctx); {
	case err == nil:
		return nil
	case errors.Is(err, redisdb.ErrFull):
		return []string{"the session store is full"}
	}
	return []string{"the session store does not answer, or takes no changes"}
}

// storeHealth is the state of the session store.
type storeHealth struct {
	Kind   string `json:"kind"` // memory or redis
	Ready  bool   `json:"ready"`
	Reason string `json:"reason,omitempty"`
}

// configHealth is the state of the configuration file.
type configHealth struct {
	settings.Status
	Problems []string `json:"problems,omitempty"` // why the current file is not in use
}

func (g *Gateway) configHealth() *configHealth {
	c := &configHealth{Status: g.ReloadStatus()}
	if c.Err != nil {
		c.Problems = strings.Split(c.Err.Error(), "\n")
	}
	return c
}
