package auth_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

type claims = map[string]any

// check gives tokens with these claims to a gate.
func check(t *testing.T, change func(*auth.Config), tests map[string]struct {
	claims claims
	status int
}) {
	t.Helper()
	issuer := newIssuer(t, mcptest.IssuerOptions{})
	g := newGate(t, change, issuer)
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			parts := []string{}
			if tt.status == 401 {
				parts = append(parts, invalidToken)
			}
			g.bearer(issuer.Token(tt.claims)).expect(t, tt.status, parts...)
		})
	}
}

type claimTests = map[string]struct {
	claims claims
	status int
}

// Iss is compared byte for byte.
func TestIssuerIsCompared(t *testing.T) {
	issuer := newIssuer(t, mcptest.IssuerOptions{Path: "/tenant"})
	g := newGate(t, nil, issuer)
	g.bearer(issuer.Token(nil)).expect(t, 200)
	for name, iss := range map[string]any{
		"trailing slash": issuer.URL + "/", "case": strings.ToUpper(issuer.URL),
		"another port": issuer.URL[:len(issuer.URL)-len("/tenant")-1] + "/tenant",
		"no path":      strings.TrimSuffix(issuer.URL, "/tenant"), "another": "https://login.example.com", "none": nil,
		"empty": "", "a list": []string{issuer.URL},
	} {
		t.Run(name, func(t *testing.T) { g.bearer(issuer.Token(claims{"iss": iss})).expect(t, 401, invalidToken) })
	}
	if n := issuer.Fetches(mcptest.EndpointJWKS); n != 1 {
		t.Errorf("the keys were fetched %d times", n)
	}
}

// TestRootSlash: an issuer and an audience without a path are the same with a slash and without.
func TestRootSlash(t *testing.T) {
	for _, path := range []string{"", "/"} {
		issuer := newIssuer(t, mcptest.IssuerOptions{Path: path})
		origin := strings.TrimSuffix(issuer.URL, "/")
		for _, audience := range []string{"https://gateway.example", "https://gateway.example/"} {
			g := newGate(t, func(c *auth.Config) { c.Issuers[0].Audiences = []string{audience} }, issuer)
			for _, slash := range []string{"", "/"} {
				a := g.bearer(issuer.Token(claims{"iss": origin + slash, "aud": "https://gateway.example" + slash}))
				if a.expect(t, 200); a.caller.Issuer != issuer.URL {
					t.Errorf("the caller's issuer is %s", a.caller.Issuer)
				}
			}
			for _, other := range []string{"//", "/?", "/mcp", "?/"} {
				g.bearer(issuer.Token(claims{"iss": origin + other, "aud": audience})).expect(t, 401, invalidToken)
				g.bearer(issuer.Token(claims{"aud": "https://gateway.example" + other})).expect(t, 401, invalidToken)
			}
		}
	}
}

// Two issuers with the same subject have two users, and the key of one verifies
// nothing of the other.
func TestTwoIssuers(t *testing.T) {
	a, b := newIssuer(t, mcptest.IssuerOptions{}), newIssuer(t, mcptest.IssuerOptions{})
	g := newGate(t, nil, a, b)
	fromA, fromB := g.bearer(a.Token(nil)), g.bearer(b.Token(nil))
	fromA.expect(t, 200)
	fromB.expect(t, 200)
	if fromA.caller.Subject != "alice" || fromB.caller.Subject != "alice" || fromA.caller.Issuer != a.URL ||
		fromB.caller.Issuer != b.URL {
		t.Errorf("got %s of %s and %s of %s", fromA.caller.Subject, fromA.caller.Issuer, fromB.caller.Subject,
			fromB.caller.Issuer)
	}
	if fromA.caller.User() == fromB.caller.User() {
		t.Error("both are one user")
	}
	g.bearer(b.Token(claims{"iss": a.URL})).expect(t, 401, invalidToken)
	if again := g.bearer(a.Token(nil)); again.caller.User() != fromA.caller.User() {
		t.Error("a fresh token makes another user")
	}
}

// The audience is compared byte for byte. That is safer than to ignore the case of scheme and host, or
// the default port, and an operator can list several forms.
func TestAudience(t *testing.T) {
	check(t, nil, claimTests{
		"exactly ours":                     {claims{"aud": publicURL}, 200},
		"ours in a list":                   {claims{"aud": []string{"https://api.example", publicURL}}, 200},
		"another":                          {claims{"aud": "https://api.example"}, 401},
		"another profile":                  {claims{"aud": publicURL + "/finance"}, 401},
		"the client, as in ID tokens":      {claims{"aud": "client"}, 401},
		"a trailing slash":                 {claims{"aud": publicURL + "/"}, 401},
		"upper-case host":                  {claims{"aud": "https://GATEWAY.example/mcp"}, 401},
		"upper-case scheme":                {claims{"aud": "HTTPS://gateway.example/mcp"}, 401},
		"the default port":                 {claims{"aud": "https://gateway.example:443/mcp"}, 401},
		"http":                             {claims{"aud": "http://gateway.example/mcp"}, 401},
		"no path":                          {claims{"aud": "https://gateway.example"}, 401},
		"another case of the path":         {claims{"aud": "https://gateway.example/MCP"}, 401},
		"a space":                          {claims{"aud": " " + publicURL}, 401},
		"several words":                    {claims{"aud": publicURL + " https://api.example"}, 401},
		"missing":                          {claims{"aud": nil}, 401},
		"empty":                            {claims{"aud": ""}, 401},
		"an empty list":                    {claims{"aud": []string{}}, 401},
		"a number":                         {claims{"aud": 1}, 401},
		"an object":                        {claims{"aud": claims{"0": publicURL}}, 401},
		"a list in a list":                 {claims{"aud": [][]string{{publicURL}}}, 401},
		"a list with something that is no": {claims{"aud": []any{publicURL, 1}}, 401},
	})
	several := func(c *auth.Config) { c.Issuers[0].Audiences = []string{"3c5f-guid", publicURL + "/"} }
	check(t, several, claimTests{
		"a configured one":         {claims{"aud": "3c5f-guid"}, 200},
		"another form":             {claims{"aud": publicURL + "/"}, 200},
		"the default is no longer": {claims{"aud": publicURL}, 401},
	})
	sole := func(c *auth.Config) { c.Issuers[0].RequireSoleAudience = true }
	check(t, sole, claimTests{
		"sole: ours alone":      {claims{"aud": publicURL}, 200},
		"sole: ours in a list":  {claims{"aud": []string{publicURL}}, 200},
		"sole: others too":      {claims{"aud": []string{publicURL, "https://api.example"}}, 401},
		"sole: only the others": {claims{"aud": []string{"https://api.example"}}, 401},
	})
}

// Who the token was issued to.
func TestTokenOfAClient(t *testing.T) {
	allowed := func(c *auth.Config) { c.Issuers[0].AllowedClients = []string{"desktop", "cli"} }
	check(t, allowed, claimTests{
		"an allowed one":      {claims{"client_id": "desktop"}, 200},
		"another":             {claims{"client_id": "thief"}, 401},
		"by azp":              {claims{"client_id": nil, "azp": "cli"}, 200},
		"another by azp":      {claims{"client_id": nil, "azp": "thief"}, 401},
		"they differ":         {claims{"client_id": "desktop", "azp": "thief"}, 401},
		"by Okta's name":      {claims{"client_id": nil, "cid": "cli"}, 200},
		"by Entra's name":     {claims{"client_id": nil, "appid": "thief"}, 401},
		"none":                {claims{"client_id": nil}, 401},
		"another case":        {claims{"client_id": "Desktop"}, 401},
		"a list":              {claims{"client_id": []string{"desktop"}}, 401},
		"too long to be kept": {claims{"client_id": strings.Repeat("x", 256)}, 401},
	})
	check(t, nil, claimTests{
		"any, without a list":  {claims{"client_id": "thief"}, 200},
		"none, without a list": {claims{"client_id": nil}, 200},
		"not one, though":      {claims{"client_id": "a\nb"}, 401},
	})
}

// The subject. What is strange but no control character is fine: keys are made of
// its hash.
func TestSubject(t *testing.T) {
	check(t, nil, claimTests{
		"missing":              {claims{"sub": nil}, 401},
		"empty":                {claims{"sub": ""}, 401},
		"10 kB":                {claims{"sub": strings.Repeat("x", 10_000)}, 401},
		"256 bytes":            {claims{"sub": strings.Repeat("x", 256)}, 401},
		"255 bytes":            {claims{"sub": strings.Repeat("x", 255)}, 200},
		"a number":             {claims{"sub": 7}, 401},
		"a colon and braces":   {claims{"sub": "a:b{c}*"}, 200},
		"NUL":                  {claims{"sub": "a\x00b"}, 401},
		"a newline":            {claims{"sub": "a\nb"}, 401},
		"a C1 control":         {claims{"sub": "a\u0085b"}, 401},
		"U+202E":               {claims{"sub": "a\u202eb"}, 200},
		"a replaced character": {claims{"sub": "a\ufffdb"}, 401},
	})
	user := func(c *auth.Config) { c.Issuers[0].Claims.User = "/realm/oid" }
	check(t, user, claimTests{
		"another claim":                  {claims{"realm": claims{"oid": "1"}}, 200},
		"another claim that is missing":  {claims{"realm": claims{}}, 401},
		"another claim that is bad":      {claims{"realm": claims{"oid": "\n"}}, 401},
		"sub is needed all the same":     {claims{"sub": nil, "realm": claims{"oid": "1"}}, 401},
		"a member that is not an object": {claims{"realm": "oid"}, 401},
	})
}

// An email address is a user only when the issuer has verified it, and is one.
func TestEmailOfAUser(t *testing.T) {
	email := func(c *auth.Config) { c.Issuers[0].Claims.User = "email" }
	check(t, email, claimTests{
		"verified":          {claims{"email": "a@example.com", "email_verified": true}, 200},
		"not verified":      {claims{"email": "a@example.com", "email_verified": false}, 401},
		"verified by words": {claims{"email": "a@example.com", "email_verified": "true"}, 401},
		"nothing said":      {claims{"email": "a@example.com"}, 401},
		"two @":             {claims{"email": "a@example.com@evil.example", "email_verified": true}, 401},
		"no @":              {claims{"email": "a", "email_verified": true}, 401},
	})
}

// Exp, nbf and iat, with 30 s of leeway.
func TestTimesOfTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		issuer := newIssuer(t, mcptest.IssuerOptions{URL: "https://login.example"})
		g := newBubbleGate(t, nil, issuer)
		bounded := newBubbleGate(t, func(c *auth.Config) { c.Issuers[0].MaxTokenLifetime = 24 * time.Hour }, issuer)
		now := time.Now().Unix()
		tests := []struct {
			name            string
			claims          claims
			status, bounded int
		}{
			{"a second ago", claims{"exp": now - 1}, 200, 200},
			{"29 s ago", claims{"exp": now - 29}, 200, 200},
			{"30 s ago", claims{"exp": now - 30}, 401, 401},
			{"missing", claims{"exp": nil}, 401, 401},
			{"too large", claims{"exp": 1e300}, 401, 401},
			{"negative", claims{"exp": -1}, 401, 401},
			{"a text", claims{"exp": fmt.Sprint(now + 300)}, 401, 401},
			{"true", claims{"exp": true}, 401, 401},
			{"a list", claims{"exp": []int64{now + 300}}, 401, 401},
			{"a fraction", claims{"exp": float64(now) + 0.5}, 200, 200},
			{"the year 9999", claims{"exp": int64(253402300799)}, 200, 401},
			{"the year 10000", claims{"exp": int64(253402300800)}, 401, 401},
			{"24 hours", claims{"exp": now + 24*3600}, 200, 200},
			{"more than 24 hours", claims{"exp": now + 24*3600 + 1}, 200, 401},
			{"24 hours without iat", claims{"iat": nil, "exp": now + 24*3600}, 200, 200},
			{"more than 24 hours without iat", claims{"iat": nil, "exp": now + 24*3600 + 1}, 200, 401},
			{"more than 24 hours by iat", claims{"iat": now - 24*3600, "exp": now + 60}, 200, 401},
			{"nbf now", claims{"nbf": now}, 200, 200},
			{"nbf in 30 s", claims{"nbf": now + 30}, 200, 200},
			{"nbf in 31 s", claims{"nbf": now + 31}, 401, 401},
			{"nbf in 4 min", claims{"nbf": now + 240}, 401, 401},
			{"nbf a text", claims{"nbf": "0"}, 401, 401},
			{"iat in 30 s", claims{"iat": now + 30}, 200, 200},
			{"iat in 31 s", claims{"iat": now + 31}, 401, 401},
			{"iat a text", claims{"iat": "0"}, 401, 401},
			{"no iat", claims{"iat": nil}, 200, 200},
		}
		for _, tt := range tests {
			token := issuer.Token(tt.claims)
			for gate, want := range map[*gate]int{g: tt.status, bounded: tt.bounded} {
				if a := gate.bearer(token); a.Code != want {
					t.Errorf("%s: got %d, want %d: %s", tt.name, a.Code, want, a.Body)
				}
			}
		}
		wide := newBubbleGate(t, func(c *auth.Config) { c.Leeway = new(5 * time.Minute) }, issuer)
		wide.bearer(issuer.Token(claims{"nbf": now + 300, "iat": now + 300, "exp": now + 600})).expect(t, 200)
		wide.bearer(issuer.Token(claims{"exp": now - 299})).expect(t, 200)
		wide.bearer(issuer.Token(claims{"exp": now - 300})).expect(t, 401)
		wide.bearer(issuer.Token(claims{"nbf": now + 301})).expect(t, 401)
		exact := newBubbleGate(t, func(c *auth.Config) { c.Leeway = new(time.Duration(0)) }, issuer)
		exact.bearer(issuer.Token(claims{"nbf": now, "iat": now, "exp": now + 1})).expect(t, 200)
		exact.bearer(issuer.Token(claims{"exp": now})).expect(t, 401)
		exact.bearer(issuer.Token(claims{"nbf": now + 1})).expect(t, 401)
	})
}

// A remembered token dies at exp plus leeway too, and Expires says when that is.
func TestExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		issuer := newIssuer(t, mcptest.IssuerOptions{URL: "https://login.example"})
		g := newBubbleGate(t, nil, issuer)
		exp := time.Now().Add(20 * time.Second)
		token := issuer.Token(claims{"exp": exp.Unix()})
		a := g.bearer(token)
		a.expect(t, 200)
		if want := exp.Truncate(time.Second).Add(30 * time.Second); !a.caller.Expires.Equal(want) {
			t.Errorf("the caller expires at %s, want %s", a.caller.Expires, want)
		}
		time.Sleep(time.Until(a.caller.Expires) - time.Millisecond)
		g.bearer(token).expect(t, 200)
		time.Sleep(time.Millisecond)
		g.bearer(token).expect(t, 401, invalidToken, "expired")
	})
}

// Groups in their forms.
func TestFormsOfGroups(t *testing.T) {
	issuer := newIssuer(t, mcptest.IssuerOptions{})
	g := newGate(t, nil, issuer)
	roles := newGate(t, func(c *auth.Config) { c.Issuers[0].Claims.Groups = "/realm_access/roles" }, issuer)
	many := make([]string, 501)
	for i := range many {
		many[i] = fmt.Sprint("group", i)
	}
	tests := []struct {
		name   string
		gate   *gate
		claims claims
		status int
		groups []string
		reason string
	}{
		{"two", g, claims{"groups": []string{"eng", "sre"}}, 200, []string{"eng", "sre"}, ""},
		{"a text is one", g, claims{"groups": "eng sre"}, 200, []string{"eng sre"}, ""},
		{"none", g, nil, 200, nil, ""},
		{"an object", g, claims{"groups": claims{"eng": true}}, 401, nil, ""},
		{"an empty list", g, claims{"groups": []string{}}, 200, []string{}, ""},
		{"a number among them", g, claims{"groups": []any{"eng", 1}}, 401, nil, ""},
		{"by a pointer", roles, claims{"realm_access": claims{"roles": []string{"eng"}}, "groups": []string{"no"}}, 200,
			[]string{"eng"}, ""},
		{"nothing at the pointer", roles, claims{"groups": []string{"no"}}, 200, nil, ""},
		{"500", g, claims{"groups": many[:500]}, 200, many[:500], ""},
		{"501", g, claims{"groups": many}, 403, nil, "more than 500 groups"},
		{"overage", g, claims{"_claim_names": claims{"groups": "src1"},
			"_claim_sources": claims{"src1": claims{"endpoint": issuer.URL + "/groups"}}}, 403, nil, "too many"},
		{"overage of the implicit flow", g, claims{"hasgroups": true}, 403, nil, "too many"},
		{"overage of groups where roles are used", roles,
			claims{"hasgroups": true, "_claim_names": claims{"groups": "src1"},
				"_claim_sources": claims{"src1": claims{}}}, 200, nil, ""},
		{"overage of another claim", g, claims{"_claim_names": claims{"address": "src1"},
			"_claim_sources": claims{"src1": claims{"endpoint": issuer.URL + "/groups"}}}, 200, nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := tt.gate.bearer(issuer.Token(tt.claims))
			a.expect(t, tt.status)
			if !strings.Contains(a.Body.String(), tt.reason) {
				t.Errorf("got %s, want a reason with %q", a.Body, tt.reason)
			}
			if diff := cmp.Diff(tt.groups, a.caller.Groups); diff != "" {
				t.Error(diff)
			}
			if challenge := a.Header().Get("WWW-Authenticate"); tt.status == 403 && strings.Contains(challenge, "error=") {
				t.Errorf("the challenge makes clients ask for another token, which would be no better: %s", challenge)
			}
		})
	}
	if n := issuer.Fetches("/groups"); n != 0 {
		t.Errorf("the groups were fetched %d times", n)
	}
	// A token that nobody signed is not told what its groups are good for.
	thief := mcptest.NewKey(issuer.Key().ID, "ES256", 0)
	forged := thief.Sign(nil, claims{"iss": issuer.URL, "sub": "a", "aud": publicURL, "exp": 9e9, "groups": many})
	g.bearer(forged).expect(t, 401, invalidToken)
}

// What a caller is made of.
func TestCaller(t *testing.T) {
	issuer := newIssuer(t, mcptest.IssuerOptions{})
	g := newGate(t, nil, issuer)
	a := g.bearer(issuer.Token(claims{"scope": "mcp mcp:read", "groups": "eng", "email_verified": true}))
	a.expect(t, 200)
	c := a.caller
	if c.Issuer != issuer.URL || c.Subject != "alice" || c.ClientID != "client" || c.Expires.IsZero() {
		t.Errorf("got %+v", c)
	}
	if diff := cmp.Diff([]string{"mcp", "mcp:read"}, c.Scopes); diff != "" {
		t.Error(diff)
	}
	if verified, _ := c.Claims.Member("email_verified"); !verified.IsTrue() {
		t.Errorf("the claims are %s", c.Claims)
	}
}

// A token that is bound to a key of its client is not for whoever has it: that it is
// theirs cannot be checked here.
func TestBoundToken(t *testing.T) {
	check(t, nil, claimTests{
		"DPoP":       {claims{"cnf": claims{"jkt": "x"}}, 401},
		"mutual TLS": {claims{"cnf": claims{"x5t#S256": "x"}}, 401},
		"anyhow":     {claims{"cnf": "x"}, 401},
	})
}
