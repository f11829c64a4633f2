package auth

import (
	"slices"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// typAccessToken is the type of a JWT access token (RFC 9068 §2.1).
const typAccessToken = "at+jwt"

// normalTyp is a header's typ without regard to case and the "application/" that may be
// left out (RFC 7515 §4.1.9).
func normalTyp(typ string) string {
	return strings.TrimPrefix(strings.ToLower(typ), "application/")
}

// neverTyp reports whether a typ says that a token is something else than an access
// token: Issuer.RequireTyp cannot have it.
func neverTyp(typ string) bool {
	switch typ {
	case "id_token+jwt", "logout+jwt", "dpop+jwt", "secevent+jwt", "token-introspection+jwt",
		"oauth-id-jag+jwt", "oauth-authz-req+jwt", "client-authentication+jwt", "kb+jwt", "entity-statement+jwt":
		return true
	}
	return false
}

// checkTyp refuses JWTs that are meant for something else. Many issuers say JWT or
// nothing, for all that they sign.
func (r *rules) checkTyp(j jws) *refusal {
	typ := normalTyp(j.typ)
	good := typ == "" || typ == "jwt" || typ == typAccessToken
	if len(r.RequireTyp) > 0 {
		good = slices.ContainsFunc(r.RequireTyp, func(want string) bool { return normalTyp(want) == typ })
	}
	if !good {
		return badToken("the token is not an access token", nil)
	}
	return r.checkKind(j.claims, typ == typAccessToken)
}

// checkKind refuses tokens whose claims show that they are no access tokens; sure says
// that something else did show that they are.
func (r *rules) checkKind(claims mcp.Raw, sure bool) *refusal {
	// A logout token, or another security event (RFC 8417).
	_, event := claims.Member("events")
	// Keycloak writes into the claims what a token is.
	kind, _ := claims.Member("typ")
	if event || slices.Contains([]string{"id", "refresh", "offline", "logout"}, strings.ToLower(kind.Text())) {
		return badToken("the token is not an access token", nil)
	}
	_, nonce := claims.Member("nonce")
	_, atHash := claims.Member("at_hash")
	_, codeHash := claims.Member("c_hash")
	if !sure && (nonce && !r.AllowNonce || atHash || codeHash || !grants(claims)) {
		return badToken("the token looks like an ID token: send the access token", nil)
	}
	return nil
}

// grants reports whether claims are such as access tokens have. ID tokens need have neither a
// nonce nor a hash; they are for the client that they name (OpenID Connect Core §2), if they
// name it, and say nothing of what it may do. Access tokens name a client, or say that: scope
// and client_id are RFC 9068's, scp, roles and appid Entra ID's, cid Okta's, permissions and
// gty Auth0's, and the typ Bearer Keycloak's.
func grants(claims mcp.Raw) bool {
	for _, name := range []string{"scope", "scp", "client_id", "appid", "cid", "roles", "permissions", "gty"} {
		if _, has := claims.Member(name); has {
			return true
		}
	}
	if kind, _ := claims.Member("typ"); strings.EqualFold(kind.Text(), "bearer") {
		return true
	}
	client, has := claims.Member("azp")
	aud, _ := claims.Member("aud")
	audiences, _ := textList(aud)
	return has && !slices.Contains(audiences, client.Text())
}
