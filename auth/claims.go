package auth

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

const (
	maxNameBytes = 255 // of a subject (OpenID Connect Core §2) and a client id
	maxGroups    = 500
	maxScopes    = 500
	// thumbprintLength is that of a SHA-256 in base64url.
	thumbprintLength = 43
	// maxDate is the end of the year 9999, beyond which dates cannot be written.
	maxDate = 253402300799
)

// identity is the content of a token before its signature is checked.
type identity struct {
	caller  mcp.Caller
	granted []string // scopes as the token has them, without implied ones
	// only has the URLs of the views that the token is for; nil if it is for the gateway, which
	// includes all views.
	only []string
	// bound is the thumbprint of the key that the token is bound to, "" for none: then any holder
	// may use it.
	bound string
	// forbidden is why a caller with this token is refused, even if it is genuine.
	forbidden *refusal
}

// rules are the requirements on the claims of an issuer's tokens.
type rules struct {
	Issuer
	at       *atomic.Pointer[endpoints] // of views: their URLs are audiences, too; nil for none
	leeway   time.Duration
	dpop     bool // tokens may be bound to keys
	required []string
	implied  map[string][]string
	exact    []string // claims with names that must not be written in other case
}

func newRules(cfg Config, iss Issuer, at *atomic.Pointer[endpoints]) rules {
	r := rules{Issuer: iss, at: at, leeway: *cfg.Leeway, dpop: cfg.DPoP != DPoPOff, required: cfg.RequiredScopes,
		implied: cfg.ImpliedScopes}
	r.exact = []string{"iss", "sub", "aud", "exp", "nbf", "iat", "scope", "scp", "client_id", "azp", "appid", "cid",
		"nonce", "at_hash", "c_hash", "cnf", "events", "typ", "active", "_claim_names", "_claim_sources", "hasgroups"}
	for _, where := range append(slices.Sorted(maps.Keys(iss.RequireClaims)), iss.Claims.User, iss.Claims.Groups) {
		if name, _, _ := strings.Cut(strings.TrimPrefix(where, "/"), "/"); !slices.Contains(r.exact, name) {
			r.exact = append(r.exact, name)
		}
	}
	return r
}

// judge reads the claims. It refuses a token that is not from this issuer or not for this gateway.
func (r *rules) judge(claims mcp.Raw, now time.Time) (identity, *refusal) {
	if iss, ok := member(claims, "iss"); !ok || !mcp.SameIdentifier(iss, r.URL) {
		return identity{}, otherIssuer(claims)
	}
	only, ref := r.checkAudience(claims)
	if ref != nil {
		return identity{}, ref
	}
	expires, ref := r.checkTimes(claims, now)
	if ref != nil {
		return identity{}, ref
	}
	subject, ref := r.subject(claims)
	if ref != nil {
		return identity{}, ref
	}
	if ref := r.checkRequired(claims); ref != nil {
		return identity{}, ref
	}
	client, ref := r.client(claims)
	if ref != nil {
		return identity{}, ref
	}
	bound, ref := r.bindingOf(claims)
	if ref != nil {
		return identity{}, ref
	}
	granted, ok := scopesOf(claims)
	if !ok {
		return identity{}, badToken("the token's scopes cannot be read", nil)
	}
	for _, scope := range r.Scopes {
		if !slices.Contains(granted, scope) {
			granted = append(granted, scope)
		}
	}
	groups, forbidden, ref := r.groups(claims)
	if ref != nil {
		return identity{}, ref
	}
	id := identity{granted: granted, only: only, bound: bound, forbidden: forbidden, caller: mcp.NewCaller(mcp.Caller{
		Issuer:   r.URL,
		Subject:  subject,
		ClientID: client,
		Groups:   groups,
		Scopes:   withImplied(granted, r.implied),
		Claims:   claims,
		Expires:  expires,
	})}
	if forbidden == nil {
		id.forbidden = lacking(r.required, id.caller.Scopes)
	}
	return id, nil
}

// lacking is the refusal of a caller without all required scopes, nil for none.
func lacking(required, scopes []string) *refusal {
	for _, scope := range required {
		if !slices.Contains(scopes, scope) {
			return &refusal{name: failure.ScopeMissing, code: codeInsufficientScope}
		}
	}
	return nil
}

// checkAudience returns identity.only.
func (r *rules) checkAudience(claims mcp.Raw) (only []string, _ *refusal) {
	value, _ := claims.Member("aud")
	audiences, ok := textList(value)
	if !ok {
		return nil, badToken("the token does not say whom it is for", nil)
	}
	whole, others := false, false
	var views []string
	if r.at != nil {
		views = r.at.Load().views
	}
	for _, aud := range audiences {
		switch {
		case mcp.HasIdentifier(r.Audiences, aud):
			whole = true
		case mcp.HasIdentifier(views, aud):
			only = append(only, aud)
		default:
			others = true
		}
	}
	switch {
	case !whole && only == nil:
		return nil, badToken("the token is for another audience", fmt.Errorf("aud is %.200s", value))
	case r.RequireSoleAudience && others:
		return nil, badToken("the token is for others too", nil)
	case whole:
		return nil, nil
	}
	return only, nil
}

func otherIssuer(claims mcp.Raw) *refusal {
	value, _ := claims.Member("iss")
	return badToken("the token is from an issuer that is not accepted", fmt.Errorf("iss is %.200s", value))
}

// checkTimes returns when the token expires, including the leeway.
func (r *rules) checkTimes(claims mcp.Raw, now time.Time) (time.Time, *refusal) {
	exp, has, ok := date(claims, "exp")
	if !has || !ok {
		return time.Time{}, badToken("the token does not say when it expires", nil)
	}
	expires := exp.Add(r.leeway)
	if !now.Before(expires) {
		ref := badToken("the token has expired", nil)
		ref.name = failure.TokenExpired
		return time.Time{}, ref
	}
	nbf, has, ok := date(claims, "nbf")
	if !ok || has && nbf.After(now.Add(r.leeway)) {
		return time.Time{}, badToken("the token is not good yet", nil)
	}
	issued, has, ok := date(claims, "iat")
	if !ok || has && issued.After(now.Add(r.leeway)) {
		return time.Time{}, badToken("the token was issued in the future", nil)
	}
	if !has {
		issued = now
	}
	if r.MaxTokenLifetime > 0 && exp.Sub(issued) > r.MaxTokenLifetime {
		return time.Time{}, badToken("the token is good for too long", nil)
	}
	return expires, nil
}

// subject returns the claim that identifies the user. sub is always required: every token of a user
// has it.
func (r *rules) subject(claims mcp.Raw) (string, *refusal) {
	for _, where := range []string{DefaultUserClaim, r.Claims.User} {
		value, _ := claimAt(claims, where)
		if s, ok := plainText(value); !ok || !isName(s) {
			return "", badToken("the token does not say who its user is", nil)
		}
	}
	value, _ := claimAt(claims, r.Claims.User)
	user := value.Text()
	if r.Claims.User == "email" {
		// A user who may choose their own address could pose as any other.
		if verified, _ := claims.Member("email_verified"); !verified.IsTrue() || strings.Count(user, "@") != 1 {
			return "", badToken("the token does not say that its user's email address was verified", nil)
		}
	}
	return user, nil
}

// checkRequired refuses a token without the claims that its issuer's tokens must have here.
func (r *rules) checkRequired(claims mcp.Raw) *refusal {
	for _, name := range slices.Sorted(maps.Keys(r.RequireClaims)) {
		value, _ := claimAt(claims, name)
		has, ok := textList(value)
		if !ok && (value.IsTrue() || string(value) == "false" || isNumber(value)) {
			has = []string{string(value)}
		} else if !ok {
			has = nil
		}
		if !slices.ContainsFunc(has, func(v string) bool { return slices.Contains(r.RequireClaims[name], v) }) {
			return badToken("the token lacks a claim that is required of it",
				fmt.Errorf("%s is %.200s, want one of %q", name, value, r.RequireClaims[name]))
		}
	}
	return nil
}

func isNumber(value mcp.Raw) bool {
	return len(value) > 0 && (value[0] == '-' || value[0] >= '0' && value[0] <= '9')
}

// client returns the client's id, "" if the token has none: client_id (RFC 9068), azp (OpenID
// Connect), or the claim of Entra ID or Okta.
func (r *rules) client(claims mcp.Raw) (string, *refusal) {
	found := ""
	for _, name := range []string{"client_id", "azp", "appid", "cid"} {
		value, has := claims.Member(name)
		if !has {
			continue
		}
		id, ok := plainText(value)
		if !ok || !isName(id) {
			return "", badToken("the token's client id cannot be read", nil)
		}
		if len(r.AllowedClients) > 0 && !slices.Contains(r.AllowedClients, id) {
			return "", badToken("the token is of a client that is not accepted", nil)
		}
		if found == "" {
			found = id
		}
	}
	if found == "" && len(r.AllowedClients) > 0 {
		return "", badToken("the token does not say which client it is of", nil)
	}
	return found, nil
}

// bindingOf returns the thumbprint of the key that a token is bound to, "" for none. It refuses a
// token that is bound in a way that cannot be checked.
func (r *rules) bindingOf(claims mcp.Raw) (string, *refusal) {
	cnf, has := claims.Member("cnf")
	if !has {
		return "", nil
	}
	members, other := 0, ""
	cnf.Members(func(name []byte, _ mcp.Raw) bool {
		if members++; string(name) != "jkt" {
			other = string(name)
		}
		return true
	})
	thumbprint, ok := member(cnf, "jkt")
	switch {
	case other == "x5t#S256":
		return "", badToken("the token is bound to a certificate of its client (mutual TLS), which this gateway cannot check",
			nil)
	case r.dpop && ok && members == 1 && len(thumbprint) == thumbprintLength:
		return thumbprint, nil
	}
	return "", badToken("the token is bound to a key of its client, which this gateway cannot check",
		fmt.Errorf("auth.dpop is off, or cnf has another member than jkt: %.40q", other))
}

// groups returns the user's groups. A token with too many groups names a place to fetch them
// from. The gateway does not fetch them, and refuses the token: without its groups, a user
// could be allowed more than with them.
func (r *rules) groups(claims mcp.Raw) (groups []string, forbidden, ref *refusal) {
	where := r.Claims.Groups
	if names, ok := claims.Member("_claim_names"); ok {
		if _, elsewhere := names.Member(where); elsewhere {
			return nil, unfit("the token leaves out the groups, since there are too many: have the issuer put fewer into it"),
				nil
		}
	}
	if over, ok := claims.Member("hasgroups"); ok && over.IsTrue() && where == DefaultGroupsClaim {
		return nil, unfit("the token leaves out the groups, since there are too many: have the issuer put fewer into it"), nil
	}
	value, _ := claimAt(claims, where)
	if value.IsNull() {
		return nil, nil, nil
	}
	groups, ok := textList(value)
	if !ok {
		return nil, nil, badToken("the token's groups cannot be read", nil)
	}
	if len(groups) > maxGroups {
		return nil, unfit("the token has more than " + strconv.Itoa(maxGroups) +
			" groups: have the issuer put fewer into it"), nil
	}
	return groups, nil, nil
}

// scopesOf returns the scopes of a token: scope (RFC 8693 §4.2), or scp of Okta and Entra ID,
// as a list or as words in one string.
func scopesOf(claims mcp.Raw) (scopes []string, ok bool) {
	for _, name := range []string{"scope", "scp"} {
		value, has := claims.Member(name)
		if !has || value.IsNull() {
			continue
		}
		list, ok := textList(value)
		if !ok {
			return nil, false
		}
		for _, words := range list {
			for scope := range strings.SplitSeq(words, " ") {
				if !isScope(scope) || slices.Contains(scopes, scope) {
					continue
				}
				if scopes = append(scopes, scope); len(scopes) > maxScopes {
					return nil, false
				}
			}
		}
	}
	return scopes, true
}

// withImplied adds the narrower scopes that granted ones include, transitively.
func withImplied(granted []string, implied map[string][]string) []string {
	if len(implied) == 0 {
		return granted
	}
	all := slices.Clone(granted)
	for i := 0; i < len(all); i++ {
		for _, narrower := range implied[all[i]] {
			if !slices.Contains(all, narrower) {
				all = append(all, narrower)
			}
		}
	}
	return all
}

func member(claims mcp.Raw, name string) (string, bool) {
	value, _ := claims.Member(name)
	return plainText(value)
}

// date reads a NumericDate (RFC 7519 §2).
func date(claims mcp.Raw, name string) (at time.Time, has, ok bool) {
	value, has := claims.Member(name)
	if !has {
		return time.Time{}, false, true
	}
	seconds, err := strconv.ParseFloat(string(value), 64)
	if err != nil || !(seconds >= 0 && seconds <= maxDate) {
		return time.Time{}, true, false
	}
	whole, part := math.Modf(seconds)
	return time.Unix(int64(whole), int64(part*1e9)), true, true
}

// isName reports whether a string can identify a user or client.
func isName(s string) bool {
	return s != "" && len(s) <= maxNameBytes && !strings.ContainsFunc(s, unicode.IsControl)
}
