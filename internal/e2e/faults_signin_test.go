package e2e

import (
	"net/http"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// TestIssuerIsGone: nobody listens at the issuer's address. Known users continue, with and
// without sessions. Unknown ones are told to come back, without a challenge and without the
// issuer's address. When the issuer is back, they are accepted.
func TestIssuerIsGone(t *testing.T) {
	t.Parallel()
	for _, opaque := range []bool{false, true} {
		name := "keys cannot be fetched"
		if opaque {
			name = "tokens cannot be introspected"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var issuer *mcptest.Issuer
			at := newMortal(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { issuer.ServeHTTP(w, r) }))
			issuer = mcptest.NewIssuer(mcptest.IssuerOptions{URL: "http://" + at.Address})
			t.Cleanup(issuer.Close)
			cfg := gateway.Config{Upstreams: []upstream.Config{{Name: "up", URL: doing(t).URL}}}
			fresh := func() string { issuer.AddKey("ES256"); return issuer.Token(nil) }
			token := issuer.Token
			if opaque {
				cfg.Auth.Issuers = []auth.Issuer{{URL: issuer.URL, Introspection: &auth.Introspection{
					ClientID: issuer.ClientID, ClientSecret: mcp.Secret(issuer.ClientSecret),
				}}}
				token = issuer.Opaque
				fresh = func() string { return issuer.Opaque(nil) }
			}
			g := guardWith(t, issuer, cfg)
			var known []*mcptest.Client
			for _, revision := range eras {
				c := g.raw(t, revision, token(nil))
				mustCall(t, c, "tools/call", `{"name":"up__do"}`)
				known = append(known, c)
			}
			at.Kill()
			unknown := fresh()
			for _, c := range known {
				mustCall(t, c, "tools/call", `{"name":"up__do"}`)
				x, err := as(t, c, unknown).Send(deadline(t), "tools/call", `{"name":"up__do"}`)
				if err != nil {
					t.Fatal(err)
				}
				all := wholeCall(t, as(t, c, unknown), "tools/call", `{"name":"up__do"}`)
				wantLater(t, "client "+c.Revision.Name, x)
				x.Close()
				if strings.Contains(all, at.Address) || strings.Contains(all, "refused") {
					t.Errorf("client %s: it tells too much: %s", c.Revision.Name, all)
				}
				mustCall(t, c, "tools/call", `{"name":"up__do"}`)
			}
			fetches := issuer.Fetches(mcptest.EndpointJWKS)
			revive(t, at)
			if !opaque { // by itself: the pauses are 1 s, 2 s and so on
				if err := issuer.WaitFetches(deadline(t), mcptest.EndpointJWKS, fetches+1); err != nil {
					t.Fatal(err)
				}
			}
			try := func(c *mcptest.Client) *mcptest.Exchange {
				x, err := as(t, c, unknown).Send(deadline(t), "tools/call", `{"name":"up__do"}`)
				if err != nil {
					t.Fatal(err)
				}
				x.Close()
				return x
			}
			if x := try(known[0]); !opaque && x.Status == 503 { // the keys are still on their way
				obey(t, x.Header.Get("Retry-After"))
			} else if x.Status != 200 {
				t.Errorf("the next request: status %d", x.Status)
			}
			for _, c := range known {
				if x := try(c); x.Status != 200 {
					t.Errorf("client %s: status %d, and the issuer is back", c.Revision.Name, x.Status)
				}
			}
		})
	}
}
