package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
)

// loopbackName is what records call those who come without a token.
const loopbackName = "loopback"

// operator is who makes a request.
type operator struct{ name, role string }

// may reports whether a role is enough for what needs another one.
func (o operator) may(needed string) bool { return needed == RoleViewer || o.role == needed }

// admit finds out who makes a request.
func (a *API) admit(r *http.Request) (operator, error) {
	cfg := a.deps.Config()
	if header, sent := r.Header["Authorization"]; sent {
		if len(header) == 1 {
			if who, ok := cfg.bearer(header[0]); ok {
				return who, nil
			}
		}
		return operator{}, refusal(http.StatusUnauthorized, failure.AdminTokenInvalid, "the token is none of admin.api.tokens")
	}
	if cfg.Loopback != "" && a.deps.Trusted(r) && sameSite(r) {
		return operator{loopbackName, cfg.Loopback}, nil
	}
	return operator{}, refusal(http.StatusUnauthorized, failure.AdminTokenMissing, "send one of admin.api.tokens, as Authorization: Bearer TOKEN")
}

// bearer finds whose token a header has. How long it takes depends on no token: hashes are
// compared, and with all of them.
func (c Config) bearer(header string) (who operator, ok bool) {
	scheme, token, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return operator{}, false
	}
	sent := sha256.Sum256([]byte(token))
	for _, t := range c.Tokens {
		known := sha256.Sum256([]byte(string(t.Secret)))
		if subtle.ConstantTimeCompare(sent[:], known[:]) == 1 {
			who, ok = operator{t.Name, t.Role}, true
		}
	}
	return who, ok
}

// sameSite reports whether a request does not come from a page of another site, as far as its
// browser says.
func sameSite(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
		return true
	}
	return false
}
