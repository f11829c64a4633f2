package auth

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/loopback"
)

const (
	maxLeeway       = 5 * time.Minute
	offlineAccess   = "offline_access"
	noOfflineAccess = "offline_access is between a client and the issuer: it says nothing to this gateway"
)

// Validate reports all mistakes, each with the path of its key in front.
func (c Config) Validate() error {
	var errs []error
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	switch {
	case c.Mode != "" && c.Mode != ModeNone && !c.Identifies():
		add("mode: %q does not exist: write oauth, keys, or none for a listener on a loopback address", c.Mode)
	case c.Mode == ModeOAuth && len(c.Issuers) == 0 && !c.Keys.IsZero():
		add("issuers: mode oauth needs at least one: write mode: keys if only API keys are to be accepted")
	case c.Mode == ModeOAuth && len(c.Issuers) == 0:
		add("issuers: mode oauth needs at least one: whose tokens are to be accepted?")
	case c.Mode != ModeOAuth && len(c.Issuers) > 0:
		add("issuers: there is no use for them in mode %s: write mode: oauth", cmp.Or(c.Mode, ModeNone))
	case c.Mode == ModeKeys && c.Keys.IsZero():
		add("keys: mode keys needs some: write file: keys.yaml, and make one with gatehouse key new")
	case !c.Identifies() && !c.Keys.IsZero():
		add("keys: nobody asks for a key in mode none: write mode: keys, or mode: oauth with issuers")
	case !c.Identifies() && len(c.RequiredScopes) > 0:
		add("required_scopes: nobody asks for a token in mode none: write mode: oauth")
	}
	switch {
	case !slices.Contains([]string{"", DPoPOff, DPoPAccepted, DPoPRequired}, c.DPoP):
		add("dpop: %q does not exist: write off, accepted or required", c.DPoP)
	case c.Mode != ModeOAuth && c.DPoP != "" && c.DPoP != DPoPOff:
		add("dpop: there are no tokens in mode %s: write mode: oauth", cmp.Or(c.Mode, ModeNone))
	}
	if err := c.Keys.Validate(); err != nil {
		add("keys: %w", err)
	}
	if c.Leeway != nil && (*c.Leeway < 0 || *c.Leeway > maxLeeway) {
		add("leeway: %s is not between 0s and %s", *c.Leeway, maxLeeway)
	}
	if c.MaxStale < 0 {
		add("max_stale: %s is negative", c.MaxStale)
	}
	errs = append(errs, checkScopes("required_scopes", c.RequiredScopes)...)
	errs = append(errs, checkScopes("scopes_supported", c.ScopesSupported)...)
	for _, broad := range slices.Sorted(maps.Keys(c.ImpliedScopes)) {
		errs = append(errs, checkScopes("implied_scopes", []string{broad})...)
		errs = append(errs, checkScopes("implied_scopes."+broad, c.ImpliedScopes[broad])...)
	}
	urls, asked := map[string]int{}, -1
	for i, iss := range c.Issuers {
		path := fmt.Sprintf("issuers[%d]", i)
		for _, err := range iss.check() {
			add("%s: %w", path, err)
		}
		if first, taken := urls[iss.URL]; taken {
			add("%s: url: issuers[%d] is the same", path, first)
		} else {
			urls[iss.URL] = i
		}
		switch {
		case iss.Introspection == nil:
		case asked >= 0:
			add("%s: introspection: issuers[%d] has it already: an opaque token does not say whose it is, and asking one issuer would show it the tokens of another", path, asked)
		default:
			asked = i
		}
	}
	for _, err := range c.Server.check(c) {
		add("server: %w", err)
	}
	return errors.Join(errs...)
}

// CheckListener refuses an address (host:port) for the endpoint that this configuration must
// not use: without authentication, any that another machine might reach. It also refuses
// names other than localhost, because they may resolve to another address later.
func (c Config) CheckListener(listen string) error {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return fmt.Errorf("%q is not host:port, such as 127.0.0.1:8080", listen)
	}
	if c.Identifies() || loopback.Host(host) {
		return nil
	}
	where := listen
	if host == "" {
		where = listen + " (all interfaces)"
	}
	return fmt.Errorf("without authentication anyone who reaches %s could use every upstream; listen on %s or on another loopback address, or set auth.mode to oauth",
		where, loopbackOf(port))
}

// sent is what callers send in a mode.
var sent = map[string]string{ModeOAuth: "tokens", ModeKeys: "keys"}

// CheckPublicURL refuses a URL of the endpoint for which clients cannot get a token. In mode
// oauth it is the resource identifier (RFC 9728 §1.2, RFC 8707 §2), and tokens are sent to
// it, so it must be https, except on a loopback address.
func (c Config) CheckPublicURL(publicURL string) error {
	if !c.Identifies() {
		return nil
	}
	u, err := url.Parse(publicURL)
	switch {
	case err != nil || u.Host == "" || !secure(u):
		return fmt.Errorf("%q has to be https in mode %s, or http on a loopback address: clients send %s to it", publicURL, c.Mode, sent[c.Mode])
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || strings.Contains(publicURL, "#"):
		return fmt.Errorf("%q cannot name what tokens are for: take out user, query and fragment", publicURL)
	}
	return nil
}

func (iss Issuer) check() (errs []error) {
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if err := checkURL(iss.URL); err != nil {
		add("url: %w", err)
	} else if strings.Contains(iss.URL, "?") {
		add("url: an issuer has no query (RFC 8414 §2)")
	}
	if iss.JWKSURL != "" {
		if err := checkURL(iss.JWKSURL); err != nil {
			add("jwks_url: %w", err)
		}
	}
	if slices.Contains(iss.Audiences, "") {
		add("audiences: an empty one would accept tokens that are for nobody")
	}
	if err := checkPointer(iss.Claims.User); err != nil {
		add("claims: user: %w", err)
	}
	if err := checkPointer(iss.Claims.Groups); err != nil {
		add("claims: groups: %w", err)
	}
	switch {
	case iss.AllowedClients != nil && len(iss.AllowedClients) == 0:
		add("allowed_clients: is empty, which would be no client: name some, or take the key out for every client")
	case slices.Contains(iss.AllowedClients, ""):
		add("allowed_clients: an empty one is no client")
	}
	for _, alg := range iss.Algorithms {
		if !slices.Contains(algorithms(), alg) {
			add("algorithms: %q is not one of %s", alg, strings.Join(algorithms(), ", "))
		}
	}
	for _, typ := range iss.RequireTyp {
		if typ == "" || neverTyp(normalTyp(typ)) {
			add("require_typ: %q is not the type of an access token", typ)
		}
	}
	if iss.Workloads && len(iss.RequireClaims) == 0 {
		add("require_claims: needed with workloads, since such an issuer makes tokens for others, too: say whose are meant, such as {repository_owner: [acme]}")
	}
	for _, name := range slices.Sorted(maps.Keys(iss.RequireClaims)) {
		if err := checkPointer(name); err != nil || name == "" {
			add("require_claims: %q is not the name of a claim, or a JSON Pointer", name)
		}
		if values := iss.RequireClaims[name]; len(values) == 0 || slices.Contains(values, "") {
			add("require_claims: %s: say which values are accepted", name)
		}
	}
	errs = append(errs, checkScopes("scopes", iss.Scopes)...)
	if iss.MaxTokenLifetime < 0 {
		add("max_token_lifetime: %s is negative", iss.MaxTokenLifetime)
	}
	if in := iss.Introspection; in != nil {
		if in.URL != "" {
			if err := checkURL(in.URL); err != nil {
				add("introspection: url: %w", err)
			}
		}
		if in.URL == "" && iss.JWKSURL != "" {
			add("introspection: url: needed with jwks_url, since the issuer's metadata are not read then")
		}
		if in.ClientID == "" || in.ClientSecret == "" {
			add("introspection: client_id and client_secret are needed: issuers answer registered clients only")
		}
	}
	return errs
}

// checkURL refuses URLs that must not be used for keys or introspection.
func checkURL(raw string) error {
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Hostname() == "" || u.Opaque != "":
		return errors.New("want an absolute URL, such as https://login.example.com") // it may hold credentials
	case !secure(u):
		return fmt.Errorf("%s://%s: want https, or http on a loopback address: who can change the answer decides who gets in", u.Scheme, u.Host)
	case u.User != nil || strings.Contains(raw, "#"):
		return fmt.Errorf("%s: take out user and fragment", u.Host)
	}
	return nil
}

// checkScopes refuses strings that are not a scope-token (RFC 6749 §3.3).
func checkScopes(path string, scopes []string) (errs []error) {
	for _, scope := range scopes {
		switch {
		case !isScope(scope):
			errs = append(errs, fmt.Errorf("%s: %q is not a scope: one word of printable ASCII without quotes and backslashes", path, scope))
		case scope == offlineAccess:
			errs = append(errs, fmt.Errorf("%s: %s", path, noOfflineAccess))
		}
	}
	return errs
}

func isScope(scope string) bool {
	for _, c := range []byte(scope) {
		if c <= ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return scope != ""
}
