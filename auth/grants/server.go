package grants

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/auth/clientele"
	"github.com/gatehouse-mcp/gatehouse/auth/signin"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/webpage"
)

// Paths at the issuer's host.
const (
	authorizePath = "/oauth/authorize"
	callbackPath  = "/oauth/callback"
	consentPath   = "/oauth/consent"
	tokenPath     = "/oauth/token"
	revokePath    = "/oauth/revoke"
	registerPath  = "/oauth/register"
	jwksPath      = "/oauth/jwks"
)

// Clients knows the clients; see clientele.Registry.
type Clients interface {
	// Find returns a client. The error is a *clientele.RefusedError, or that of the context.
	Find(ctx context.Context, id string) (clientele.Client, error)
	// Documents, Registers and Methods are for the metadata.
	Documents() bool
	Registers() bool
	Methods() []string
	// ServeRegister registers a client.
	ServeRegister(w http.ResponseWriter, r *http.Request)
}

// Deps are the dependencies of a Server. Only Log, Metrics and Recorded may be nil.
type Deps struct {
	// PublicURL is the gateway's endpoint, Views are the URLs of further ones by their names.
	PublicURL string
	Views     map[string]string
	// Auth knows the provider, and who has a token of it.
	Auth    *auth.Auth
	Clients Clients
	// State is shared by all replicas, Keys are those of the configuration.
	State *State
	Keys  *Keys

	Log      *slog.Logger
	Metrics  *Metrics
	Recorded func(context.Context, Event)
}

// Event is something that happened to a grant.
type Event struct {
	Name   string // such as "consent given"
	Reason string // why something was refused
	Caller mcp.Caller
	Client string
	Agent  string // what the client calls itself, as far as it is known
	View   string
}

// Server is the authorization server under one configuration. It is safe for concurrent use.
type Server struct {
	mint
	problems
	deps      Deps
	flow      *signin.Flow
	outage    signin.Outage
	pages     *webpage.Pages
	resources atomic.Pointer[map[string]string] // the name of the view by its URL; "" for the gateway's endpoint
}

// New makes a Server. cfg is valid, and its server is enabled.
func New(cfg auth.Config, deps Deps) (*Server, error) {
	cfg = cfg.WithDefaults(deps.PublicURL)
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	if deps.Metrics == nil {
		deps.Metrics = NewMetrics(nil)
	}
	if deps.Recorded == nil {
		deps.Recorded = func(context.Context, Event) {}
	}
	pages, err := webpage.New(pageText)
	if err != nil {
		return nil, fmt.Errorf("auth: server: pages: %w", err)
	}
	s := &Server{
		mint: mint{cfg.Server, deps.Keys, cfg.RequiredScopes, cfg.ScopesSupported}, problems: problems{deps.Log},
		deps: deps, pages: pages,
	}
	s.SetViews(deps.Views)
	s.flow = s.newFlow(cfg)
	return s, nil
}

// SetViews takes the URLs of other views, by their names. Handlers has to be asked again.
func (s *Server) SetViews(urls map[string]string) {
	resources := map[string]string{s.deps.PublicURL: ""}
	for name, at := range urls {
		resources[at] = name
	}
	s.resources.Store(&resources)
}

// newFlow returns how users sign in at the provider.
func (s *Server) newFlow(cfg auth.Config) *signin.Flow {
	f := &signin.Flow{
		Issuer: s.cfg.Provider, ClientID: s.cfg.ClientID, ClientSecret: s.cfg.ClientSecret, Scopes: s.cfg.Scopes,
		Redirect: s.cfg.Origin() + callbackPath, Cookie: s.cookie("gatehouse-oauth"), Path: "/",
		Key: s.deps.State.flows, Ended: s.deps.State.over, Issuers: s.deps.Auth,
		Several: true, IDToken: s.cfg.Identity == auth.IdentityIDToken, Offline: len(s.cfg.Scopes) == 0,
	}
	if len(f.Scopes) == 0 && !f.IDToken {
		f.Scopes = cfg.ScopesSupported
	}
	for _, iss := range cfg.Issuers {
		// A provider with another audience in its tokens knows no resources, and may refuse them.
		if iss.URL == f.Issuer && mcp.HasIdentifier(iss.Audiences, s.deps.PublicURL) {
			f.Resource = s.deps.PublicURL
		}
	}
	return f
}

// cookie is the name of a cookie. With the prefix __Host-, browsers take it from this very host over
// TLS alone.
func (s *Server) cookie(name string) string {
	if s.secure() {
		return "__Host-" + name
	}
	return name
}

func (s *Server) secure() bool { return strings.HasPrefix(s.cfg.Issuer, "https:") }

// Handlers returns what is served, by its path.
func (s *Server) Handlers() map[string]http.Handler {
	clients := endpoint{s}
	all := map[string]http.Handler{
		authorizePath:     only(http.MethodGet, s.authorize),
		callbackPath:      only(http.MethodGet, s.callback),
		consentPath:       only(http.MethodPost, s.decide),
		tokenPath:         shared(http.MethodPost, clients.token),
		revokePath:        shared(http.MethodPost, clients.revoke),
		jwksPath:          shared(http.MethodGet, s.keys.jwks),
		webpage.StylePath: only(http.MethodGet, webpage.Style),
	}
	if s.deps.Clients.Registers() {
		all[registerPath] = shared(http.MethodPost, s.deps.Clients.ServeRegister)
	}
	document := metadata(s.cfg, s.deps.Clients, s.supported)
	for _, at := range metadataPaths(s.cfg.Issuer, slices.Collect(maps.Keys(*s.resources.Load()))) {
		all[at] = shared(http.MethodGet, serveDocument(document))
	}
	return all
}

// only serves one method.
func only(method string, serve http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != method && (method != http.MethodGet || r.Method != http.MethodHead) {
			w.Header().Set("Allow", method)
			http.Error(w, "use "+method, http.StatusMethodNotAllowed)
			return
		}
		serve(w, r)
	})
}

// shared is only for endpoints that clients in browsers use from their own pages. There are no
// cookies at these.
func shared(method string, serve http.HandlerFunc) http.Handler {
	next := only(method, serve)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Access-Control-Allow-Origin", "*")
		h.Set("X-Content-Type-Options", "nosniff")
		if r.Method == http.MethodOptions {
			h.Set("Access-Control-Allow-Methods", method)
			h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, MCP-Protocol-Version, *")
			h.Set("Access-Control-Max-Age", "86400")
			w.WriteHeader(http.StatusNoContent)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// find returns a client that is not denied. The error is an *oauthError.
func (s *Server) find(ctx context.Context, id string) (clientele.Client, error) {
	client, err := s.deps.Clients.Find(ctx, id)
	if refused, ok := errors.AsType[*clientele.RefusedError](err); ok && refused.Again {
		return client, fail(codeUnavailable, refused.Text)
	} else if ok {
		return client, fail(codeInvalidClient, refused.Text)
	} else if err != nil {
		return client, fmt.Errorf("finding a client: %w", err)
	}
	if s.denied(client) {
		return client, fail(codeInvalidClient, "Whoever runs this gateway does not allow this client.")
	}
	return client, nil
}

// denied reports whether the configuration denies a client. It compares the id, also as records
// have it, and the hosts.
func (s *Server) denied(client clientele.Client) bool {
	return slices.ContainsFunc(append([]string{client.ID, clientele.ShortID(client.ID)}, client.Redirects...),
		func(uri string) bool {
			if slices.Contains(s.cfg.DenyClients, uri) {
				return true
			}
			u, err := url.Parse(uri)
			return err == nil && u.Host != "" && slices.Contains(s.cfg.DenyClients, u.Hostname())
		})
}

// view is the name of the view of a resource.
func (s *Server) view(resource string) string { return (*s.resources.Load())[resource] }
