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

// loopbackName is the name in records of operators without a token.
const loopbackName = "loopback"

const (
	// roleApprover is the role of people with an access token for the gateway in place of a token
	// of admin.api. They see and decide on the calls that wait for them, and nothing else.
	roleApprover = "approver"
	// Approvers stands for operators and approvers, for what both may.
	Approvers = RoleViewer + " or " + roleApprover
)

// Operator is the person or program that makes a request.
type Operator struct {
	Name string
	// Roles are those of the operator. Each of them allows reading.
	Roles []string
	// Person is the owner of the request's access token, or the person who has signed in: they may
	// decide on calls that wait for them. Nil for none.
	Person *mcp.Caller
	// Caller is the person who has signed in, with any roles or none: they try tools as any client
	// of theirs calls them. Nil for none.
	Caller *mcp.Caller
	// From is the origin of the request.
	From mcp.Origin
}

// May reports whether the operator's roles suffice for an operation that needs this one.
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

// role describes the operator's roles in words.
func (o Operator) role() string {
	if len(o.Roles) == 0 {
		return roleApprover
	}
	return strings.Join(o.Roles, ", ")
}

// admit identifies the operator of a request that needs a role.
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

// person identifies the owner of a request's access token.
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

// bearer returns the owner of the token in a header. Its time depends on no token: it compares
// hashes, and all of them.
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
