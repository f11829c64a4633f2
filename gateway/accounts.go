package gateway

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"slices"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/auth/accounts"
	"github.com/gatehouse-mcp/gatehouse/auth/signin"
	"github.com/gatehouse-mcp/gatehouse/auth/vault"
	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/kept"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// accountsPath is where replicas tell each other that a user has signed in at a server or out of it
// (cluster.Cluster.Ask).
const accountsPath = "/accounts"

// accountNews tells that a user has signed in at a server or out of it.
type accountNews struct {
	vault *vault.Vault
	// lists has the lists of a server asked for again for a user.
	lists func(server string, caller *mcp.Caller)
	// others has all other replicas serve a POST. It returns those that did not.
	others func(ctx context.Context, path string) (missing []string)
	log    *slog.Logger
}

// tellOthers tells all other replicas.
func (n accountNews) tellOthers(ctx context.Context, who vault.Owner, server string) {
	about := url.Values{"issuer": {who.Issuer}, "user": {who.User}, "server": {server}}
	if missing := n.others(ctx, accountsPath+"?"+about.Encode()); len(missing) > 0 {
		n.log.Warn("replicas could not be told that a user has signed in at a server or out of it: they find out themselves, within seconds",
			failure.ReplicaUnreachable.Attr(), "upstream", server, "replicas", missing)
	}
}

// told takes what another replica tells.
func (n accountNews) told(w http.ResponseWriter, r *http.Request) {
	about := r.URL.Query()
	who, server := vault.Owner{Issuer: about.Get("issuer"), User: about.Get("user")}, about.Get("server")
	n.vault.Changed(who, server)
	n.lists(server, &mcp.Caller{Issuer: who.Issuer, Subject: who.User})
	w.WriteHeader(http.StatusNoContent)
}

// accountsDesk answers operators who ask for accounts. now returns the configuration that holds.
func accountsDesk(n accountNews, now func() config.Config) admin.Accounts {
	v := n.vault
	return admin.Accounts{
		Of: func(ctx context.Context, issuer, user string) (all []admin.Account, err error) {
			servers, issuers := now().Upstreams, now().Issuers()
			if issuer != "" {
				issuers = []string{issuer}
			}
			for _, issuer := range issuers {
				states, err := v.States(ctx, vault.Owner{Issuer: issuer, User: user}, config.WithAccounts(servers))
				if err != nil {
					return nil, err
				}
				for _, s := range states {
					all = append(all, admin.Account{
						Issuer: issuer, User: user, Server: s.Server, State: s.State, Why: s.Why, Since: s.Since, Used: s.Used, Expires: s.Expires,
						AuthServer: s.AuthServer, Scope: s.Scope, Wanted: s.Wanted,
					})
				}
			}
			return all, nil
		},
		End: func(ctx context.Context, issuer, user, server string) error {
			servers, issuers := now().Upstreams, now().Issuers()
			switch {
			case !slices.Contains(config.WithAccounts(servers), server):
				return admin.ErrNoServer
			case issuer == "" && len(issuers) != 1:
				return admin.ErrSomeIssuer
			}
			if issuer == "" {
				issuer = issuers[0]
			}
			who := vault.Owner{Issuer: issuer, User: user}
			if err := v.Forget(ctx, who, server); err != nil {
				return err
			}
			n.lists(server, &mcp.Caller{Issuer: issuer, Subject: user})
			n.tellOthers(context.WithoutCancel(ctx), who, server)
			return nil
		},
	}
}

// accountsFlow is how users sign in at the pages of their accounts, nil if nothing says it.
func accountsFlow(cfg config.Config, issuers *auth.Auth, key *seal.Key, ended *kept.Store) *signin.Flow {
	s := cfg.AccountsSignIn()
	if s.ClientID == "" || len(cfg.Auth.Issuers) == 0 {
		return nil
	}
	first, server := cfg.Auth.Issuers[0].URL, cfg.Auth.Server
	redirect, path := accounts.CallbackOf(cfg.PublicURL)
	f := &signin.Flow{
		Issuer: cmp.Or(s.Issuer, first), ClientID: s.ClientID, ClientSecret: s.ClientSecret, Scopes: s.Scopes,
		Redirect: redirect, Cookie: "gatehouse-account-flow", Path: path, Key: key, Ended: ended, Issuers: issuers, Several: true,
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
		// A provider whose tokens name another audience knows no resources, and may refuse them.
		if iss.URL == f.Issuer && (len(iss.Audiences) == 0 || slices.Contains(iss.Audiences, publicURL)) {
			f.Resource = publicURL
		}
	}
}

// withPages serves the pages of accounts beside other paths.
func withPages(pages, others http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if accounts.Serves(r.URL.EscapedPath()) {
			pages.ServeHTTP(w, r)
			return
		}
		others.ServeHTTP(w, r)
	})
}

// asksSignIn is the stage that asks users to sign in at servers, none if they have no accounts
// anywhere.
func asksSignIn(with *accounts.Accounts, servers []upstream.Config) mcp.Middleware {
	if with == nil || !config.HasAccounts(servers) {
		return func(next mcp.Handler) mcp.Handler { return next }
	}
	return with.Middleware
}
