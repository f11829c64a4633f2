package gateway

import (
	"fmt"
	"slices"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/auth/clientele"
	"github.com/gatehouse-mcp/gatehouse/auth/grants"
	"github.com/gatehouse-mcp/gatehouse/auth/signin"
	"github.com/gatehouse-mcp/gatehouse/gateway/config"
)

// newAuth makes what identifies callers, and the gateway's own authorization server, nil if there is
// none.
func newAuth(cfg config.Config, with services) (*auth.Auth, *grants.Server, error) {
	deps := auth.Deps{PublicURL: cfg.PublicURL, Views: config.ViewURLs(cfg), Log: with.log, Metrics: with.metrics.tokens, Proofs: with.proofs, Judged: with.events.Judged}
	if !cfg.Auth.Server.Enabled {
		who, err := auth.New(cfg.Auth, deps)
		return who, nil, err
	}
	keys, err := with.oauth.NewKeys(cfg.Auth.Server)
	if err != nil {
		return nil, nil, err
	}
	deps.Local = keys
	who, err := auth.New(cfg.Auth, deps)
	if err != nil {
		return nil, nil, err
	}
	issuer := cfg.Auth.WithDefaults(deps.PublicURL).Server.Issuer
	known, err := clientele.New(cfg.Auth.Server.Clientele(), clientele.Deps{Issuer: issuer, Key: with.oauth.ClientsKey(), Shared: cfg.Connections.Proxied, Log: with.log})
	if err != nil {
		return nil, nil, fmt.Errorf("auth: server: %w", err)
	}
	server, err := grants.New(cfg.Auth, grants.Deps{
		PublicURL: deps.PublicURL, Views: deps.Views, Auth: who, Clients: known, State: with.oauth, Keys: keys,
		Log: with.log, Metrics: with.metrics.grants, Recorded: with.events.Granted,
	})
	return who, server, err
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
