package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/loopback"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// loopbackName is what records call those who come without a token.
const loopbackName = "loopback"

const (
	// roleApprover is the role of those who come with an access token for the gateway in place of
	// a token of admin.api: they see and decide on the calls that wait for them, and nothing else.
	roleApprover = "approver"
	// Approvers stands for operators and approvers, for what both may.
	Approvers = RoleViewer + " or " + roleApprover
)

// Operator is who makes a request.
type Operator struct {
	Name string
	// Roles are those that the operator has, each of which lets them read.
	Roles []string
	// Person is whose access token came with the request, or who has signed in: they may decide on
	// calls that wait for them. Nil for nobody.
	Person *mcp.Caller
	// Caller is who has signed in, whatever they may do here: they try tools as any client of theirs
	// calls them. Nil for nobody.
	Caller *mcp.Caller
	// From is where the request comes from.
	From mcp.Origin
}

// May reports whether the operator has a role that is enough for what needs this one.
func (o Operator) May(needed string) bool {
	switch needed {
	case RoleViewer:
		return len(o.Roles) > 0
	case Approvers:
		return len(o.Roles) > 0 || o.Person != nil
	case roleApprover:
		return o.Person != nil
	}
	return slices.Contains(o.Roles, needed)
}

// role says in words what the operator is.
func (o Operator) role() string {
	if len(o.Roles) == 0 {
		return roleApprover
	}
	return strings.Join(o.Roles, ", ")
}

// admit finds out who makes a request that needs a role.
func (a *API) admit(r *http.Request, role string) (Operator, error) {
	cfg := a.deps.Config()
	if header, sent := r.Header["Authorization"]; sent {
		if len(header) == 1 {
			if who, ok := cfg.bearer(header[0]); ok {
				return who, nil
			}
		}
		if role == roleApprover || role == Approvers {
			return a.person(r)
		}
		return Operator{}, refusal(http.StatusUnauthorized, failure.AdminTokenInvalid,
			"the token is none of admin.api.tokens")
	}
	if cfg.Loopback != "" && loopback.Sent(r) && sameSite(r) {
		return Operator{Name: loopbackName, Roles: []string{cfg.Loopback}}, nil
	}
	return Operator{}, refusal(http.StatusUnauthorized, failure.AdminTokenMissing,
		"send one of admin.api.tokens, as Authorization: Bearer TOKEN")
}

// person finds out whose access token a request has.
func (a *API) person(r *http.Request) (Operator, error) {
	caller, err := a.deps.Identify(r)
	refused, ok := errors.AsType[*auth.RefusedError](err)
	switch {
	case err == nil:
		return Operator{Name: caller.Subject, Person: &caller}, nil
	case !ok:
		return Operator{}, err
	case refused.Status == http.StatusUnauthorized || refused.Status == http.StatusBadRequest:
		return Operator{}, refusal(http.StatusUnauthorized, failure.AdminTokenInvalid,
			"the token is none of admin.api.tokens, and no access token for the gateway: "+refused.Text)
	}
	return Operator{}, refusal(refused.Status, refused.Name, refused.Text)
}

// bearer finds whose token a header has. How long it takes depends on no token: hashes are
// compared, and with all of them.
func (c Config) bearer(header string) (who Operator, ok bool) {
	scheme, token, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return Operator{}, false
	}
	sent := sha256.Sum256([]byte(token))
	for _, t := range c.Tokens {
		known := sha256.Sum256([]byte(string(t.Secret)))
		if subtle.ConstantTimeCompare(sent[:], known[:]) == 1 {
			who, ok = Operator{Name: t.Name, Roles: []string{t.Role}}, true
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
