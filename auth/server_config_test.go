package auth_test

import (
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/auth/clientele"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// TestServerConfig: what cannot work is refused, with the key and what to do.
func TestServerConfig(t *testing.T) {
	good := func() auth.Config {
		return auth.Config{
			Mode: auth.ModeOAuth, Issuers: []auth.Issuer{{URL: "https://login.example.com"}},
			Server: auth.ServerConfig{Enabled: true, ClientID: "gatehouse",
				Registration: clientele.Registration{CIMD: clientele.CIMD{Allow: []string{"claude.ai"}}}},
		}
	}
	if err := good().Validate(); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*auth.Config){
		"server: enabled: there is no use for it in mode none": func(c *auth.Config) { c.Mode, c.Issuers = "", nil },
		"so dpop: required would refuse all of them":           func(c *auth.Config) { c.DPoP = auth.DPoPRequired },
		"server: client_id: is needed":                         func(c *auth.Config) { c.Server.ClientID = "" },
		"server: registration: nobody could be a client":       func(c *auth.Config) { c.Server.Registration = clientele.Registration{} },
		"server: provider:":                                    func(c *auth.Config) { c.Server.Provider = "https://other.example.com" },
		"server: issuer: https://login.example.com is one of":  func(c *auth.Config) { c.Server.Issuer = "https://login.example.com" },
		"server: issuer: http://gw.example.com: want https":    func(c *auth.Config) { c.Server.Issuer = "http://gw.example.com" },
		"take out the query and the / at its end":              func(c *auth.Config) { c.Server.Issuer = "https://gw.example.com/" },
		`server: identity: "sub" does not exist`:               func(c *auth.Config) { c.Server.Identity = "sub" },
		`server: consent: "never" does not exist`:              func(c *auth.Config) { c.Server.Consent = "never" },
		"server: access_token_life: 2h0m0s is not between":     func(c *auth.Config) { c.Server.AccessTokenLife = 2 * time.Hour },
		"server: refresh_token_life: -1s is not between":       func(c *auth.Config) { c.Server.RefreshTokenLife = -time.Second },
		"server: signing_key: is not PEM":                      func(c *auth.Config) { c.Server.SigningKey = "secret" },
		"server: previous_signing_keys[0]: is not PEM":         func(c *auth.Config) { c.Server.PreviousSigningKeys = []mcp.Secret{"secret"} },
		"server: previous_signing_keys: they are of use":       func(c *auth.Config) { c.Server.PreviousSigningKeys = []mcp.Secret{"secret"} },
		"server: previous_signing_keys: 11, at most 10":        func(c *auth.Config) { c.Server.PreviousSigningKeys = make([]mcp.Secret, 11) },
		"server: deny_clients: an empty one":                   func(c *auth.Config) { c.Server.DenyClients = []string{""} },
		"server: scopes:":                                      func(c *auth.Config) { c.Server.Scopes = []string{"a b"} },
	} {
		c := good()
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
