package outbound

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/auth/vault"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/problems"
)

// accounts are the users' accounts at one upstream.
type accounts struct {
	vault         *vault.Vault
	upstream, url string
	oneUser       bool // see Deps
}

// token returns the token of a caller's account. Errors are an *Error.
func (a *accounts) token(ctx context.Context, caller mcp.Caller) (token string, stamp uint64, err error) {
	if caller.Subject == "" && !a.oneUser {
		return "", 0, &Error{Why: "it is used in the name of each user, and this request comes without one"}
	}
	token, stamp, err = a.vault.Token(ctx, vault.OwnerOf(caller), a.upstream, a.url)
	return token, stamp, fromVault(err)
}

// refused notes that the upstream refused a token, or what it allows. Errors are an *Error.
func (a *accounts) refused(ctx context.Context, caller mcp.Caller, stamp uint64, status int,
	challenge string) (again bool, err error) {
	owner := vault.OwnerOf(caller)
	switch {
	case status == http.StatusUnauthorized, strings.Contains(challenge, "invalid_token"):
		again, err = a.vault.Refused(ctx, owner, a.upstream, stamp)
	case strings.Contains(challenge, "insufficient_scope"): // RFC 6750 §3.1
		if scopes := scopesOf(challenge); len(scopes) > 0 {
			err = a.vault.Wants(ctx, owner, a.upstream, scopes)
		}
	}
	return again, fromVault(err)
}

// fromVault returns an error of the vault as an *Error.
func fromVault(err error) error {
	if err == nil {
		return nil
	}
	if in, ok := errors.AsType[*vault.SignInError](err); ok {
		why := "you have no account there yet, or have signed out"
		switch {
		case in.Refused:
			why = "it does not accept your sign-in there any more"
		case len(in.Scopes) > 0 && in.State == vault.StateNeedsSignIn:
			why = "it asks for more rights than you have given (" + printable(strings.Join(in.Scopes, " ")) + ")"
		case in.State == vault.StateExpired:
			why = "your sign-in there has expired"
		case in.State == vault.StateRevoked:
			why = "your sign-in there has been revoked, or has expired"
		}
		return &Error{Why: why, SignIn: true, cause: err}
	}
	if known, ok := errors.AsType[*vault.Error](err); ok {
		return &Error{Why: known.Why, cause: known.Unwrap()}
	}
	return &Error{Why: "your account there cannot be used now; try again later", cause: err}
}

// scopePart is the scope of a challenge (RFC 6750 §3), quoted or not.
var scopePart = regexp.MustCompile(`(?i)(?:^|[\s,])scope\s*=\s*(?:"([^"\\]*)"|([^\s,"]+))`)

// maxChallenge bounds what is read of a challenge, in bytes.
const maxChallenge = 8 << 10

// scopesOf returns the scopes that a challenge asks for.
func scopesOf(challenge string) (scopes []string) {
	if len(challenge) > maxChallenge {
		return nil
	}
	match := scopePart.FindStringSubmatch(challenge)
	if match == nil {
		return nil
	}
	for scope := range strings.FieldsSeq(match[1] + match[2]) {
		if scopePattern.MatchString(scope) {
			scopes = append(scopes, scope)
		}
	}
	return scopes
}

// validateUserOAuth reports what is wrong with a configuration of that type.
func (c Config) validateUserOAuth() (found problems.List) {
	if c.AuthorizationServer != "" {
		found.At("authorization_server", checkURL(c.AuthorizationServer))
	}
	switch {
	case c.ClientID == "" && (c.ClientSecret != "" || c.ClientAuth != ""):
		found.Add("client_id: is needed with client_secret and client_auth")
	case c.ClientID != "" && c.AuthorizationServer == "":
		found.Add("authorization_server: is needed with client_id: the gateway is registered there and nowhere else")
	case c.ClientAuth != "" && c.ClientSecret == "":
		found.Add("client_auth: is of use with a client_secret only")
	case c.ClientAuth != "" && c.ClientAuth != authBasic && c.ClientAuth != authPost:
		found.Add("client_auth: %q: want %s or %s", c.ClientAuth, authBasic, authPost)
	}
	found.Join(c.validateTarget()...)
	return found
}

// Trusted returns the URLs that the operator has configured for an upstream at this endpoint: the
// authorization server of its users may be at their addresses, as when they sign in.
func (c Config) Trusted(endpoint string) []string {
	if c.AuthorizationServer != "" {
		return []string{endpoint, c.AuthorizationServer}
	}
	return []string{endpoint}
}
