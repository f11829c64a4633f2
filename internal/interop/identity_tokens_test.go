package interop

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"sync"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

type claims = map[string]any

// documented is a provider's documentation of its access tokens: the header's typ and the
// claims besides iss, iat, exp and jti.
type documented struct {
	typ    any // nil for none
	claims claims
	// The expected user and client.
	user, client string
	// idToken holds claims of an ID token from the same sign-in.
	idToken claims
	// noScope holds the claims without the scope that the page requires.
	noScope claims
}

const (
	publicURL = "https://mcp.example.com/mcp"
	// entraAPI is the client id of the registration on the page.
	entraAPI = "66666666-7777-8888-9999-000000000000"
)

var documentedTokens = map[string]documented{
	"Keycloak": {
		typ: "JWT",
		claims: claims{"typ": "Bearer", "aud": publicURL, "azp": "vscode", "client_id": nil,
			"sub": "f3c9c2b1-5b0e-4a3a-9f0f-0c4d3d2a1b00",
			"sid": "s", "acr": "1", "allowed-origins": []string{"http://localhost"},
			"realm_access": claims{"roles": []string{"staff"}},
			"scope":        "openid mcp profile", "groups": []string{"engineering"}, "email_verified": true,
			"preferred_username": "ada"},
		user: "f3c9c2b1-5b0e-4a3a-9f0f-0c4d3d2a1b00", client: "vscode",
		idToken: claims{"typ": "ID", "aud": "vscode", "nonce": "n", "at_hash": "h"},
		noScope: claims{"scope": "openid profile"},
	},
	"Microsoft Entra ID": {
		typ: "JWT",
		claims: claims{"aud": entraAPI, "azp": "aaaaaaaa-0000-1111-2222-bbbbbbbbbbbb", "azpacr": "0",
			"client_id": nil, "jti": nil,
			"aio": "opaque", "rh": "opaque", "uti": "opaque", "oid": "cccccccc-0000-1111-2222-bbbbbbbbbbbb",
			"tid": "11111111-2222-3333-4444-555555555555",
			"sub": "3OBtLXUC2ZrN_ADLNjW9X4o0lcd61py7lgHw3Skh77s", "ver": "2.0", "scp": "access",
			"roles": []string{"engineering"}},
		user: "3OBtLXUC2ZrN_ADLNjW9X4o0lcd61py7lgHw3Skh77s", client: "aaaaaaaa-0000-1111-2222-bbbbbbbbbbbb",
		idToken: claims{"aud": "aaaaaaaa-0000-1111-2222-bbbbbbbbbbbb", "nonce": "n"},
		noScope: claims{"scp": nil}, // as for an application that acts for itself
	},
	"Okta": {
		claims: claims{"ver": 1, "aud": publicURL, "cid": "0oa1b2c3", "client_id": nil, "uid": "00u4d5e6", "auth_time": 1,
			"scp": []string{"openid", "mcp"}, "sub": "ada@example.com", "groups": []string{"engineering"}},
		user: "00u4d5e6", client: "0oa1b2c3",
		idToken: claims{"aud": "0oa1b2c3", "nonce": "n", "at_hash": "h"},
		noScope: claims{"scp": []string{"openid"}},
	},
	"Auth0": {
		typ: "at+jwt",
		claims: claims{"aud": []string{publicURL, "https://acme.eu.auth0.com/userinfo"},
			"client_id": "K1AUPhZq8mRi0Q0pjhkfu1D7y6KjDQja",
			"sub":       "auth0|6553da60a54af58e29493993", "scope": "openid mcp",
			"https://mcp.example.com/groups": []string{"engineering"}},
		user: "auth0|6553da60a54af58e29493993", client: "K1AUPhZq8mRi0Q0pjhkfu1D7y6KjDQja",
		idToken: claims{"aud": "K1AUPhZq8mRi0Q0pjhkfu1D7y6KjDQja", "nonce": "n"},
		noScope: claims{"scope": "openid"},
	},
}

// TestDocumentedTokens presents tokens, as each provider documents them, to a gateway with
// the settings of the page. Only the issuer's host differs.
func TestDocumentedTokens(t *testing.T) {
	for title, text := range pageConfigs(t) {
		d, ok := documentedTokens[title]
		if !ok {
			continue // the general part
		}
		t.Run(title, func(t *testing.T) {
			cfg, _, err := config.Parse("gatehouse.yaml", []byte(text))
			if err != nil {
				t.Fatal(err)
			}
			issuer, gate := startGate(t, cfg)
			show := func(typ any, more claims) (int, mcp.Caller) {
				all := claims{}
				for _, c := range []claims{d.claims, more} {
					for name, value := range c {
						all[name] = value
					}
				}
				return gate(issuer.Sign(claims{"typ": typ}, all))
			}

			status, caller := show(d.typ, nil)
			if status != http.StatusOK || caller.Subject != d.user || caller.ClientID != d.client ||
				!slices.Equal(caller.Groups, []string{"engineering"}) {
				t.Errorf("status %d, user %q, client %q, groups %q; want 200, %q, %q, engineering",
					status, caller.Subject, caller.ClientID, caller.Groups, d.user, d.client)
			}
			if status, _ := show(d.typ, claims{"aud": "https://api.example.com"}); status != http.StatusUnauthorized {
				t.Errorf("a token for another API: status %d", status)
			}
			if status, _ := show("JWT", d.idToken); status != http.StatusUnauthorized {
				t.Errorf("an ID token: status %d", status)
			}
			if status, _ := show(d.typ, d.noScope); status != http.StatusForbidden {
				t.Errorf("a token without the scope: status %d", status)
			}
		})
	}
}

// startGate starts an issuer that replaces the configured one, and the verifier of its
// tokens.
func startGate(t *testing.T, cfg gateway.Config) (*mcptest.Issuer, func(token string) (int, mcp.Caller)) {
	t.Helper()
	u, err := url.Parse(cfg.Auth.Issuers[0].URL)
	if err != nil {
		t.Fatal(err)
	}
	issuer := mcptest.NewIssuer(mcptest.IssuerOptions{Path: u.Path})
	t.Cleanup(issuer.Close)
	cfg.Auth.Issuers[0].URL = issuer.URL
	a, err := auth.New(cfg.Auth, auth.Deps{PublicURL: cfg.PublicURL})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := a.Run(ctx); err != nil && ctx.Err() == nil {
			t.Error(err)
		}
	})
	t.Cleanup(running.Wait)
	t.Cleanup(cancel)
	return issuer, func(token string) (int, mcp.Caller) {
		var caller mcp.Caller
		h := a.Require(http.HandlerFunc(func(_ http.ResponseWriter,
			r *http.Request) {
			caller, _ = mcp.CallerFrom(r.Context())
		}))
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, publicURL, nil)
		req.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, req)
		return w.Code, caller
	}
}
