package auth

import (
	"cmp"
	"net"
	"net/url"
	"reflect"
	"slices"
	"time"

	"github.com/gatehouse-mcp/gatehouse/auth/apikey"
	"github.com/gatehouse-mcp/gatehouse/internal/egress"
	"github.com/gatehouse-mcp/gatehouse/internal/loopback"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// The modes.
const (
	// ModeNone is the mode without authentication: all requests come from one user.
	ModeNone = "none"
	// ModeOAuth requires an access token (OAuth 2.1) for every request, or an API key if there are
	// any.
	ModeOAuth = "oauth"
	// ModeKeys requires an API key for every request.
	ModeKeys = "keys"
)

// Values of Config.DPoP.
const (
	DPoPOff      = "off"
	DPoPAccepted = "accepted"
	DPoPRequired = "required"
)

// Defaults of Config.
const (
	DefaultLeeway      = 30 * time.Second
	DefaultMaxStale    = 24 * time.Hour
	DefaultUserClaim   = "sub"
	DefaultGroupsClaim = "groups"
)

// Config is the section "auth". Its zero value means mode none.
type Config struct {
	// Mode is how callers authenticate. "none", the default: all requests come from one user, and the
	// listener has to be local. "oauth": each needs an access token for this gateway; requires issuers and a
	// policy. "keys": each needs an API key; requires keys and a policy, and no issuers.
	Mode string `yaml:"mode"`
	// Issuers are the authorization servers that tokens are accepted from (docs/identity-providers.md), in
	// the order in which clients see them.
	Issuers []Issuer `yaml:"issuers"`
	// RequiredScopes are the scopes that every token must have. Default: none.
	RequiredScopes []string `yaml:"required_scopes"`
	// ScopesSupported are the scopes in challenges and metadata, for which clients ask.
	// Default: RequiredScopes. Set it if requests and tokens name scopes differently, as with
	// Entra ID: clients ask for api://<client id>/mcp, and the token has mcp.
	ScopesSupported []string `yaml:"scopes_supported"`
	// ImpliedScopes maps a broad scope to the narrower ones that it includes.
	ImpliedScopes map[string][]string `yaml:"implied_scopes"`
	// Leeway is the tolerated difference of clocks for exp, nbf and iat, at most 5m; 0s for
	// none. Default: 30s.
	Leeway *time.Duration `yaml:"leeway" zero:"no difference is tolerated"`
	// MaxStale is how long the keys of an unreachable issuer stay valid after the last fetch.
	// Default: 24h.
	MaxStale time.Duration `yaml:"max_stale"`
	// DPoP says whether tokens may be bound to a key of their client (RFC 9449): "off", the default, refuses
	// such tokens, "accepted" checks them, and "required" refuses all others, but not API keys.
	DPoP string `yaml:"dpop"`
	// Keys are API keys, for callers without a browser, such as CI and cron (docs/configuration.md#api-keys).
	// Default: none.
	Keys apikey.Config `yaml:"keys"`
	// Server is the gateway's own authorization server, for issuers where clients cannot register themselves.
	// Users still sign in at the issuer (docs/authorization-server.md). Default: none.
	Server ServerConfig `yaml:"server"`
}

// Identifies reports whether callers have to prove who they are.
func (c Config) Identifies() bool { return c.Mode == ModeOAuth || c.Mode == ModeKeys }

// SameButKeys reports whether two configurations differ in nothing, or only in which API keys there
// are.
func (c Config) SameButKeys(other Config) bool {
	c.Keys, other.Keys = apikey.Config{}, apikey.Config{}
	return reflect.DeepEqual(c, other)
}

// Issuer is an authorization server that tokens are accepted from.
type Issuer struct {
	// URL is the issuer identifier as tokens have it in iss: https, or http on a loopback address.
	// Identifiers are compared byte for byte, but an empty path and "/" are one.
	URL string `yaml:"url"`
	// Audiences are the accepted values of aud, compared likewise; a token needs one of them. "gatehouse
	// check" prints them. Default: the gateway's public_url.
	Audiences []string `yaml:"audiences"`
	// Claims names the claims that are read, each by its name or a JSON Pointer, such as /realm_access/roles.
	Claims Claims `yaml:"claims"`
	// JWKSURL is the address of the keys. Default: from the issuer's metadata, which may only
	// name the issuer's own origin or a public https one.
	JWKSURL string `yaml:"jwks_url"`
	// Algorithms are the accepted signature algorithms. Default: RS, PS and ES with 256, 384 and 512 bits,
	// and EdDSA.
	Algorithms []string `yaml:"algorithms"`
	// RequireTyp lists the accepted values of the header typ, such as [at+jwt] (RFC 9068), without regard to
	// case and a leading "application/". Default: at+jwt, JWT or none.
	RequireTyp []string `yaml:"require_typ"`
	// AllowNonce accepts tokens with the claim nonce. It marks ID tokens, but some issuers
	// put it into access tokens too (Keycloak before 25).
	AllowNonce bool `yaml:"allow_nonce"`
	// AllowedClients are the clients that tokens are accepted from, by client_id or azp. Default:
	// every client.
	AllowedClients []string `yaml:"allowed_clients"`
	// Workloads says that this issuer's tokens are those of programs that it runs, such as service accounts
	// of Kubernetes and jobs of GitHub Actions (docs/identity-providers.md#workloads). They need not look
	// like access tokens of OAuth, and clients are not sent to this issuer. Needs RequireClaims.
	Workloads bool `yaml:"workloads"`
	// RequireClaims lists claims that a token must have, each with one of the given values; a claim that is a
	// list has to have one of them in it. Names are as in Claims. Default: none.
	RequireClaims map[string][]string `yaml:"require_claims"`
	// Scopes are scopes that all tokens of this issuer have, besides those in them. Default: none.
	Scopes []string `yaml:"scopes"`
	// RequireSoleAudience refuses tokens with further audiences.
	RequireSoleAudience bool `yaml:"require_sole_audience"`
	// MaxTokenLifetime refuses tokens with a longer lifetime, from iat (or from now, without
	// iat) to exp. Default: no bound.
	MaxTokenLifetime time.Duration `yaml:"max_token_lifetime" zero:"no bound, the default"`
	// Introspection asks the issuer about tokens that are not JWTs (RFC 7662). Such a token does not name its
	// issuer, so this issuer sees all of them. Only one issuer can have it, so that no token is shown to
	// several.
	Introspection *Introspection `yaml:"introspection"`
	// TLS has the certificates for connections to the issuer. cert_file and server_name are not for other
	// hosts that the issuer's metadata name.
	TLS egress.TLS `yaml:"tls"`
	// Proxy is the proxy for the issuer: its URL, environment, or none. Default: the gateway's. An http
	// issuer is reached without one.
	Proxy mcp.Secret `yaml:"proxy" secret:"user"`
}

// Route says how the issuer is reached.
func (iss Issuer) Route() egress.Config {
	return egress.Config{TLS: iss.TLS, Proxy: iss.Proxy, URL: iss.URL}
}

// Claims names the claims of a token that are read. A name that begins with "/" is a JSON
// Pointer (RFC 6901), such as /realm_access/roles.
type Claims struct {
	// User is the claim that identifies a user of the issuer. Never use email: an address may be given to
	// another person. Default: sub.
	User string `yaml:"user"`
	// Groups is the claim with the user's groups, a list or a single name. Default: groups.
	Groups string `yaml:"groups"`
}

// Introspection says how opaque tokens are checked (RFC 7662), with client authentication by
// HTTP Basic.
type Introspection struct {
	// URL is the endpoint. Default: what the issuer's metadata say.
	URL string `yaml:"url"`
	// ClientID and ClientSecret are the gateway's own at the issuer.
	ClientID     string     `yaml:"client_id"`
	ClientSecret mcp.Secret `yaml:"client_secret"`
}

// WithDefaults fills in the defaults. publicURL is the endpoint as clients write it, the
// default audience.
func (c Config) WithDefaults(publicURL string) Config {
	c.Mode = cmp.Or(c.Mode, ModeNone)
	if c.Leeway == nil {
		c.Leeway = new(DefaultLeeway)
	}
	c.DPoP = cmp.Or(c.DPoP, DPoPOff)
	c.MaxStale = cmp.Or(c.MaxStale, DefaultMaxStale)
	if len(c.ScopesSupported) == 0 {
		c.ScopesSupported = c.RequiredScopes
	}
	c.Issuers = slices.Clone(c.Issuers)
	for i := range c.Issuers {
		iss := &c.Issuers[i]
		iss.Claims.User = cmp.Or(iss.Claims.User, DefaultUserClaim)
		iss.Claims.Groups = cmp.Or(iss.Claims.Groups, DefaultGroupsClaim)
		if len(iss.Audiences) == 0 {
			iss.Audiences = []string{publicURL}
		}
		if len(iss.Algorithms) == 0 {
			iss.Algorithms = algorithms()
		}
	}
	if c.Server.Enabled {
		c.Server = c.Server.WithDefaults(c, publicURL)
	}
	return c
}

// Servers returns the authorization servers where people can sign in, and clients get tokens: the
// issuers but for those of workloads.
func (c Config) Servers() (urls []string) {
	for _, iss := range c.Issuers {
		if !iss.Workloads {
			urls = append(urls, iss.URL)
		}
	}
	return urls
}

// forClients returns the authorization servers that clients are sent to: the gateway's own alone, if
// there is one.
func (c Config) forClients() []string {
	if c.Server.Enabled {
		return []string{c.Server.Issuer}
	}
	return c.Servers()
}

// Accepted are the issuer and audiences of a token that is accepted.
type Accepted struct {
	Issuer    string   `json:"issuer"`
	Audiences []string `json:"audiences"` // one of them
}

// Accepted returns the audiences of each issuer, to show them to people. It is empty in mode
// none.
func (c Config) Accepted(publicURL string) []Accepted {
	var accepted []Accepted
	for _, iss := range c.WithDefaults(publicURL).Issuers {
		accepted = append(accepted, Accepted{Issuer: iss.URL, Audiences: iss.Audiences})
	}
	return accepted
}

// algorithms are the allowed signature algorithms. All are asymmetric, so that a key that
// verifies tokens cannot make one.
func algorithms() []string {
	return []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
}

// secure reports whether what is sent to a URL stays secret on its path to the host.
func secure(u *url.URL) bool {
	return u.Scheme == "https" || u.Scheme == "http" && loopback.Host(u.Hostname())
}

// loopbackOf is the loopback address with the port of another.
func loopbackOf(port string) string { return net.JoinHostPort("127.0.0.1", port) }
