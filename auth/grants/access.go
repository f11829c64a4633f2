package grants

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/auth/clientele"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// maxToken bounds an access token: auth takes no longer one.
const maxToken = 16 << 10

// ownClaims are claims about the provider's token, not about the user: those of our token are others.
var ownClaims = []string{
	"iss", "aud", "exp", "nbf", "iat", "jti", "resource", "client_id", "azp", "appid", "cid", "scope", "scp", "cnf", "typ",
	"nonce", "at_hash", "c_hash", "s_hash", "events", "active", "token_type", auth.ClaimProvider, auth.ClaimGrant,
}

// mint makes access tokens.
type mint struct {
	cfg       auth.ServerConfig
	keys      *Keys
	required  []string // scopes that every token has to have
	supported []string // scopes for which clients ask
}

// access returns an access token (RFC 9068). It has the provider's claims about the user, so that
// auth can judge it as it judges the provider's tokens.
func (s mint) access(ctx context.Context, g grant, name string, scopes []string) (string, error) {
	key, err := s.keys.signer(ctx)
	if err != nil {
		return "", err
	}
	now := time.Now()
	claims := mcp.Object("iss", mcp.String(s.cfg.Issuer))
	g.Claims.Members(func(name []byte, value mcp.Raw) bool {
		if !slices.Contains(ownClaims, string(name)) {
			claims = claims.With(string(name), value)
		}
		return true
	})
	for name, value := range map[string]string{
		"aud": g.Resource, "client_id": clientele.ShortID(g.Client), "jti": rand.Text(), auth.ClaimProvider: g.Provider,
		auth.ClaimGrant: name,
	} {
		claims = claims.With(name, mcp.String(value))
	}
	claims = claims.With("iat", mcp.Int(now.Unix())).With("exp", mcp.Int(now.Add(s.cfg.AccessTokenLife).Unix()))
	if len(scopes) > 0 {
		claims = claims.With("scope", mcp.String(strings.Join(scopes, " ")))
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256,
		Key: jose.JSONWebKey{Key: key.private, KeyID: key.ID}},
		(&jose.SignerOptions{}).WithType("at+jwt"))
	if err != nil {
		return "", fmt.Errorf("signing a token: %w", err)
	}
	signed, err := signer.Sign(claims)
	if err != nil {
		return "", fmt.Errorf("signing a token: %w", err)
	}
	token, err := signed.CompactSerialize()
	if err == nil && len(token) > maxToken {
		err = errors.New("what the provider says about the user is too long for a token: have it put less into its own, such as fewer groups")
	}
	return token, err
}

// granted returns the scopes that a client gets: of those that it asked for, which the user has by
// the provider's token, and always those that every call needs. An ID token has no scopes: then
// every user has all that clients ask for. A client that asks for none gets all.
func (s mint) granted(asked []string, who mcp.Caller) []string {
	has := who.Scopes
	if s.cfg.Identity == auth.IdentityIDToken {
		has = union(s.required, s.supported)
	}
	return s.of(asked, has)
}

// of returns those of has that are asked for.
func (s mint) of(asked, has []string) []string {
	var scopes []string
	for _, scope := range has {
		// between us and the provider
		own := scope == "openid" || scope == "profile" || scope == "email" || scope == "offline_access"
		if slices.Contains(s.required, scope) || !own && (len(asked) == 0 || slices.Contains(asked, scope)) {
			scopes = append(scopes, scope)
		}
	}
	return scopes
}

func union(a, b []string) []string {
	all := slices.Clone(a)
	for _, one := range b {
		if !slices.Contains(all, one) {
			all = append(all, one)
		}
	}
	return all
}

// grantOf returns the name of the grant of one of our tokens, "" for others.
func (s mint) grantOf(ctx context.Context, token string) (string, error) {
	if strings.Count(token, ".") != 2 {
		id, _, ok := strings.Cut(token, ".")
		if !ok {
			return "", nil
		}
		return nameOf(id), nil
	}
	parsed, err := jose.ParseSignedCompact(token, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		return "", nil
	}
	key, err := s.keys.Key(ctx, parsed.Signatures[0].Header.KeyID)
	if err != nil || key == nil {
		return "", err
	}
	claims, err := parsed.Verify(key)
	if err != nil {
		return "", nil
	}
	name, _ := mcp.Raw(claims).Member(auth.ClaimGrant)
	return name.Text(), nil
}
