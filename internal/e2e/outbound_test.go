package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-mcp/gatehouse/auth/outbound"
	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// TestFixedCredentials: they are on every request to their server, and nowhere else.
func TestFixedCredentials(t *testing.T) {
	t.Parallel()
	const secret = "fixed-credential-of-the-gateway"
	for _, c := range []struct {
		name         string
		auth         outbound.Config
		header, want string
	}{
		{"bearer", outbound.Config{Type: "bearer", Token: secret}, "Authorization", "Bearer " + secret},
		{"header", outbound.Config{Type: "header", Header: "X-Api-Key", Token: secret}, "X-Api-Key", secret},
	} {
		for _, server := range []string{statefulServer, stateless} {
			t.Run(c.name+", server "+server, func(t *testing.T) {
				s, other := scripted(t, server), scripted(t, server)
				s.Tools("do")
				s.Tool("do", func(c *mcptest.Call) { c.Text("done") })
				g := guard(t, gateway.Config{Upstreams: []upstream.Config{{Name: "up", URL: s.URL, Auth: c.auth},
					{Name: "other", URL: other.URL}}})
				for _, revision := range eras {
					client := g.raw(t, revision, g.issuer.Token(nil))
					client.Header["X-Api-Key"] = []string{"the client's"}
					if got := said(mustCall(t, client, "tools/call", `{"name":"up__do"}`)); got != "done" {
						t.Error(got)
					}
				}
				for _, r := range s.Received("") {
					if got := r.Header[c.header]; !slices.Equal(got, []string{c.want}) {
						t.Errorf("%s%s has %s %q", r.HTTP, r.Method, c.header, got)
					}
				}
				for _, r := range other.Received("") {
					if r.Header.Get("Authorization")+r.Header.Get("X-Api-Key") != "" {
						t.Errorf("another server got %v", r.Header)
					}
				}
				if strings.Contains(g.log.String(), secret) {
					t.Error("the credential is in the log")
				}
			})
		}
	}
}

// TestClientCredentials: the gateway gets a token of its own, with each form of
// authentication, and uses it for all users.
func TestClientCredentials(t *testing.T) {
	t.Parallel()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	private := mcp.Secret(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	for _, c := range []struct {
		name   string
		change func(*outbound.Config)
		prove  func(r *http.Request, form map[string]string, d *desk) error
	}{
		{"client_secret_basic", func(*outbound.Config) {}, func(r *http.Request, _ map[string]string, _ *desk) error {
			if id, secret, ok := r.BasicAuth(); !ok || id != "gatehouse" || secret != url.QueryEscape(deskSecret) {
				return fmt.Errorf("Authorization is %q", r.Header["Authorization"])
			}
			return nil
		}},
		{"client_secret_post", func(c *outbound.Config) { c.ClientAuth = "client_secret_post" },
			func(_ *http.Request, form map[string]string, _ *desk) error {
				form["client_id"], form["client_secret"] = "gatehouse", deskSecret
				return nil
			}},
		{"private_key_jwt", func(c *outbound.Config) { c.ClientSecret, c.PrivateKey = "", private },
			func(r *http.Request, form map[string]string, d *desk) error {
				assertion := r.PostFormValue("client_assertion")
				form["client_id"], form["client_assertion"] = "gatehouse", assertion
				form["client_assertion_type"] = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
				all, err := verified(assertion, jose.ES256, key.Public(), d.url())
				if err != nil || all["iss"] != "gatehouse" || all["sub"] != "gatehouse" || all["jti"] == "" || all["exp"] == nil {
					return fmt.Errorf("the assertion says %v: %w", all, err)
				}
				return nil
			}},
	} {
		for _, server := range []string{statefulServer, stateless} {
			t.Run(c.name+", server "+server, func(t *testing.T) {
				behind, issuer := scripted(t, server), newIssuer(t)
				behind.Tools("do")
				behind.Tool("do", func(c *mcptest.Call) { c.Text("done") })
				d := newDoor(t, behind, issuer)
				var tokens *desk
				tokens = newDesk(issuer, func(r *http.Request) (claims, error) {
					form := map[string]string{"grant_type": "client_credentials", "resource": d.url, "scope": "read write"}
					if err := c.prove(r, form, tokens); err != nil {
						return nil, err
					}
					return claims{"sub": "gatehouse", "aud": d.url}, wantForm(r, form)
				})
				auth := tokens.clientAt(outbound.TypeClientCredentials)
				auth.Scopes = []string{"read", "write"}
				c.change(&auth)
				g := guard(t, gateway.Config{Upstreams: []upstream.Config{{Name: "up", URL: d.url, Auth: auth}}})
				var clients []*mcptest.Client
				for _, revision := range eras {
					for _, user := range []string{"alice", "bob"} {
						clients = append(clients, g.raw(t, revision, g.issuer.Token(claims{"sub": user})))
					}
				}
				use := func(what string) {
					t.Helper()
					var all sync.WaitGroup
					for _, client := range clients {
						all.Go(func() {
							if m, _, err := client.Call(deadline(t), "tools/call", `{"name":"up__do"}`); err != nil || said(m) != "done" {
								t.Errorf("%s: %s, %v", what, m.Text, err)
							}
						})
					}
					all.Wait()
				}
				use("at first")
				if got := tokens.tokens(t); len(got) != 1 {
					t.Fatalf("%d tokens were issued, want one for all", len(got))
				}
				d.revoke(tokens.tokens(t)...)
				use("with a token that the server does not take any more")
				issued := tokens.tokens(t)
				if len(issued) != 2 {
					t.Errorf("%d tokens were issued, want one new one", len(issued))
				}
				for _, token := range d.shown() {
					if !slices.Contains(issued, token) {
						t.Errorf("the server was shown a token that is not its own: %s", token)
					}
				}
				for _, status := range []int{401, 403} {
					d.keepOut("gatehouse", status)
					for _, client := range clients {
						x, err := client.Send(deadline(t), "tools/call", `{"name":"up__do"}`)
						if err != nil {
							t.Fatal(err)
						}
						wantUpstreamError(t, "when nothing helps", x,
							fmt.Sprintf("Upstream up refused the gateway's credentials (HTTP %d)", status))
						x.Close()
					}
				}
				wantNowhere(t, "the log", g.log.String(), append(issued, deskSecret, string(private))...)
			})
		}
	}
}

// TestTheDeskRefuses: only the operator sees what the token endpoint says.
func TestTheDeskRefuses(t *testing.T) {
	for _, c := range []struct{ code, text string }{
		{"invalid_client", "the token endpoint refused the gateway itself (invalid_client)"},
		{"invalid_target", "the token endpoint refused to issue a token (invalid_target)"},
	} {
		behind, issuer := scripted(t, stateless), newIssuer(t)
		d := newDoor(t, behind, issuer)
		tokens := newDesk(issuer, func(*http.Request) (claims, error) { return nil, errorCode(c.code) })
		auth := tokens.clientAt(outbound.TypeClientCredentials)
		g := guard(t, gateway.Config{Upstreams: []upstream.Config{{Name: "up", URL: d.url, Auth: auth}}})
		for _, revision := range eras {
			x, err := g.raw(t, revision, g.issuer.Token(nil)).Send(deadline(t), "tools/call", `{"name":"up__do"}`)
			if err != nil {
				t.Fatal(err)
			}
			// There is no list yet, and the error can say only that.
			m, err := x.Response()
			x.Close()
			if err != nil || x.Status != 200 || m.Error == nil || m.Error.Code/100 != 502 || strings.Contains(m.Text, "desk") ||
				strings.Contains(m.Text, "127.0.0.1") {
				t.Errorf("%s: %d %s, %v", c.code, x.Status, m.Text, err)
			}
		}
		if log := g.log.String(); !strings.Contains(log, c.code) {
			t.Errorf("%s: the operator is not told: %s", c.code, log)
		}
		wantNowhere(t, "the log", g.log.String(), deskSecret)
		if got := d.shown(); len(got) > 0 {
			t.Errorf("%s: the server was shown %q", c.code, got)
		}
	}
}

// wantNowhere looks for secrets where there must be none.
func wantNowhere(t *testing.T, where, text string, secrets ...string) {
	t.Helper()
	for _, secret := range secrets {
		if secret != "" && strings.Contains(text, secret) {
			at := strings.Index(text, secret)
			t.Errorf("a secret is in %s: %.300s", where, text[max(0, at-200):])
		}
	}
}
