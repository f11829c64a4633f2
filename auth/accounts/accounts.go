package accounts

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"github.com/gatehouse-mcp/gatehouse/auth/signin"
	"github.com/gatehouse-mcp/gatehouse/auth/vault"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/webpage"
)

// Vault keeps what authorization servers gave; a *vault.Vault.
type Vault interface {
	Keep(ctx context.Context, who vault.Owner, server string, g vault.Grant) error
	Forget(ctx context.Context, who vault.Owner, server string) error
	States(ctx context.Context, who vault.Owner, servers []string) ([]vault.State, error)
}

// Deps are the dependencies of an Accounts. Everything is required.
type Deps struct {
	Flow
	Vault Vault
	// People are the users who have signed in at the pages, SignIn is their flow; nil while sign-in is off.
	People *signin.Sessions
	SignIn func() *signin.Flow
	// OneUser reports whether there is one user, who need not sign in at the pages: then only requests of
	// this user may come here.
	OneUser func() bool
	// Servers are those where users have accounts now, in the order in which they are shown.
	Servers func() []Server
	// May reports whether policy lets a caller use a server.
	May func(caller *mcp.Caller, server string) bool
	// Changed learns that a user has signed in at a server or out of it, so that lists are fetched
	// again.
	Changed func(server string, caller *mcp.Caller)
	// Others tells the other replicas, too. It returns when they know, or when it has given up.
	Others func(ctx context.Context, who vault.Owner, server string)
	// Failed records a sign-in at a server that failed.
	Failed func(server string, caller *mcp.Caller, why error)
	Log    *slog.Logger
}

// Accounts has users sign in at servers. It is safe for concurrent use.
type Accounts struct {
	Deps
	pages   *webpage.Pages
	mux     *http.ServeMux
	waiting waiting
	outage  signin.Outage
}

// New makes an Accounts.
func New(deps Deps) (*Accounts, error) {
	if deps.Key == nil || deps.Store == nil || deps.Vault == nil || deps.People == nil || deps.Log == nil {
		return nil, errors.New("accounts: a dependency is missing")
	}
	pages, err := webpage.New(templates)
	if err != nil {
		return nil, err
	}
	a := &Accounts{Deps: deps, pages: pages, mux: http.NewServeMux()}
	a.routes()
	return a, nil
}

// server returns the server with a name, if users have accounts there and this one may use it.
func (a *Accounts) server(name string, caller *mcp.Caller) (Server, bool) {
	for _, s := range a.Servers() {
		if s.Name == name {
			return s, a.May(caller, name)
		}
	}
	return Server{}, false
}

// state returns the state of a user's account at a server. It makes this replica see what another
// one has changed.
func (a *Accounts) state(ctx context.Context, who vault.Owner, server string) (vault.State, error) {
	states, err := a.Vault.States(ctx, who, []string{server})
	if err != nil || len(states) != 1 {
		return vault.State{}, errors.Join(errors.New("the state of an account is not known"), err)
	}
	return states[0], nil
}
