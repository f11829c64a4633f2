package gateway

import (
	"cmp"
	"net"
	"net/http"

	"golang.org/x/net/netutil"

	"github.com/gatehouse-mcp/gatehouse/auth/signin"
	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/gateway/console"
	"github.com/gatehouse-mcp/gatehouse/gateway/doorway"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/loopback"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
)

// serveConsole adds the console to the routes for operators.
func serveConsole(g *Gateway, api *admin.API, mux *http.ServeMux) error {
	pages, err := console.New(console.Deps{
		Guard: console.NewGuard(g.graph().cfg.Admin.At(), staff{g}, g.console.people),
		Flow:  func() *signin.Flow { return g.console.flow(g.graph()) },
		SignedIn: func(r *http.Request, who mcp.Caller, err error) {
			who.From = originOf(r)
			g.events.ConsoleSignIn(who, err)
		},
		API: api, Version: g.version, Log: g.log,
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

// staff decides who may look at the console under the current graph.
type staff struct{ *Gateway }

func (s staff) Console() console.Config           { return s.graph().cfg.Admin.Console }
func (s staff) Roles(person *mcp.Caller) []string { return s.graph().staff.Roles(person) }
func (s staff) Approves(person *mcp.Caller) bool  { return s.graph().staff.Approves(person) }
func (s staff) SignsIn(person *mcp.Caller) bool {
	flow := s.console.flow(s.graph())
	return flow != nil && flow.Issuer == person.Issuer
}

// visitors holds the sign-ins of people at the console.
type visitors struct {
	people *signin.Sessions // nil without a console
	flows  *seal.Key        // for sign-ins that have begun
	ended  *signin.Ended    // sign-ins that have ended
}

// flow returns how people sign in to the console under a graph, nil if they do not.
func (v visitors) flow(under *graph) *signin.Flow {
	cfg := under.cfg.Admin.Console.SignIn
	if cfg.IsZero() {
		return nil
	}
	f := &signin.Flow{
		Issuer: cmp.Or(cfg.Issuer, under.cfg.Auth.Servers()[0]), ClientID: cfg.ClientID, ClientSecret: cfg.ClientSecret,
		Scopes:   cfg.Scopes,
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
func (g *Gateway) openAdmin(cfg config.Config, given net.Listener, passed *doorway.Passed) (err error) {
	if cfg.Admin.Listen == "" {
		return nil
	}
	if g.admin = given; given == nil {
		if g.admin, err = bind(passed, "admin.listen", cfg.Admin.Listen); err != nil {
			return err
		}
	}
	g.admin = netutil.LimitListener(g.admin, adminConnections)
	g.undo.OnStop("admin listener", closing(g.admin))
	if g.recent != nil && !cfg.Admin.Console.IsZero() {
		g.console = visitors{
			people: signin.NewSessions(g.base, g.key("people who have signed in")),
			flows:  g.key("sign-ins that have begun"),
			ended:  signin.NewEnded(g.base),
		}
	}
	return nil
}

// serveAdmin serves operators until nearly the end of a stop.
func (g *Gateway) serveAdmin() {
	if g.admin == nil {
		return
	}
	g.remember(g.graph())
	server := newServer(g.adminRoutes(), g.log)
	g.secure(server, g.certificates.operators)
	g.serveBeside("admin server", server, g.admin, failure.AdminDown)
	g.log.Info("serving operators", "address", g.admin.Addr().String())
}

// adminRoutes returns the handler for operators.
func (g *Gateway) adminRoutes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte("ok\n"))
	})
	mux.Handle("GET /readyz", g.health)
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

// serveMetrics answers scrapes. A request from this machine must use a name of this machine;
// otherwise a web page in its browser could read the answer.
func (g *Gateway) serveMetrics() http.HandlerFunc {
	scrapes := g.metrics.Scrapes(g.log, g.tracer.On)
	return func(w http.ResponseWriter, r *http.Request) {
		local, err := loopback.From(r)
		if err != nil || loopback.FromPage(r) || local && !loopback.To(r) {
			http.Error(w, "ask by the address, not by another name: 127.0.0.1 or localhost", http.StatusForbidden)
			return
		}
		scrapes.ServeHTTP(w, r)
	}
}
