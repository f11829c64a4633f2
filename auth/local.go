package auth

import (
	"context"
	"crypto"
	"errors"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// Claims that the gateway's own authorization server puts into its tokens, besides the provider's.
const (
	// ClaimProvider is the issuer where the user has signed in.
	ClaimProvider = "gatehouse_provider"
	// ClaimGrant names what the token was given by, so that it can be ended.
	ClaimGrant = "gatehouse_grant"
)

// errNoLocalKey is the error of Local.Key for an unknown key.
var errNoLocalKey = errors.New("there is no such key")

// Local is the authorization server of the gateway itself. It is asked by function calls, not by
// requests.
type Local interface {
	// Key returns the public key with an id, nil if there is none.
	Key(ctx context.Context, id string) (crypto.PublicKey, error)
	// Ended reports whether a grant has ended or never existed.
	Ended(ctx context.Context, grant string) (bool, error)
}

// local verifies the tokens of Local. Their users are those of the provider: the caller is the same
// as with a token of the provider.
type local struct {
	issuer string
	from   Local
	rules  rules // of the provider, with the audiences of the gateway
	keys   *keys // has none: for the generation, which never changes
}

// newLocal returns nil if the configuration, which has its defaults, has no server.
func newLocal(cfg Config, deps Deps) *local {
	at := slices.IndexFunc(cfg.Issuers, func(iss Issuer) bool { return iss.URL == cfg.Server.Provider })
	if !cfg.Server.Enabled || deps.Local == nil || at < 0 {
		return nil
	}
	provider := cfg.Issuers[at]
	provider.Audiences, provider.AllowedClients, provider.MaxTokenLifetime, provider.RequireSoleAudience = []string{deps.PublicURL}, nil, 0, false
	provider.RequireClaims, provider.Scopes = nil, nil // these were checked, and given, when the user signed in
	return &local{issuer: cfg.Server.Issuer, from: deps.Local, rules: newRules(cfg, provider, deps.at), keys: &keys{}}
}

// identify returns the caller of a token of the gateway's own server.
func (l *local) identify(ctx context.Context, token string, j jws, now time.Time) (identity, *refusal) {
	if j.alg != string(jose.ES256) || normalTyp(j.typ) != typAccessToken || !j.hasKid {
		return identity{}, badToken("the token is not an access token", nil)
	}
	key, err := l.from.Key(ctx, j.kid)
	if err == nil && key == nil {
		return identity{}, badToken("the token's signature cannot be verified", errNoLocalKey)
	}
	if err != nil {
		return identity{}, noJudgement("access tokens cannot be verified now: try again", retryMin, err)
	}
	parsed, err := jose.ParseSignedCompact(token, []jose.SignatureAlgorithm{jose.ES256})
	if err == nil {
		_, err = parsed.Verify(key)
	}
	if err != nil {
		return identity{}, badToken("the token's signature cannot be verified", err)
	}
	if provider, ok := member(j.claims, ClaimProvider); !ok || provider != l.rules.URL {
		return identity{}, badToken("the token's user has signed in where nobody signs in any more", nil)
	}
	id, ref := l.rules.judge(j.claims.With("iss", mcp.String(l.rules.URL)), now)
	if ref != nil {
		return identity{}, ref
	}
	grant, _ := member(j.claims, ClaimGrant)
	switch ended, err := l.from.Ended(ctx, grant); {
	case err != nil:
		return identity{}, noJudgement("access tokens cannot be verified now: try again", retryMin, err)
	case ended:
		return identity{}, badToken("the token has been revoked", nil)
	}
	return id, nil
}
