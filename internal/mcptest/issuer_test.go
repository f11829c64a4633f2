package mcptest_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

func get(t *testing.T, url string) (int, []byte) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, body
}

// Another implementation finds the keys and verifies the tokens.
func TestIssuerSigns(t *testing.T) {
	for _, alg := range []string{"RS256", "RS512", "PS256", "PS384", "ES256", "ES384", "ES512", "EdDSA"} {
		t.Run(alg, func(t *testing.T) {
			issuer := mcptest.NewIssuer(mcptest.IssuerOptions{Path: "/tenant", Alg: alg})
			defer issuer.Close()
			old := issuer.Token(nil)
			if alg != "RS512" { // one RSA key is slow enough
				issuer.Rotate(alg)
			}

			for _, at := range []string{issuer.URL + "/.well-known/openid-configuration",
				strings.TrimSuffix(issuer.URL, "/tenant") + "/.well-known/oauth-authorization-server/tenant"} {
				var doc struct {
					Issuer  string
					JWKSURI string `json:"jwks_uri"`
				}
				status, body := get(t, at)
				if err := json.Unmarshal(body, &doc); err != nil || status != 200 || doc.Issuer != issuer.URL ||
					doc.JWKSURI != issuer.URLOf(mcptest.EndpointJWKS) {
					t.Fatalf("%s: got %d %s", at, status, body)
				}
			}
			var set jose.JSONWebKeySet
			if _, body := get(t, issuer.URLOf(mcptest.EndpointJWKS)); json.Unmarshal(body, &set) != nil || len(set.Keys) != 1 {
				t.Fatalf("got %s", body)
			}
			token := issuer.Token(map[string]any{"sub": "bob", "jti": nil, "groups": []string{"a"}})
			parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.SignatureAlgorithm(alg)})
			if err != nil {
				t.Fatal(err)
			}
			var claims struct {
				jwt.Claims
				Groups []string `json:"groups"`
			}
			if err := parsed.Claims(set.Keys[0].Key, &claims); err != nil {
				t.Fatal(err)
			}
			if claims.Subject != "bob" || claims.ID != "" || claims.Issuer != issuer.URL || len(claims.Groups) != 1 ||
				claims.Audience[0] != issuer.Audience || time.Until(claims.Expiry.Time()) <= 0 {
				t.Errorf("got %+v", claims)
			}
			if parsed, err = jwt.ParseSigned(old, []jose.SignatureAlgorithm{jose.SignatureAlgorithm(alg)}); err != nil {
				t.Fatal(err)
			}
			if err := parsed.Claims(set.Keys[0].Key, &claims); (err == nil) != (alg == "RS512") {
				t.Errorf("the token of the key before the rotation: %v", err)
			}
		})
	}
}

func TestIssuerIntrospects(t *testing.T) {
	issuer := mcptest.NewIssuer(mcptest.IssuerOptions{})
	defer issuer.Close()
	ask := func(token, secret string) (int, map[string]any) {
		t.Helper()
		req, err := http.NewRequest(http.MethodPost, issuer.URLOf(mcptest.EndpointIntrospect),
			strings.NewReader(url.Values{"token": {token}}.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.SetBasicAuth(issuer.ClientID, url.QueryEscape(secret))
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var claims map[string]any
		if resp.StatusCode == http.StatusOK {
			if err := json.NewDecoder(resp.Body).Decode(&claims); err != nil {
				t.Fatal(err)
			}
		}
		return resp.StatusCode, claims
	}
	token := issuer.Opaque(map[string]any{"scope": "mcp"})
	if status, claims := ask(token, issuer.ClientSecret); status != 200 || claims["active"] != true ||
		claims["scope"] != "mcp" || claims["iss"] != issuer.URL {
		t.Errorf("got %d %v", status, claims)
	}
	if status, _ := ask(token, "wrong"); status != 401 {
		t.Errorf("a wrong secret: got %d", status)
	}
	issuer.Revoke(token)
	if status, claims := ask(token, issuer.ClientSecret); status != 200 || claims["active"] != false || len(claims) != 1 {
		t.Errorf("after the revocation: got %d %v", status, claims)
	}
	if got := issuer.Introspected(); len(got) != 2 || got[0] != token {
		t.Errorf("introspected %q", got)
	}
}

func TestIssuerBreaks(t *testing.T) {
	issuer := mcptest.NewIssuer(mcptest.IssuerOptions{})
	defer issuer.Close()
	at := issuer.URLOf(mcptest.EndpointJWKS)
	issuer.Break(mcptest.EndpointJWKS, mcptest.Status(500))
	if status, _ := get(t, at); status != 500 {
		t.Errorf("got %d", status)
	}
	issuer.Break(mcptest.EndpointJWKS, mcptest.Huge(100_000))
	if status, body := get(t, at); status != 200 || len(body) < 100_000 || !json.Valid(body) {
		t.Errorf("got %d and %d bytes", status, len(body))
	}
	issuer.Break(mcptest.EndpointJWKS, mcptest.Bomb(1<<20))
	if status, body := get(t, at); status != 200 || len(body) < 1<<20 || !json.Valid(body) {
		t.Errorf("got %d and %d bytes", status, len(body))
	}
	issuer.Break(mcptest.EndpointJWKS, mcptest.Hang)
	hung := make(chan error, 1)
	go func() {
		resp, err := http.Get(at)
		if err == nil {
			resp.Body.Close()
		}
		hung <- err
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := issuer.WaitFetches(ctx, mcptest.EndpointJWKS, 4); err != nil {
		t.Fatal(err)
	}
	issuer.Mend()
	issuer.SetMetadata("issuer", "https://other.example")
	if _, body := get(t, issuer.URLOf(mcptest.EndpointOpenID)); !strings.Contains(string(body),
		`"issuer":"https://other.example"`) {
		t.Errorf("got %s", body)
	}
	issuer.Close() // ends requests that hang
	<-hung
	if got := issuer.Fetches(mcptest.EndpointJWKS); got != 4 {
		t.Errorf("counted %d", got)
	}
	http.DefaultClient.CloseIdleConnections()
}
