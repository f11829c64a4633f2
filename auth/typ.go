package auth

import (
	"slices"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// typAccessToken is the type of a JWT access token (RFC 9068 §2.1).
const typAccessToken = "at+jwt"

// normalTyp is a header's typ in lower case without the optional "application/" (RFC 7515
// §4.1.9).
func normalTyp(typ string) string {
	return strings.TrimPrefix(strings.ToLower(typ), "application/")
}

// neverTyp reports whether a typ marks something other than an access token:
// Issuer.RequireTyp must not have it.
func neverTyp(typ string) bool {
	switch typ {
	case "id_token+jwt", "logout+jwt", "dpop+jwt", "secevent+jwt", "token-introspection+jwt",
		"oauth-id-jag+jwt", "oauth-authz-req+jwt", "client-authentication+jwt", "kb+jwt", "entity-statement+jwt":
		return true
	}
	return false
}

// checkTyp refuses JWTs of another type. Many issuers write JWT or nothing, whatever they
// sign.
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

// checkKind refuses tokens that, by their claims, are not access tokens; sure says that something
// else has shown that they are.
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
	if !sure && (nonce && !r.AllowNonce || atHash || codeHash || !r.Workloads && !grants(claims)) {
		return badToken("the token looks like an ID token: send the access token", nil)
	}
	return nil
}

// grants reports whether the claims are typical of an access token. An ID token may have
// neither a nonce nor a hash. It is for the client that it names (OpenID Connect Core §2),
// and does not say what that client may do. Access tokens name a client or its permissions:
// scope and client_id (RFC 9068), scp, roles and appid (Entra ID), cid (Okta), permissions
// and gty (Auth0), and the typ Bearer (Keycloak).
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
