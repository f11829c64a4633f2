package admin

import "time"

// Account is a user's own account at a server.
type Account struct {
	Issuer string `json:"issuer"`
	User   string `json:"user"`
	Server string `json:"upstream"`
	// State is ok, needs_sign_in, expired, revoked or error, Why the reason for it.
	State string `json:"state"`
	Why   string `json:"why,omitempty"`
	// Since is the time of the sign-in, Used the last use, Expires the end of the token.
	Since   time.Time `json:"since,omitzero"`
	Used    time.Time `json:"used,omitzero"`
	Expires time.Time `json:"expires,omitzero"`
	// AuthServer is the server of the sign-in, Scope the granted scope, Wanted what the server has
	// asked for beyond it.
	AuthServer string   `json:"authorization_server,omitempty"`
	Scope      string   `json:"scope,omitempty"`
	Wanted     []string `json:"wanted,omitempty"`
}

// ErrSomeIssuer is for a user named without the issuer, where there are several.
var ErrSomeIssuer = BadRequest("there are several issuers: say which one knows the user")

// AccountQuestion names a user, and for an end the server of one account.
type AccountQuestion struct {
	// Issuer is that of the user: "" for all, or, for an end, where there is only one.
	Issuer, User string
	Server       string
}

// Accounts are those of a user.
type Accounts struct {
	Accounts []Account `json:"accounts"`
}
