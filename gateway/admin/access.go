package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// loopbackName is what records call those who come without a token.
const loopbackName = "loopback"

const (
	// roleApprover is the role of those who come with an access token for the gateway in place of
	// a token of admin.api: they see and decide on the calls that wait for them, and nothing else.
	roleApprover = "approver"
	// viewerOrApprover is for what both may.
	viewerOrApprover = RoleViewer + " or " + roleApprover
)

// operator is who makes a request.
type operator struct {
	name, role string
	person     *mcp.Caller // of an access token, else nil
}

// may reports whether a role is enough for what needs another one.
func (o operator) may(needed string) bool {
	return needed == RoleViewer || needed == viewerOrApprover || o.role == needed
}

// admit finds out who makes a request that needs a role.
func (a *API) admit(r *http.Request, role string) (operator, error) {
	cfg := a.deps.Config()
	if header, sent := r.Header["Authorization"]; sent {
		if len(header) == 1 {
			if who, ok := cfg.bearer(header[0]); ok {
				return who, nil
			}
		}
		if role == roleApprover || role == viewerOrApprover {
			return a.person(r)
		}
		return operator{}, refusal(http.StatusUnauthorized, failure.AdminTokenInvalid, "the token is none of admin.api.tokens")
	}
	if cfg.Loopback != "" && a.deps.Trusted(r) && sameSite(r) {
		return operator{name: loopbackName, role: cfg.Loopback}, nil
	}
	return operator{}, refusal(http.StatusUnauthorized, failure.AdminTokenMissing, "send one of admin.api.tokens, as Authorization: Bearer TOKEN")
}

// person finds out whose access token a request has.
func (a *API) person(r *http.Request) (operator, error) {
	caller, err := a.deps.Identify(r)
	refused, ok := errors.AsType[*auth.RefusedError](err)
	switch {
	case err == nil:
		return operator{caller.Subject, roleApprover, &caller}, nil
	case !ok:
		return operator{}, err
	case refused.Status == http.StatusUnauthorized || refused.Status == http.StatusBadRequest:
		return operator{}, refusal(http.StatusUnauthorized, failure.AdminTokenInvalid, "the token is none of admin.api.tokens, and no access token for the gateway: "+refused.Text)
	}
	return operator{}, refusal(refused.Status, refused.Name, refused.Text)
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
			who, ok = operator{name: t.Name, role: t.Role}, true
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
