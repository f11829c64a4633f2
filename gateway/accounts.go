package gateway

import (
	"cmp"
	"net/http"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/auth/accounts"
	"github.com/gatehouse-mcp/gatehouse/auth/signin"
	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/internal/loopback"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// accountsFlow returns the sign-in flow for the pages of users' accounts, nil for none.
func accountsFlow(cfg config.Config, issuers *auth.Auth, key *seal.Key, ended *signin.Ended) *signin.Flow {
	s := cfg.AccountsSignIn()
	if s.ClientID == "" || len(cfg.Auth.Issuers) == 0 {
		return nil
	}
	first, server := cfg.Auth.Issuers[0].URL, cfg.Auth.Server
	redirect, path := accounts.CallbackOf(cfg.PublicURL)
	f := &signin.Flow{
		Issuer: cmp.Or(s.Issuer, first), ClientID: s.ClientID, ClientSecret: s.ClientSecret, Scopes: s.Scopes,
		Redirect: redirect, Cookie: "gatehouse-account-flow", Path: path, Key: key, Ended: ended,
		Issuers: issuers, Several: true,
	}
	f.IDToken = server.Enabled && server.Identity == auth.IdentityIDToken && f.Issuer == cmp.Or(server.Provider, first)
	askForToken(f, cfg.Auth, cfg.PublicURL)
	return f
}

// askForToken has a sign-in ask for a token for the gateway, as its clients do.
func askForToken(f *signin.Flow, cfg auth.Config, publicURL string) {
	if len(f.Scopes) == 0 {
		f.Scopes = cfg.WithDefaults(publicURL).ScopesSupported
	}
	for _, iss := range cfg.Issuers {
		// A provider with another audience in its tokens knows no resources, and may refuse them.
		if iss.URL == f.Issuer && (len(iss.Audiences) == 0 || mcp.HasIdentifier(iss.Audiences, publicURL)) {
			f.Resource = publicURL
		}
	}
}

// withPages adds the pages of accounts to the handler of other paths.
func withPages(pages, others http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if accounts.Serves(r.URL.EscapedPath()) {
			pages.ServeHTTP(w, r)
			return
		}
		others.ServeHTTP(w, r)
	})
}

// fromHere serves only requests from this machine, which has the only user.
func fromHere(pages http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !loopback.SentByAny(r) {
			http.Error(w, "this page is for the machine where the gateway runs: open it there, by the address in public_url",
				http.StatusForbidden)
			return
		}
		pages.ServeHTTP(w, r)
	})
}

// asksSignIn makes the stage that asks users to sign in at servers; it does nothing if they have no
// accounts anywhere.
func asksSignIn(with *accounts.Accounts, servers []upstream.Config) mcp.Middleware {
	if with == nil || !config.HasAccounts(servers) {
		return func(next mcp.Handler) mcp.Handler { return next }
	}
	return with.Middleware
}
