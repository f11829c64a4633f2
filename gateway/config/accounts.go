package config

import (
	"net/url"
	"os"
	"path/filepath"
	"slices"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/auth/accounts"
	"github.com/gatehouse-mcp/gatehouse/auth/outbound"
	"github.com/gatehouse-mcp/gatehouse/auth/signin"
	"github.com/gatehouse-mcp/gatehouse/internal/loopback"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/problems"
	"github.com/gatehouse-mcp/gatehouse/session"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// WithAccounts returns the servers at which users have accounts.
func WithAccounts(servers []upstream.Config) (names []string) {
	for _, u := range servers {
		if u.Auth.Type == outbound.TypeUserOAuth {
			names = append(names, u.Name)
		}
	}
	return names
}

// AccountServers returns the enabled servers at which users have accounts, as users see them who sign in
// there.
func AccountServers(servers []upstream.Config) (all []accounts.Server) {
	for _, u := range servers {
		if !Enabled(u) || u.Auth.Type != outbound.TypeUserOAuth {
			continue
		}
		s := accounts.Server{
			Name: u.Name, URL: u.URL, Issuer: u.Auth.AuthorizationServer,
			ClientID: u.Auth.ClientID, ClientSecret: u.Auth.ClientSecret, ClientAuth: u.Auth.ClientAuth, Scopes: u.Auth.Scopes,
			Route: u.Route(),
		}
		if u.Auth.Resource != nil {
			s.Resource, s.NoResource = *u.Auth.Resource, *u.Auth.Resource == ""
		}
		all = append(all, s)
	}
	return all
}

// AccountsSignIn returns the sign-in at the pages of users' accounts: that of the section, else of the
// gateway's own authorization server, else of the console.
func (c Config) AccountsSignIn() signin.Config {
	switch server := c.Auth.Server; {
	case !c.Accounts.SignIn.IsZero():
		return c.Accounts.SignIn
	case server.Enabled:
		return signin.Config{Issuer: server.Provider, ClientID: server.ClientID, ClientSecret: server.ClientSecret,
			Scopes: server.Scopes}
	}
	return c.Admin.Console.SignIn
}

// StateDirectory returns the directory of the state, "" for none.
func (c Config) StateDirectory() string {
	switch {
	case c.Sessions.Store == session.StoreRedis:
		return ""
	case c.State.Directory != "":
		return c.State.Directory
	case c.Auth.Identifies() || !HasAccounts(c.Upstreams):
		return ""
	}
	settings, err := os.UserConfigDir()
	if err != nil {
		return ""
	}
	return filepath.Join(settings, "gatehouse", notInName.ReplaceAllString(c.WithDefaults().Listen, "-"))
}

// checkAccounts returns mistakes in the section "vault", and in servers at which users have
// accounts. others are the keys of other sections.
func checkAccounts(c Config, others ...mcp.Secret) error {
	var found problems.List
	cfg, shared := c.Vault, c.Sessions.Store == session.StoreRedis
	found.At("vault", cfg.Validate())
	for i, k := range cfg.Keys {
		for _, other := range others {
			found.When(k.Key != "" && k.Key == other,
				"vault: keys[%d]: key: is that of sessions.key or audit.key, too: give each its own, so that whoever reads one has not got the other", i)
		}
	}
	public, err := url.Parse(c.PublicURL)
	here := err == nil && loopback.Host(public.Hostname())
	for i, u := range c.Upstreams {
		if u.Auth.Type != outbound.TypeUserOAuth {
			continue
		}
		path := UpstreamKey(i, u)
		found.When(c.Auth.Mode == auth.ModeKeys,
			"%s: auth: type: %s needs auth.mode oauth: who has an API key cannot sign in with a browser", path, u.Auth.Type)
		found.When(!c.Auth.Identifies() && !here,
			"%s: auth: type: %s in mode none needs a public_url on a loopback address: its user signs in on this machine",
			path, u.Auth.Type)
		if at, err := url.Parse(u.URL); err == nil && at.Scheme == "http" && !loopback.Host(at.Hostname()) {
			found.Add("%s: url: with auth.type %s it is https, or on a loopback address: tokens of users go there",
				path, u.Auth.Type)
		}
		found.When(shared && cfg.Keyless(),
			"%s: auth: type: %s needs the section vault with sessions.store: redis: the same key for all replicas, such as vault: {keys: [{id: \"1\", key: \"${env:GATEHOUSE_VAULT_KEY}\"}]}", path, u.Auth.Type)
	}
	return found.Err()
}

// HasAccounts reports whether users have accounts of their own at some server.
func HasAccounts(servers []upstream.Config) bool {
	return slices.ContainsFunc(servers,
		func(u upstream.Config) bool { return Enabled(u) && u.Auth.Type == outbound.TypeUserOAuth })
}
