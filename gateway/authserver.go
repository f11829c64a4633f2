package gateway

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/auth/clientele"
	"github.com/gatehouse-mcp/gatehouse/auth/grants"
	"github.com/gatehouse-mcp/gatehouse/auth/signin"
	"github.com/gatehouse-mcp/gatehouse/gateway/clients"
	"github.com/gatehouse-mcp/gatehouse/internal/webpage"
)

// serverDeps are the dependencies of the gateway's own authorization server.
type serverDeps struct {
	state    *grants.State
	shared   func(netip.Addr) bool // whether an address is that of a proxy
	metrics  *grants.Metrics
	recorded func(grants.Event)
	log      *slog.Logger
}

// newAuth makes what identifies callers, and the authorization server, nil if there is none. deps
// are those of the former.
func newAuth(cfg auth.Config, deps auth.Deps, with serverDeps) (*auth.Auth, *grants.Server, error) {
	if !cfg.Server.Enabled {
		who, err := auth.New(cfg, deps)
		return who, nil, err
	}
	keys, err := with.state.NewKeys(cfg.Server)
	if err != nil {
		return nil, nil, err
	}
	deps.Local = keys
	who, err := auth.New(cfg, deps)
	if err != nil {
		return nil, nil, err
	}
	issuer := cfg.WithDefaults(deps.PublicURL).Server.Issuer
	known, err := clientele.New(cfg.Server.Clientele(), clientele.Deps{Issuer: issuer, Key: with.state.ClientsKey(), Shared: with.shared, Log: with.log})
	if err != nil {
		return nil, nil, fmt.Errorf("auth: server: %w", err)
	}
	server, err := grants.New(cfg, grants.Deps{
		PublicURL: deps.PublicURL, Views: deps.Views, Auth: who, Clients: known, State: with.state, Keys: keys,
		Log: with.log, Metrics: with.metrics, Recorded: with.recorded,
	})
	return who, server, err
}

// ownServer says how clients get in at the gateway's own authorization server.
func ownServer(s auth.ServerConfig) clients.Server {
	who := s.Clientele()
	denied := func(names ...string) error {
		for _, name := range names {
			if u, err := url.Parse(name); err == nil && (slices.Contains(s.DenyClients, name) || slices.Contains(s.DenyClients, u.Hostname())) {
				return fmt.Errorf("take %s out of auth.server.deny_clients", u.Hostname())
			}
		}
		return nil
	}
	return clients.Server{
		Document: func(at string) error { return cmp.Or(denied(at), who.DocumentAllowed(at)) },
		Register: func(redirects []string) error {
			return cmp.Or(denied(redirects...), who.RegistrationAllowed(redirects))
		},
		Known:  who.Made,
		Public: true, NamesItself: true, Ours: true,
	}
}

// askForToken has a sign-in ask for a token for the gateway, as its clients do.
func askForToken(f *signin.Flow, cfg auth.Config, publicURL string) {
	if len(f.Scopes) == 0 {
		f.Scopes = cfg.WithDefaults(publicURL).ScopesSupported
	}
	for _, iss := range cfg.Issuers {
		// A provider whose tokens name another audience knows no resources, and may refuse them.
		if iss.URL == f.Issuer && (len(iss.Audiences) == 0 || slices.Contains(iss.Audiences, publicURL)) {
			f.Resource = publicURL
		}
	}
}

// serverPlaces returns the places of the authorization server, none if there is none. Nobody is
// authenticated there.
func serverPlaces(s *grants.Server) (handlers map[string]http.Handler) {
	if s == nil {
		return nil
	}
	return s.Handlers()
}

// ofServer reports whether a path is one of the authorization server.
func ofServer(path string) bool {
	return strings.HasPrefix(path, "/oauth/") || path == webpage.StylePath || strings.HasPrefix(path, "/.well-known/")
}
