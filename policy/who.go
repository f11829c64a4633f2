package policy

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// audience is a Who in a form for lookups.
type audience struct {
	users, groups                    map[named]bool
	emails, issuers, scopes, clients map[string]bool
	claims                           []claim
}

// named is a user or group of one issuer, or of any issuer if issuer is "".
type named struct{ issuer, name string }

type claim struct {
	name   string
	values map[string]bool
}

func newAudience(w Who) *audience {
	c := &audience{
		users: namedSet(w.Users), groups: namedSet(w.Groups),
		emails: set(w.Emails), issuers: set(w.Issuers), scopes: set(w.Scopes), clients: set(w.Clients),
	}
	for name, values := range w.Claims {
		c.claims = append(c.claims, claim{name, set(values)})
	}
	slices.SortFunc(c.claims, func(a, b claim) int { return strings.Compare(a.name, b.name) })
	return c
}

func set(values []string) map[string]bool {
	if values == nil {
		return nil
	}
	s := make(map[string]bool, len(values))
	for _, v := range values {
		s[v] = true
	}
	return s
}

func namedSet(values []string) map[named]bool {
	if values == nil {
		return nil
	}
	s := make(map[named]bool, len(values))
	for _, v := range values {
		issuer, name := splitIssuer(v)
		s[named{issuer, name}] = true
	}
	return s
}

// String says in words who they are: "everybody", or such as "in the group admins or sales, with
// the scope mcp:write".
func (w Who) String() string {
	var parts []string
	one := func(label string, values []string) {
		if len(values) > 0 {
			parts = append(parts, label+" "+strings.Join(values, " or "))
		}
	}
	one("the user", w.Users)
	one("in the group", w.Groups)
	one("with the email", w.Emails)
	one("of the issuer", w.Issuers)
	one("with the scope", w.Scopes)
	one("through the client", w.Clients)
	for _, name := range slices.Sorted(maps.Keys(w.Claims)) {
		one("with the claim "+name+":", w.Claims[name])
	}
	if parts == nil {
		return "everybody"
	}
	return strings.Join(parts, ", ")
}

// IsZero reports whether every caller belongs to it.
func (w Who) IsZero() bool { return reflect.ValueOf(w).IsZero() }

// everybody reports whether every caller belongs to the audience.
func (w *audience) everybody() bool {
	return w.users == nil && w.groups == nil && w.emails == nil && w.issuers == nil && w.scopes == nil &&
		w.clients == nil && w.claims == nil
}

// has reports whether the caller belongs to the audience, as far as that is known.
func (w *audience) has(p *subject) bool { return w.lacks(p) == "" }

// lacks returns the first key that the caller does not fit, "" for a caller who belongs to
// the audience. Keys about what is not known of the caller are left out.
func (w *audience) lacks(p *subject) string {
	any := func(allowed map[string]bool, values ...string) bool {
		return allowed == nil || slices.ContainsFunc(values, func(v string) bool { return v != "" && allowed[v] })
	}
	anyNamed := func(allowed map[named]bool, values ...string) bool {
		return allowed == nil || slices.ContainsFunc(values, func(v string) bool {
			return v != "" && (allowed[named{"", v}] || allowed[named{p.caller.Issuer, v}])
		})
	}
	switch c := &p.caller; {
	case !any(w.issuers, c.Issuer):
		return "issuers"
	case !anyNamed(w.users, c.Subject):
		return "users"
	case !anyNamed(w.groups, c.Groups...):
		return "groups"
	case !p.hidden && !any(w.emails, p.email):
		return "emails"
	case !any(w.clients, c.ClientID):
		return "clients"
	case p.hidden:
		return ""
	case !any(w.scopes, c.Scopes...):
		return "scopes"
	}
	for _, claim := range w.claims {
		if !claim.fits(p.claims[claim.name]) {
			return "claims[" + claim.name + "]"
		}
	}
	return ""
}

// unsure returns what would tell whether the caller belongs to the audience, 0 if nothing more
// is needed.
func (w *audience) unsure(p *subject) (m Missing) {
	if !p.hidden {
		return 0
	}
	if w.scopes != nil {
		m |= MissingScopes
	}
	if w.emails != nil || w.claims != nil {
		m |= MissingClaims
	}
	return m
}

// fits reports whether the claim's value, or an element of it, is one of the wanted values.
func (c *claim) fits(value any) bool {
	if list, ok := value.([]any); ok {
		return slices.ContainsFunc(list, func(element any) bool {
			text, ok := plainText(element)
			return ok && c.values[text]
		})
	}
	text, ok := plainText(value)
	return ok && c.values[text]
}

// plainText returns a value as the configuration writes it; ok is false for objects, lists
// and null.
func plainText(value any) (text string, ok bool) {
	switch v := value.(type) {
	case string:
		return v, true
	case bool:
		return strconv.FormatBool(v), true
	case int64:
		return strconv.FormatInt(v, 10), true
	case uint64:
		return strconv.FormatUint(v, 10), true
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64), true
	}
	return "", false
}

// subject is a caller as rules see them. Immutable.
type subject struct {
	caller mcp.Caller
	// claims are those of the token, without an email that is not verified.
	claims map[string]any
	// email is the verified address, "" without one.
	email string
	// unclear says that the claims can be read in two ways: nothing is decided on them.
	unclear error
	// hidden says that scopes, claims and address are not known: a record tells of the caller.
	hidden bool
	// class is the set of rules that apply to this subject.
	class *callerClass
}

// newSubject reads the claims. It does not keep the token.
func newSubject(c mcp.Caller) *subject {
	c.Token = ""
	p := &subject{caller: c}
	if c.Claims == nil {
		return p
	}
	claims, _, err := readObject(c.Claims)
	if err != nil {
		p.unclear = fmt.Errorf("the token's claims: %w", err)
		return p
	}
	p.claims = claims
	address, _ := claims["email"].(string)
	if verified, _ := claims["email_verified"].(bool); verified && strings.Count(address, "@") == 1 {
		p.email = address
	} else {
		delete(claims, "email")
	}
	return p
}
