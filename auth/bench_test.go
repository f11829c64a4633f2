package auth_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// BenchmarkRequire is what the gate adds to a request whose token it remembers, and what
// it takes to verify one that it does not.
func BenchmarkRequire(b *testing.B) {
	issuer := newIssuer(b, mcptest.IssuerOptions{Alg: "RS256"})
	body := claims{"groups": []string{"engineering", "sre", "everybody"}, "scope": "mcp mcp:read",
		"email": "alice@example.com",
		"name":  "Alice Example", "preferred_username": "alice", "session_state": "0d4bbd1c-6a3b-4a39-8a24-0c2b3f4a1b8e"}
	g := newGate(b, func(c *auth.Config) { c.RequiredScopes = []string{"mcp"} }, issuer)
	request := func(token string) *http.Request {
		r := httptest.NewRequest(http.MethodPost, publicURL, nil)
		for name, value := range map[string]string{"Authorization": "Bearer " + token, "Content-Type": "application/json",
			"User-Agent": "bench",
			"Accept":     "application/json, text/event-stream", "Mcp-Protocol-Version": "x", "Mcp-Session-Id": "0123456789",
			"Content-Length": "100"} {
			r.Header.Set(name, value)
		}
		return r
	}
	passed := 0
	h := g.Require(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { passed++ }))
	b.Run("remembered", func(b *testing.B) {
		r := request(issuer.Token(body))
		b.ReportAllocs()
		passed = 0
		for b.Loop() {
			h.ServeHTTP(nil, r)
		}
		if passed != b.N {
			b.Fatalf("%d of %d passed", passed, b.N)
		}
	})
	b.Run("verified", func(b *testing.B) {
		requests := make([]*http.Request, 20_000) // more than are remembered
		for i := range requests {
			requests[i] = request(issuer.Token(body))
		}
		b.ReportAllocs()
		i := 0
		passed = 0
		for b.Loop() {
			h.ServeHTTP(nil, requests[i%len(requests)])
			i++
		}
		if passed != b.N {
			b.Fatalf("%d of %d passed", passed, b.N)
		}
	})
}
