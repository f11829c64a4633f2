package signin

import "github.com/gatehouse-mcp/gatehouse/internal/mcp"

// Config is how pages of the gateway sign people in (OAuth 2.1 authorization code with PKCE).
type Config struct {
	// Issuer is one of auth.issuers: only its users can sign in. Default: the only one.
	Issuer string `yaml:"issuer"`
	// ClientID is the client of these pages at the issuer. Required.
	ClientID string `yaml:"client_id"`
	// ClientSecret is the client's secret. Default: a public client without one.
	ClientSecret mcp.Secret `yaml:"client_secret"`
	// Scopes are asked for. Default: auth.scopes_supported.
	Scopes []string `yaml:"scopes"`
}

// IsZero reports whether the section says nothing.
func (c Config) IsZero() bool {
	return c.Issuer == "" && c.ClientID == "" && c.ClientSecret == "" && len(c.Scopes) == 0
}
