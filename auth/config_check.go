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

	"github.com/gatehouse-mcp/gatehouse/internal/egress"
	"github.com/gatehouse-mcp/gatehouse/internal/loopback"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/problems"
)

const (
	maxLeeway       = 5 * time.Minute
	offlineAccess   = "offline_access"
	noOfflineAccess = "offline_access is between a client and the issuer: it says nothing to this gateway"
)

// Validate reports all mistakes, each with the path of its key in front.
func (c Config) Validate() error {
	var found problems.List
	switch {
	case c.Mode != "" && c.Mode != ModeNone && !c.Identifies():
		found.Add("mode: %q does not exist: write oauth, keys, or none for a listener on a loopback address", c.Mode)
	case c.Mode == ModeOAuth && len(c.Issuers) == 0 && !c.Keys.IsZero():
		found.Add("issuers: mode oauth needs at least one: write mode: keys if only API keys are to be accepted")
	case c.Mode == ModeOAuth && len(c.Issuers) == 0:
		found.Add("issuers: mode oauth needs at least one: whose tokens are to be accepted?")
	case c.Mode != ModeOAuth && len(c.Issuers) > 0:
		found.Add("issuers: there is no use for them in mode %s: write mode: oauth", cmp.Or(c.Mode, ModeNone))
	case c.Mode == ModeKeys && c.Keys.IsZero():
		found.Add("keys: mode keys needs some: write file: keys.yaml, and make one with gatehouse key new")
	case !c.Identifies() && !c.Keys.IsZero():
		found.Add("keys: nobody asks for a key in mode none: write mode: keys, or mode: oauth with issuers")
	case !c.Identifies() && len(c.RequiredScopes) > 0:
		found.Add("required_scopes: nobody asks for a token in mode none: write mode: oauth")
	}
	switch {
	case !slices.Contains([]string{"", DPoPOff, DPoPAccepted, DPoPRequired}, c.DPoP):
		found.Add("dpop: %q does not exist: write off, accepted or required", c.DPoP)
	case c.Mode != ModeOAuth && c.DPoP != "" && c.DPoP != DPoPOff:
		found.Add("dpop: there are no tokens in mode %s: write mode: oauth", cmp.Or(c.Mode, ModeNone))
	}
	found.At("keys", c.Keys.Validate())
	if c.Leeway != nil && (*c.Leeway < 0 || *c.Leeway > maxLeeway) {
		found.Add("leeway: %s is not between 0s and %s", *c.Leeway, maxLeeway)
	}
	found.At("max_stale", problems.Negative(c.MaxStale))
	found.Join(checkScopes("required_scopes", c.RequiredScopes)...)
	found.Join(checkScopes("scopes_supported", c.ScopesSupported)...)
	for _, broad := range slices.Sorted(maps.Keys(c.ImpliedScopes)) {
		found.Join(checkScopes("implied_scopes", []string{broad})...)
		found.Join(checkScopes("implied_scopes."+broad, c.ImpliedScopes[broad])...)
	}
	urls, asked := map[string]int{}, -1
	for i, iss := range c.Issuers {
		path := fmt.Sprintf("issuers[%d]", i)
		found.At(path, iss.check()...)
		if first, taken := urls[mcp.Identifier(iss.URL)]; taken {
			found.Add("%s: url: issuers[%d] is the same", path, first)
		} else {
			urls[mcp.Identifier(iss.URL)] = i
		}
		switch {
		case iss.Introspection == nil:
		case asked >= 0:
			found.Add("%s: introspection: issuers[%d] has it already: an opaque token does not say whose it is, and asking one issuer would show it the tokens of another", path, asked)
		default:
			asked = i
		}
	}
	found.At("server", c.Server.check(c)...)
	return found.Err()
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

// sent names what callers send in a mode.
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
		return fmt.Errorf("%q has to be https in mode %s, or http on a loopback address: clients send %s to it", publicURL,
			c.Mode, sent[c.Mode])
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || strings.Contains(publicURL, "#"):
		return fmt.Errorf("%q cannot name what tokens are for: take out user, query and fragment", publicURL)
	}
	return nil
}

func (iss Issuer) check() (found problems.List) {
	if err := checkURL(iss.URL); err != nil {
		found.Add("url: %w", err)
	} else if strings.Contains(iss.URL, "?") {
		found.Add("url: an issuer has no query (RFC 8414 §2)")
	}
	if iss.JWKSURL != "" {
		found.At("jwks_url", checkURL(iss.JWKSURL))
	}
	found.When(slices.Contains(iss.Audiences, ""), "audiences: an empty one would accept tokens that are for nobody")
	found.At("claims: user", checkPointer(iss.Claims.User))
	found.At("claims: groups", checkPointer(iss.Claims.Groups))
	switch {
	case iss.AllowedClients != nil && len(iss.AllowedClients) == 0:
		found.Add("allowed_clients: is empty, which would be no client: name some, or take the key out for every client")
	case slices.Contains(iss.AllowedClients, ""):
		found.Add("allowed_clients: an empty one is no client")
	}
	for _, alg := range iss.Algorithms {
		found.When(!slices.Contains(algorithms(), alg), "algorithms: %q is not one of %s", alg,
			strings.Join(algorithms(), ", "))
	}
	for _, typ := range iss.RequireTyp {
		found.When(typ == "" || neverTyp(normalTyp(typ)), "require_typ: %q is not the type of an access token", typ)
	}
	found.When(iss.Workloads && len(iss.RequireClaims) == 0,
		"require_claims: needed with workloads, since such an issuer makes tokens for others, too: say whose are meant, such as {repository_owner: [acme]}")
	for _, name := range slices.Sorted(maps.Keys(iss.RequireClaims)) {
		if err := checkPointer(name); err != nil || name == "" {
			found.Add("require_claims: %q is not the name of a claim, or a JSON Pointer", name)
		}
		if values := iss.RequireClaims[name]; len(values) == 0 || slices.Contains(values, "") {
			found.Add("require_claims: %s: say which values are accepted", name)
		}
	}
	found.Join(checkScopes("scopes", iss.Scopes)...)
	found.At("tls", iss.TLS.Validate())
	found.At("proxy", egress.CheckProxy(iss.Proxy))
	found.When(strings.HasPrefix(iss.URL, "http://") && (!iss.TLS.IsZero() || iss.Proxy != ""),
		"tls and proxy: are for https, with which the url does not begin")
	found.At("max_token_lifetime", problems.Negative(iss.MaxTokenLifetime))
	if in := iss.Introspection; in != nil {
		if in.URL != "" {
			found.At("introspection: url", checkURL(in.URL))
		}
		found.When(in.URL == "" && iss.JWKSURL != "",
			"introspection: url: needed with jwks_url, since the issuer's metadata are not read then")
		found.When(in.ClientID == "" || in.ClientSecret == "",
			"introspection: client_id and client_secret are needed: issuers answer registered clients only")
	}
	return found
}

// checkURL refuses URLs that must not be used for keys or introspection.
func checkURL(raw string) error {
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Hostname() == "" || u.Opaque != "":
		return errors.New("want an absolute URL, such as https://login.example.com") // it may hold credentials
	case !secure(u):
		return fmt.Errorf("%s://%s: want https, or http on a loopback address: who can change the answer decides who gets in",
			u.Scheme, u.Host)
	case u.User != nil || strings.Contains(raw, "#"):
		return fmt.Errorf("%s: take out user and fragment", u.Host)
	}
	return nil
}

// checkScopes refuses strings that are not a scope-token (RFC 6749 §3.3).
func checkScopes(path string, scopes []string) (found problems.List) {
	for _, scope := range scopes {
		switch {
		case !isScope(scope):
			found.Add("%s: %q is not a scope: one word of printable ASCII without quotes and backslashes", path, scope)
		case scope == offlineAccess:
			found.Add("%s: %s", path, noOfflineAccess)
		}
	}
	return found
}

func isScope(scope string) bool {
	for _, c := range []byte(scope) {
		if c <= ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return scope != ""
}
