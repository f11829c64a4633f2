package auth

import "strings"

// normalTyp is a header's typ without regard to case and the "application/" that may be
// left out (RFC 7515 §4.1.9).
func normalTyp(typ string) string {
	return strings.TrimPrefix(strings.ToLower(typ), "application/")
}

// neverTyp reports whether a typ says that a token is something else than an access
// token, whatever the configuration says.
func neverTyp(typ string) bool {
	switch typ {
	case "id_token+jwt", "logout+jwt", "dpop+jwt", "secevent+jwt", "token-introspection+jwt",
		"oauth-id-jag+jwt", "oauth-authz-req+jwt", "client-authentication+jwt", "kb+jwt", "entity-statement+jwt":
		return true
	}
	return false
}
