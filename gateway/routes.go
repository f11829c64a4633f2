package gateway

import (
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/auth/accounts"
	"github.com/gatehouse-mcp/gatehouse/auth/signin"
	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/gateway/front/sse2024"
	"github.com/gatehouse-mcp/gatehouse/gateway/observe"
	"github.com/gatehouse-mcp/gatehouse/internal/expiring"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/policy"
)

// place is a path for clients. It puts authentication where it belongs (front.Behind).
type place struct {
	path   string
	view   string            // "" for none
	users  *policy.Audiences // who may use the view; nil for none
	events *observe.Events   // take refused callers; nil for none
	behind func(authenticate func(http.Handler) http.Handler) http.Handler
}

// setRoutes serves the places of clients under a graph.
func (g *Gateway) setRoutes(under *graph) {
	places := []place{{path: under.cfg.Path(), behind: g.front.Behind}}
	if stream, messages := g.front.SSEPaths(); stream != "" {
		places = append(places, place{path: stream, behind: g.front.SSEBehind},
			place{path: messages, behind: g.front.MessagesBehind})
	}
	for _, v := range under.cfg.Views {
		places = append(places, g.viewPlaces(config.ViewPath(under.cfg, v), v.Name, under.viewUsers[v.Name])...)
	}
	if under.server != nil { // callers are not authenticated there
		for path, h := range under.server.Handlers() {
			places = append(places,
				place{path: path, behind: func(func(http.Handler) http.Handler) http.Handler { return withOrigin(h) }})
		}
	}
	routes := routes(under.auth, g.log, places...)
	if config.HasAccounts(under.cfg.Upstreams) {
		var pages http.Handler = g.accounts
		if !under.cfg.Auth.Identifies() {
			pages = fromHere(pages)
			g.log.Info("you sign in at servers with accounts on a page", "url",
				accounts.Origin(under.cfg.PublicURL)+accounts.Root, "upstreams", config.WithAccounts(under.cfg.Upstreams))
		}
		routes = withPages(recoverer(g.log, withOrigin(pages)), routes) // which have a recoverer
	}
	g.routes.Store(&routes)
}

// mostAccounts bounds the sign-ins that have begun, and the registrations, in memory where there is
// no Redis.
const mostAccounts = 10_000

// openAccounts makes the part with which users sign in at servers with accounts of their own.
func openAccounts(g *Gateway, cfg config.Config) (err error) {
	key, service, ended := g.key("users' accounts at servers"), accountsOf(g), signin.NewEnded(g.base)
	g.accounts, err = accounts.New(accounts.Deps{
		Vault: g.vault, Log: g.log,
		May:     func(caller *mcp.Caller, server string) bool { return g.graph().rules.Knows(caller, server) },
		Changed: service.Lists, Others: service.Tell,
		Flow: accounts.Flow{PublicURL: accounts.Origin(cfg.PublicURL),
			Store: expiring.New(g.base, key, "account-sign-ins", mostAccounts), Key: key},
		People:  signin.NewSessions(g.base, g.key("users who have signed in at their accounts")),
		OneUser: func() bool { return !g.graph().cfg.Auth.Identifies() },
		SignIn: func() *signin.Flow {
			now := g.graph()
			return accountsFlow(now.cfg, now.auth, key, ended)
		},
		Servers: func() []accounts.Server { return config.AccountServers(g.graph().cfg.Upstreams) },
		Failed:  g.events.AccountRefused,
	})
	return err
}

// viewPlaces returns the places of a view.
func (g *Gateway) viewPlaces(at, view string, users *policy.Audiences) []place {
	places := []place{{at, view, users, g.events, g.front.Behind}}
	if stream, _ := g.front.SSEPaths(); stream != "" {
		sse := sse2024.OfView(at)
		places = append(places, place{sse, view, users, g.events, g.front.SSEBehind},
			place{sse2024.Messages(sse), view, users, g.events, g.front.MessagesBehind})
	}
	return places
}

// only passes callers who may use a view, and refuses others. That the view exists is no secret,
// since all can read its metadata.
func only(users *policy.Audiences, refused *observe.Events, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if caller, ok := mcp.CallerFrom(r.Context()); !ok || users.First(&caller) < 0 {
			refused.Judged(auth.Judgement{Caller: caller, View: caller.View, Status: http.StatusForbidden,
				Reason: "this endpoint is for other users", Name: failure.ViewRefused})
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusForbidden)
			w.Write(wire.AppendError(nil, nil, mcp.Errorf(failure.ViewRefused,
				"this endpoint is for other users: views.who in the gateway's configuration says for whom")))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// routes returns the handler of everything that is served. The places have their paths, with every
// HTTP method; the first one is the endpoint. The metadata tells clients where to get a token for
// it. A path with one slash more or less at its end is the same place. Paths are not cleaned
// otherwise: another spelling of a path is another path.
func routes(who *auth.Auth, log *slog.Logger, places ...place) http.Handler {
	all := make(map[string]http.Handler)
	for _, p := range places {
		all[p.path] = p.behind(func(next http.Handler) http.Handler {
			if p.view == "" {
				return who.Require(next)
			}
			return who.RequireAt(p.view, only(p.users, p.events, next))
		})
	}
	nothing := func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "there is nothing here: the MCP endpoint is "+places[0].path, http.StatusNotFound)
	}
	others := chi.NewRouter()
	others.NotFound(nothing)
	others.MethodNotAllowed(nothing) // for methods that chi does not know, whatever the path
	for _, metadata := range who.MetadataPaths() {
		others.Handle(metadata, who.Metadata())
	}
	return recoverer(log, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		there := all[r.URL.EscapedPath()]
		if there == nil && r.URL.RawPath == "" { // nothing in it is escaped in a way of its own
			if other := otherEnd(r); all[other.URL.EscapedPath()] != nil {
				r, there = other, all[other.URL.EscapedPath()]
			}
		}
		if there != nil {
			there.ServeHTTP(w, r)
			return
		}
		others.ServeHTTP(w, r)
	}))
}

// otherEnd returns a request for the path without the slash at its end, or with one.
func otherEnd(r *http.Request) *http.Request {
	at := *r.URL
	if at.Path = strings.TrimSuffix(r.URL.Path, "/"); at.Path == r.URL.Path {
		at.Path += "/"
	}
	other := *r
	other.URL = &at
	return &other
}

// recoverer answers a request after its handler panicked, if that is still possible, and keeps the
// connection. Only the log has the stack.
func recoverer(log *slog.Logger, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t := &tracker{ResponseWriter: w}
		defer func() {
			cause := recover()
			if cause == nil {
				return
			}
			if cause == http.ErrAbortHandler { // intended: it ends the connection
				panic(cause)
			}
			log.ErrorContext(r.Context(), "panic in a handler", failure.Internal.Attr(), "error", fmt.Sprint(cause), "stack",
				string(debug.Stack()))
			if t.began {
				panic(http.ErrAbortHandler) // half an answer must not look whole
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusInternalServerError)
			w.Write(wire.AppendError(nil, nil, mcp.Errorf(failure.Internal, "internal error")))
		}()
		next.ServeHTTP(t, r)
	})
}

// tracker remembers whether an answer has begun.
type tracker struct {
	http.ResponseWriter
	began bool
}

// WriteHeader records the answer and passes the status on.
func (t *tracker) WriteHeader(status int) {
	t.began = true
	t.ResponseWriter.WriteHeader(status)
}

// Write records the answer and passes the bytes on.
func (t *tracker) Write(b []byte) (int, error) {
	t.began = true
	return t.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController flush and set deadlines.
func (t *tracker) Unwrap() http.ResponseWriter { return t.ResponseWriter }
