package outbound

import (
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/loopback"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/problems"
)

// Values of Config.Type.
const (
	TypeNone              = "none"
	TypeHeader            = "header"
	TypeBearer            = "bearer"
	TypeClientCredentials = "client_credentials"
	TypeTokenExchange     = "token_exchange"
	TypeUserOAuth         = "user_oauth"
	TypeIDJAG             = "id_jag"
)

// Values of Config.ClientAuth, as in the registry of RFC 7591.
const (
	authBasic = "client_secret_basic"
	authPost  = "client_secret_post"
	authJWT   = "private_key_jwt"
)

// The last part of a token type of RFC 8693 §3.
const (
	typeAccessToken = "access_token"
	typeJWT         = "jwt"
)

// Config is how the gateway authenticates at one upstream. Its zero value is none.
// Secrets are best kept outside of the file; they are read when it is loaded.
type Config struct {
	// Type is none, the default; header or bearer, with a fixed token; client_credentials, with a token of
	// the gateway's own (RFC 6749 §4.4); token_exchange, with one for each user in exchange for theirs (RFC
	// 8693); id_jag, with one for each user of the upstream's own authorization server, by an assertion of
	// the users' issuer (enterprise-managed authorization); or user_oauth, where each user signs in at the
	// upstream with an account of their own. The last three need a gateway that authenticates its users.
	Type string `yaml:"type"`

	// Header is the header that Token is sent in. Required for header.
	Header string `yaml:"header"`
	// Token is the whole value of that header; for bearer, the token. Required for both.
	Token mcp.Secret `yaml:"token"`

	// TokenURL is the token endpoint: https, or http on a loopback address. Required for
	// client_credentials, token_exchange and id_jag.
	TokenURL string `yaml:"token_url"`
	// Issuer is the issuer of the users' tokens, exactly as in auth.issuers: only tokens
	// of its own are sent to TokenURL. Required for token_exchange and id_jag.
	Issuer string `yaml:"issuer"`
	// AuthorizationServer is the upstream's authorization server, by its issuer identifier. Required for
	// id_jag: the assertions are for it. For user_oauth, users sign in there; it may be at any address, and
	// its sign-in page at any site. Naming it vouches that it supports PKCE with S256 if its metadata do not
	// say so. Default: the one that the upstream names (RFC 9728), which has to be public or at the
	// upstream's own address, with its sign-in page at its own site.
	AuthorizationServer string `yaml:"authorization_server"`
	// ClientID is what the gateway is registered as there. Required with TokenURL. Default for
	// user_oauth: the gateway's own client metadata document, or dynamic registration.
	ClientID string `yaml:"client_id"`
	// ClientSecret proves that it is. Either it or PrivateKey is required with TokenURL.
	ClientSecret mcp.Secret `yaml:"client_secret"`
	// ClientAuth is how ClientSecret is sent: client_secret_basic or client_secret_post;
	// with a PrivateKey it is private_key_jwt. Default client_secret_basic.
	ClientAuth string `yaml:"client_auth"`
	// PrivateKey signs assertions instead (RFC 7523): in PEM, not encrypted, RSA with 2048 bits or more, EC
	// on P-256, P-384 or P-521, or Ed25519.
	PrivateKey mcp.Secret `yaml:"private_key"`
	// KeyID is the kid of the assertions. Default none.
	KeyID string `yaml:"key_id"`
	// Algorithm signs the assertions. Default RS256, ES256, ES384, ES512 or EdDSA, as the
	// key is; RSA also has RS384, RS512, PS256, PS384 and PS512.
	Algorithm string `yaml:"algorithm"`
	// AssertionAudience is the aud of the assertions. Default TokenURL; some want their
	// issuer identifier.
	AssertionAudience string `yaml:"assertion_audience"`

	// Resource is the absolute URI that the token is wanted for (RFC 8707). Default: the
	// upstream's URL. "" leaves it out, for issuers that do not know it.
	Resource *string `yaml:"resource"`
	// Audience is the same for issuers that want another name (RFC 8693 §2.1). If the new token is a JWT, one
	// of the two has to be its audience. Default none.
	Audience string `yaml:"audience"`
	// Scopes are asked for. Default none, which leaves them to the issuer.
	Scopes []string `yaml:"scopes"`
	// Grant is the gateway's registration at AuthorizationServer. Required for id_jag.
	Grant Grant `yaml:"grant"`
	// SubjectTokenType is what a user's token is called in the exchange: access_token or
	// jwt. Default access_token.
	SubjectTokenType string `yaml:"subject_token_type"`
}

var (
	headerPattern = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")
	tokenPattern  = regexp.MustCompile(`^[\x21-\x7e]+$`)
	// scopePattern is scope-token of RFC 6749 §3.3.
	scopePattern = regexp.MustCompile(`^[\x21\x23-\x5b\x5d-\x7e]+$`)
)

// use says for which types a key is.
type use struct {
	key   string
	given bool
	types []string
}

func (c Config) uses() []use {
	fixed := []string{TypeHeader, TypeBearer}
	client := []string{TypeClientCredentials, TypeTokenExchange, TypeIDJAG, TypeUserOAuth}
	oauth, users := client[:3], client[1:3]
	return []use{
		{"header", c.Header != "", fixed[:1]},
		{"token", c.Token != "", fixed},
		{"token_url", c.TokenURL != "", oauth},
		{"issuer", c.Issuer != "", users},
		{"authorization_server", c.AuthorizationServer != "", client[2:]},
		{"grant", c.Grant != Grant{}, client[2:3]},
		{"client_id", c.ClientID != "", client},
		{"client_secret", c.ClientSecret != "", client},
		{"client_auth", c.ClientAuth != "", client},
		{"private_key", c.PrivateKey != "", oauth},
		{"key_id", c.KeyID != "", oauth},
		{"algorithm", c.Algorithm != "", oauth},
		{"assertion_audience", c.AssertionAudience != "", oauth},
		{"resource", c.Resource != nil, client},
		{"audience", c.Audience != "", oauth[:2]},
		{"scopes", len(c.Scopes) > 0, client},
		{"subject_token_type", c.SubjectTokenType != "", users},
	}
}

// HeaderName is the canonical name of the header that requests get, "" for none.
func (c Config) HeaderName() string {
	switch c.Type {
	case "", TypeNone:
		return ""
	case TypeHeader:
		return http.CanonicalHeaderKey(c.Header)
	}
	return "Authorization"
}

// PerUser reports whether each user has a credential of its own.
func (c Config) PerUser() bool { return c.exchanges() || c.Type == TypeUserOAuth }

// exchanges reports whether users' tokens are exchanged for others.
func (c Config) exchanges() bool { return c.Type == TypeTokenExchange || c.Type == TypeIDJAG }

// Validate reports everything that is wrong.
func (c Config) Validate() error {
	var found problems.List
	switch c.Type {
	case "", TypeNone:
	case TypeHeader:
		switch {
		case c.Header == "":
			found.Add("header: is needed for type header, such as X-Api-Key")
		case !headerPattern.MatchString(c.Header):
			found.Add("header: %q is not a header name", c.Header)
		}
		found.When(c.Token == "" || strings.ContainsFunc(string(c.Token),
			func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }),
			"token: is needed for type header, without control characters")
	case TypeBearer:
		found.When(!tokenPattern.MatchString(string(c.Token)),
			"token: is needed for type bearer: the token alone, in visible ASCII without spaces")
	case TypeClientCredentials, TypeTokenExchange, TypeIDJAG:
		found.Join(c.validateOAuth()...)
	case TypeUserOAuth:
		found.Join(c.validateUserOAuth()...)
	default:
		found.Add("type: %q: want none, header, bearer, client_credentials, token_exchange, id_jag or user_oauth", c.Type)
		return found.Err() // nothing can be said about the other keys
	}
	for _, u := range c.uses() {
		found.When(u.given && !slices.Contains(u.types, c.Type), "%s: is for type %s", u.key, strings.Join(u.types, " and "))
	}
	return found.Err()
}

func (c Config) validateOAuth() (found problems.List) {
	found.At("token_url", checkURL(c.TokenURL))
	found.When(c.ClientID == "", "client_id: is needed for type %s", c.Type)
	switch {
	case c.ClientSecret == "" && c.PrivateKey == "":
		found.Add("client_secret or private_key is needed for type %s", c.Type) // of neither alone
	case c.ClientSecret != "" && c.PrivateKey != "":
		found.Add("client_secret: only one of it and private_key can be given")
	case c.PrivateKey != "":
		found.When(c.ClientAuth != "" && c.ClientAuth != authJWT,
			"client_auth: %q: with a private_key it can only be %s", c.ClientAuth, authJWT)
		_, err := newSigner(c)
		found.Join(err)
	case c.ClientAuth != "" && c.ClientAuth != authBasic && c.ClientAuth != authPost:
		found.Add("client_auth: %q: want %s or %s, or a private_key", c.ClientAuth, authBasic, authPost)
	}
	found.When(c.PrivateKey == "" && (c.KeyID != "" || c.Algorithm != "" || c.AssertionAudience != ""),
		"private_key: is needed with key_id, algorithm and assertion_audience")
	found.Join(c.validateTarget()...)
	if !c.exchanges() {
		return found
	}
	found.When(c.Issuer == "", "issuer: is needed for type %s: only tokens of this issuer are sent to token_url", c.Type)
	if c.Type == TypeIDJAG {
		found.Join(c.validateIDJAG()...)
	} else if c.Resource != nil && *c.Resource == "" && c.Audience == "" {
		found.Add("audience or resource is needed for type token_exchange: the token has to be for this upstream alone")
	}
	if t := c.SubjectTokenType; t != "" && t != typeAccessToken && t != typeJWT {
		found.Add("subject_token_type: %q: want %s or %s", t, typeAccessToken, typeJWT)
	}
	return found
}

// validateTarget reports what is wrong with what tokens are for.
func (c Config) validateTarget() (found problems.List) {
	if c.Resource != nil && *c.Resource != "" {
		if u, err := url.Parse(*c.Resource); err != nil || !u.IsAbs() || strings.Contains(*c.Resource, "#") {
			found.Add("resource: is not an absolute URI without a fragment (RFC 8707)")
		}
	}
	for i, scope := range c.Scopes {
		found.When(!scopePattern.MatchString(scope), "scopes[%d]: %q is not one scope", i, scope)
	}
	return found
}

// checkURL does not repeat the URL in its errors: it may hold credentials.
func checkURL(raw string) error {
	u, err := url.Parse(raw)
	switch {
	case raw == "":
		return errors.New("is needed")
	case err != nil || u.Hostname() == "" || u.Scheme != "https" && u.Scheme != "http":
		return errors.New("is not an absolute URL, such as https://login.example.com/token")
	case u.User != nil:
		return errors.New("user and password do not belong in the URL; use client_id and client_secret")
	case u.Fragment != "":
		return errors.New("has a fragment")
	case u.Scheme == "http" && !loopback.Host(u.Hostname()):
		return errors.New("http is only for loopback addresses; use https")
	}
	return nil
}
