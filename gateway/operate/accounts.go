package operate

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"slices"

	"github.com/gatehouse-mcp/gatehouse/auth/vault"
	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// AccountsPath is the path at which replicas tell each other that a user has signed in or out at a
// server (cluster.Cluster.Ask).
const AccountsPath = "/accounts"

// Accounts answers operators who ask for users' accounts or end one.
type Accounts struct {
	Vault *vault.Vault
	Now   func() Now
	// Lists fetches the lists of a server again for a user.
	Lists func(server string, caller *mcp.Caller)
	// Others sends a POST to all other replicas. It returns those that did not serve it.
	Others func(ctx context.Context, path string) (missing []string)
	Log    *slog.Logger
}

// Of returns the accounts of a user of an issuer, or of all issuers if it is "". Errors: those of
// vault.Vault.States.
func (s Accounts) Of(ctx context.Context, issuer, user string) (all []admin.Account, err error) {
	cfg := s.Now().Config
	issuers := cfg.Issuers()
	if issuer != "" {
		issuers = []string{issuer}
	}
	for _, issuer := range issuers {
		states, err := s.Vault.States(ctx, vault.Owner{Issuer: issuer, User: user}, config.WithAccounts(cfg.Upstreams))
		if err != nil {
			return nil, err
		}
		for _, state := range states {
			all = append(all, admin.Account{
				Issuer:     issuer,
				User:       user,
				Server:     state.Server,
				State:      state.State,
				Why:        state.Why,
				Since:      state.Since,
				Used:       state.Used,
				Expires:    state.Expires,
				AuthServer: state.AuthServer,
				Scope:      state.Scope,
				Wanted:     state.Wanted,
			})
		}
	}
	return all, nil
}

// End ends a user's account at a server. The issuer may be "" if there is only one. Errors:
// admin.ErrNoServer, admin.ErrSomeIssuer, and those of vault.Vault.Forget.
func (s Accounts) End(ctx context.Context, issuer, user, server string) error {
	cfg := s.Now().Config
	issuers := cfg.Issuers()
	switch {
	case !slices.Contains(config.WithAccounts(cfg.Upstreams), server):
		return admin.ErrNoServer
	case issuer == "" && len(issuers) != 1:
		return admin.ErrSomeIssuer
	}
	if issuer == "" {
		issuer = issuers[0]
	}
	who := vault.Owner{Issuer: issuer, User: user}
	if err := s.Vault.Forget(ctx, who, server); err != nil {
		return err
	}
	s.Lists(server, &mcp.Caller{Issuer: issuer, Subject: user})
	s.Tell(context.WithoutCancel(ctx), who, server)
	return nil
}

// Tell tells all other replicas that a user has signed in or out at a server.
func (s Accounts) Tell(ctx context.Context, who vault.Owner, server string) {
	about := url.Values{"issuer": {who.Issuer}, "user": {who.User}, "server": {server}}
	if missing := s.Others(ctx, AccountsPath+"?"+about.Encode()); len(missing) > 0 {
		s.Log.Warn("replicas could not be told that a user has signed in at a server or out of it: they find out themselves, within seconds",
			failure.ReplicaUnreachable.Attr(), "upstream", server, "replicas", missing)
	}
}

// Told takes a message of Tell from another replica.
func (s Accounts) Told(w http.ResponseWriter, r *http.Request) {
	about := r.URL.Query()
	who, server := vault.Owner{Issuer: about.Get("issuer"), User: about.Get("user")}, about.Get("server")
	s.Vault.Changed(who, server)
	s.Lists(server, &mcp.Caller{Issuer: who.Issuer, Subject: who.User})
	w.WriteHeader(http.StatusNoContent)
}
