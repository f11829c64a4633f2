package auth_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

const insufficientScope = `error="insufficient_scope"`

// A missing scope is told with all that are needed at once, before
// anything else is answered, and with those that were granted.
func TestMissingScopes(t *testing.T) {
	issuer := newIssuer(t, mcptest.IssuerOptions{})
	g := newGate(t, func(c *auth.Config) { c.RequiredScopes = []string{"mcp", "mcp:tools"} }, issuer)
	tests := []struct {
		name   string
		claims claims
		want   string // scope of the challenge, "" for a caller that gets in
	}{
		{"all", claims{"scope": "mcp mcp:tools"}, ""},
		{"more", claims{"scope": "x mcp:tools mcp"}, ""},
		{"none", nil, "mcp mcp:tools"},
		{"one", claims{"scope": "mcp"}, "mcp mcp:tools"},
		{"one, and others", claims{"scope": "crm:write mcp"}, "mcp mcp:tools crm:write"},
		{"another case", claims{"scope": "MCP mcp:tools"}, "mcp mcp:tools MCP"},
		{"a part of the word", claims{"scope": "mcp mcp:tools:read"}, "mcp mcp:tools mcp:tools:read"},
		{"offline_access", claims{"scope": "offline_access"}, "mcp mcp:tools"},
		{"what breaks a header is left out", claims{"scope": "a\"b c\\d e\nf ok"}, "mcp mcp:tools ok"},
		{"a list, as some write it", claims{"scope": []string{"mcp", "mcp:tools"}}, ""},
		{"Okta's list", claims{"scp": []string{"mcp", "mcp:tools"}}, ""},
		{"Entra's text", claims{"scp": "mcp mcp:tools"}, ""},
		{"both names", claims{"scope": "mcp", "scp": "mcp:tools"}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := g.bearer(issuer.Token(tt.claims))
			if tt.want == "" {
				a.expect(t, 200)
				return
			}
			a.expect(t, 403, insufficientScope, fmt.Sprintf("scope=%q", tt.want))
		})
	}
	g.bearer(issuer.Token(claims{"scope": 1})).expect(t, 401, invalidToken)
	g.bearer(issuer.Token(claims{"scope": []any{"mcp", claims{}}})).expect(t, 401, invalidToken)
	words := strings.Builder{}
	for i := range 600 {
		fmt.Fprintf(&words, "s%d ", i)
	}
	g.bearer(issuer.Token(claims{"scope": words.String()})).expect(t, 401, invalidToken)
	g.call().expect(t, 401, `scope="mcp mcp:tools"`)
}

// A broader scope satisfies what a narrower one is needed for.
func TestImpliedScopes(t *testing.T) {
	issuer := newIssuer(t, mcptest.IssuerOptions{})
	g := newGate(t, func(c *auth.Config) {
		c.RequiredScopes = []string{"mcp:read"}
		c.ImpliedScopes = map[string][]string{"mcp:admin": {"mcp:write"}, "mcp:write": {"mcp:read", "mcp:admin"}}
	}, issuer)
	for scope, want := range map[string][]string{
		"mcp:read":  {"mcp:read"},
		"mcp:write": {"mcp:write", "mcp:read", "mcp:admin"},
		"mcp:admin": {"mcp:admin", "mcp:write", "mcp:read"},
	} {
		a := g.bearer(issuer.Token(claims{"scope": scope}))
		a.expect(t, 200)
		if diff := cmp.Diff(want, a.caller.Scopes); diff != "" {
			t.Errorf("%s: %s", scope, diff)
		}
	}
	g.bearer(issuer.Token(claims{"scope": "mcp"})).expect(t, 403, insufficientScope)
}

// Where tokens name scopes otherwise than requests, challenges speak the language of
// requests only.
func TestScopesSupported(t *testing.T) {
	issuer := newIssuer(t, mcptest.IssuerOptions{})
	g := newGate(t, func(c *auth.Config) {
		c.RequiredScopes = []string{"mcp"}
		c.ScopesSupported = []string{"api://1234/mcp"}
	}, issuer)
	g.call().expect(t, 401, `scope="api://1234/mcp"`)
	g.bearer(issuer.Token(claims{"scp": "other"})).expect(t, 403, insufficientScope, `scope="api://1234/mcp"`)
	g.bearer(issuer.Token(claims{"scp": "mcp"})).expect(t, 200)
}
