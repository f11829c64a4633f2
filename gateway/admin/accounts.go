package admin

import (
	"context"
	"errors"
	"time"
)

// Account is a user's own account at a server.
type Account struct {
	Issuer string `json:"issuer"`
	User   string `json:"user"`
	Server string `json:"upstream"`
	// State is ok, needs_sign_in, expired, revoked or error, Why the reason for it.
	State string `json:"state"`
	Why   string `json:"why,omitempty"`
	// Since is when the user signed in, Used the last use, Expires the end of the token.
	Since   time.Time `json:"since,omitzero"`
	Used    time.Time `json:"used,omitzero"`
	Expires time.Time `json:"expires,omitzero"`
	// AuthServer is where they signed in, Scope what was granted, Wanted what the server has asked
	// for beyond it.
	AuthServer string   `json:"authorization_server,omitempty"`
	Scope      string   `json:"scope,omitempty"`
	Wanted     []string `json:"wanted,omitempty"`
}

// ErrSomeIssuer is for an account whose user is named without the issuer, where there are several.
var ErrSomeIssuer = errors.New("there are several issuers: say which one knows the user")

// Accounts see and end the accounts of users at servers.
type Accounts struct {
	// Of returns those of a user of an issuer, of all issuers for "". The error is that of the store.
	Of func(ctx context.Context, issuer, user string) ([]Account, error)
	// End ends one, as if its user had signed out. The issuer can be "" where there is only one.
	// Errors: ErrNoServer, ErrSomeIssuer, that of the store.
	End func(ctx context.Context, issuer, user, server string) error
}
