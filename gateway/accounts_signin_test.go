package gateway

import (
	"testing"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/auth/signin"
)

// TestAccountsSignIn: the pages of accounts have a client of their own, or share one; where users are
// known by ID tokens, these are used.
func TestAccountsSignIn(t *testing.T) {
	const issuer, publicURL = "https://login.example.com", "https://gw.example.com/mcp"
	for name, tt := range map[string]struct {
		own       signin.Config
		server    auth.ServerConfig
		operators signin.Config
		client    string // "" for none
		idToken   bool
	}{
		"nothing": {},
		"its own": {own: signin.Config{ClientID: "own"},
			server: auth.ServerConfig{Enabled: true,
				ClientID: "server"}, operators: signin.Config{ClientID: "console"}, client: "own"},
		"that of the server": {server: auth.ServerConfig{Enabled: true, ClientID: "server"},
			operators: signin.Config{ClientID: "console"}, client: "server"},
		"a server that is off": {server: auth.ServerConfig{ClientID: "server"},
			operators: signin.Config{ClientID: "console"}, client: "console"},
		"that of the console": {operators: signin.Config{ClientID: "console"}, client: "console"},
		"users by their ID token": {server: auth.ServerConfig{Enabled: true, ClientID: "server",
			Identity: auth.IdentityIDToken}, client: "server", idToken: true},
	} {
		cfg := Config{PublicURL: publicURL, Auth: auth.Config{Mode: auth.ModeOAuth, Issuers: []auth.Issuer{{URL: issuer}},
			Server: tt.server}}
		cfg.Accounts.SignIn, cfg.Admin.Console.SignIn = tt.own, tt.operators
		f := accountsFlow(cfg, nil, nil, nil)
		if tt.client == "" {
			if f != nil {
				t.Errorf("%s: %+v", name, f)
			}
			continue
		}
		if f == nil || f.ClientID != tt.client || f.Issuer != issuer || f.IDToken != tt.idToken || f.Resource != publicURL ||
			f.Redirect != "https://gw.example.com/account/callback" {
			t.Errorf("%s: %+v", name, f)
		}
	}
}
