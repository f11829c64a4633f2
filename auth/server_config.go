package auth

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/auth/clientele"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/problems"
)

// How an authorization server of the gateway identifies users who have signed in at the provider.
const (
	// IdentityAccessToken is identification by the provider's access token, which has to be for the gateway.
	IdentityAccessToken = "access_token"
	// IdentityIDToken is identification by the provider's ID token, where its access tokens are for another audience.
	IdentityIDToken = "id_token"
)

// When users are asked whether a client may act for them.
const (
	// ConsentRemember is once for each user, client and place that the client is sent back to, but
	// always for programs on the user's computer: these cannot prove who they are.
	ConsentRemember = "remember"
	// ConsentAlways is at each sign-in.
	ConsentAlways = "always"
)

// Defaults of ServerConfig.
const (
	DefaultAccessTokenLife  = 10 * time.Minute
	DefaultRefreshTokenLife = 30 * 24 * time.Hour
)

const (
	leastAccessTokenLife = time.Minute
	mostAccessTokenLife  = time.Hour
	mostPreviousKeys     = 10
	mostRefreshTokenLife = 365 * 24 * time.Hour
)

// ServerConfig is the section "auth.server": the gateway's own authorization server in front of an
// issuer where clients cannot register themselves (package auth/grants).
type ServerConfig struct {
	// Enabled turns it on. Default: off.
	Enabled bool `yaml:"enabled"`
	// Issuer is its identifier. Default: the gateway's public_url. Its endpoints are at the same
	// scheme and host.
	Issuer string `yaml:"issuer"`
	// Provider is the issuer where users sign in, one of auth.issuers. Default: the first.
	Provider string `yaml:"provider"`
	// ClientID and ClientSecret are the gateway's own at the provider, with the redirect URI
	// /oauth/callback at the issuer's host. Without a secret it is a public client.
	ClientID     string     `yaml:"client_id"`
	ClientSecret mcp.Secret `yaml:"client_secret"`
	// Scopes are those for which it asks the provider. Default: auth.scopes_supported, with openid
	// for identity: id_token, and offline_access where the provider offers it.
	Scopes []string `yaml:"scopes"`
	// Identity says by which token of the provider users are known: access_token, the default, or id_token,
	// where its access tokens are for others.
	Identity string `yaml:"identity"`
	// Consent says when users are asked whether a client may act for them: remember, the default, once for
	// each client on the web and each time for programs; or always.
	Consent string `yaml:"consent"`
	// Clients are clients that the configuration names. Default: none.
	Clients []clientele.Fixed `yaml:"clients"`
	// Registration says how others become clients. Default: not at all.
	Registration clientele.Registration `yaml:"registration"`
	// DenyClients are clients that are refused: client ids, or hosts of metadata documents and
	// redirect URIs.
	DenyClients []string `yaml:"deny_clients"`
	// AccessTokenLife is how long an access token is good, 1m to 1h. Default: 10m.
	AccessTokenLife time.Duration `yaml:"access_token_life"`
	// RefreshTokenLife is how long a client may go on without a new sign-in, at most 8760h.
	// Default: 720h.
	RefreshTokenLife time.Duration `yaml:"refresh_token_life"`
	// IDJAG takes identity assertions (ID-JAG) of the provider from clients with a secret, which get a token
	// for one without a browser and a consent page. Default: false.
	IDJAG bool `yaml:"id_jag"`
	// SigningKey is a private key for ECDSA with P-256 in PEM. Default: keys that the gateway
	// makes, changes every 30 days, and keeps where sessions are kept.
	SigningKey mcp.Secret `yaml:"signing_key"`
	// PreviousSigningKeys are such keys, or their public halves, that sign nothing: the next one, before all
	// replicas have it as SigningKey, and the last one, until its tokens have ended
	// (docs/operations.md#rotating-secrets). Default: none.
	PreviousSigningKeys []mcp.Secret `yaml:"previous_signing_keys"`
}

// WithDefaults fills in the defaults. cfg is the section auth, publicURL the endpoint as clients
// write it.
func (s ServerConfig) WithDefaults(cfg Config, publicURL string) ServerConfig {
	s.Issuer = cmp.Or(s.Issuer, publicURL)
	if issuers := cfg.Servers(); s.Provider == "" && len(issuers) > 0 {
		s.Provider = issuers[0]
	}
	s.Identity = cmp.Or(s.Identity, IdentityAccessToken)
	s.Consent = cmp.Or(s.Consent, ConsentRemember)
	s.AccessTokenLife = cmp.Or(s.AccessTokenLife, DefaultAccessTokenLife)
	s.RefreshTokenLife = cmp.Or(s.RefreshTokenLife, DefaultRefreshTokenLife)
	return s
}

// Origin returns scheme and host of the issuer, where its endpoints are.
func (s ServerConfig) Origin() string {
	u, err := url.Parse(s.Issuer)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

// Clientele returns the keys that say who may be a client.
func (s ServerConfig) Clientele() clientele.Config {
	return clientele.Config{Clients: s.Clients, Registration: s.Registration}
}

// PrivateKey parses SigningKey.
func (s ServerConfig) PrivateKey() (*ecdsa.PrivateKey, error) {
	block, err := readPEM(s.SigningKey)
	if err != nil {
		return nil, err
	}
	return privateKey(block)
}

// PreviousKeys parses PreviousSigningKeys.
func (s ServerConfig) PreviousKeys() (all []*ecdsa.PublicKey, err error) {
	for i, text := range s.PreviousSigningKeys {
		key, err := publicKey(text)
		if err != nil {
			return nil, fmt.Errorf("previous_signing_keys[%d]: %w", i, err)
		}
		all = append(all, key)
	}
	return all, nil
}

func readPEM(text mcp.Secret) (*pem.Block, error) {
	block, _ := pem.Decode([]byte(strings.TrimSpace(string(text))))
	if block == nil {
		return nil, errors.New("is not PEM: write what openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 prints")
	}
	return block, nil
}

// publicKey parses a public key, or the public half of a private one.
func publicKey(text mcp.Secret) (*ecdsa.PublicKey, error) {
	block, err := readPEM(text)
	if err != nil {
		return nil, err
	}
	if private, err := privateKey(block); err == nil {
		return &private.PublicKey, nil
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	public, ok := key.(*ecdsa.PublicKey)
	if err != nil || !ok || public.Curve != elliptic.P256() {
		return nil, errors.New("is not a key for ECDSA with P-256")
	}
	return public, nil
}

func privateKey(block *pem.Block) (*ecdsa.PrivateKey, error) {
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		key, err = x509.ParseECPrivateKey(block.Bytes)
	}
	private, ok := key.(*ecdsa.PrivateKey)
	if err != nil || !ok || private.Curve != elliptic.P256() {
		return nil, errors.New("is not a private key for ECDSA with P-256")
	}
	return private, nil
}

// check reports all mistakes of the section.
func (s ServerConfig) check(cfg Config) (found problems.List) {
	oneOf := func(key, value string, values ...string) {
		found.When(value != "" && !slices.Contains(values, value),
			"%s: %q does not exist: write %s", key, value, strings.Join(values, " or "))
	}
	oneOf("identity", s.Identity, IdentityAccessToken, IdentityIDToken)
	oneOf("consent", s.Consent, ConsentRemember, ConsentAlways)
	found.Join(s.Clientele().Validate())
	found.When(slices.Contains(s.DenyClients, ""), "deny_clients: an empty one is no client")
	found.When(s.AccessTokenLife != 0 && (s.AccessTokenLife < leastAccessTokenLife ||
		s.AccessTokenLife > mostAccessTokenLife),
		"access_token_life: %s is not between %s and %s", s.AccessTokenLife, leastAccessTokenLife, mostAccessTokenLife)
	found.When(s.RefreshTokenLife < 0 || s.RefreshTokenLife > mostRefreshTokenLife,
		"refresh_token_life: %s is not between 1s and %s", s.RefreshTokenLife, mostRefreshTokenLife)
	for _, scope := range s.Scopes {
		found.When(!isScope(scope), "scopes: %q is not a scope: one word of printable ASCII without quotes and backslashes",
			scope)
	}
	if s.Issuer != "" {
		if err := checkURL(s.Issuer); err != nil {
			found.Add("issuer: %w", err)
		} else if strings.Contains(s.Issuer, "?") || strings.HasSuffix(s.Issuer, "/") {
			found.Add("issuer: %s: take out the query and the / at its end", s.Issuer)
		}
	}
	if !s.Enabled {
		return found
	}
	switch {
	case cfg.Mode != ModeOAuth:
		found.Add("enabled: there is no use for it in mode none: write mode: oauth")
	case s.Provider != "" && !slices.Contains(cfg.Servers(), s.Provider):
		found.Add("provider: %q is none of auth.issuers where people sign in", s.Provider)
	case len(cfg.Servers()) == 0:
		found.Add("provider: people sign in at none of auth.issuers")
	case s.Issuer != "" && mcp.HasIdentifier(cfg.Servers(), s.Issuer):
		found.Add("issuer: %s is one of auth.issuers already: the gateway's own server needs another identifier", s.Issuer)
	}
	found.When(cfg.DPoP == DPoPRequired,
		"enabled: its tokens are bound to no key of their client, so dpop: required would refuse all of them: write dpop: accepted")
	if s.SigningKey != "" {
		_, err := s.PrivateKey()
		found.At("signing_key", err)
	} else if len(s.PreviousSigningKeys) > 0 {
		found.Add("previous_signing_keys: they are of use beside signing_key only")
	}
	if len(s.PreviousSigningKeys) > mostPreviousKeys {
		found.Add("previous_signing_keys: %d, at most %d", len(s.PreviousSigningKeys), mostPreviousKeys)
	} else {
		_, err := s.PreviousKeys()
		found.Join(err)
	}
	found.When(s.Clientele().IsZero(),
		"registration: nobody could be a client: allow documents of clients with cimd.allow, such as [claude.ai, chatgpt.com], let clients register themselves with dcr.enabled, or name clients")
	found.When(s.IDJAG && !slices.ContainsFunc(s.Clients, func(c clientele.Fixed) bool { return c.Secret != "" }) &&
		!s.Registration.DCR.Enabled,
		"id_jag: no client can prove itself: name one with a secret in clients")
	found.When(s.ClientID == "",
		"client_id: is needed: register the gateway at the provider, with the redirect URI /oauth/callback at its own host")
	return found
}
