package outbound

import "github.com/gatehouse-mcp/gatehouse/internal/mcp"

// Account identifies the gateway at an upstream: configurations with the same Account can use the
// same sessions there. It holds secrets.
func (c Config) Account() []string {
	resource := ""
	if c.Resource != nil {
		resource = "=" + *c.Resource // "" is not the default
	}
	return append([]string{c.Type, c.Header, string(c.Token), c.TokenURL, c.Issuer, c.AuthorizationServer, c.ClientID,
		c.Grant.TokenURL, c.Grant.ClientID, resource, c.Audience}, c.Scopes...)
}

// Secrets are what must not be shown, should a server repeat it.
func (c Config) Secrets() []mcp.Secret {
	return []mcp.Secret{c.Token, c.ClientSecret, c.Grant.ClientSecret}
}
