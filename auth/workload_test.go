package auth_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// github are claims as GitHub Actions makes them for a job.
func github(change map[string]any) map[string]any {
	claims := map[string]any{
		"client_id": nil, "sub": "repo:acme/deploy:ref:refs/heads/main", "ref": "refs/heads/main",
		"sha":        "f1d2d2f924e986ac86fdf7b36c94bcdf32beec15",
		"repository": "acme/deploy", "repository_owner": "acme", "repository_owner_id": "65",
		"repository_visibility": "private", "actor": "octocat",
		"workflow": "nightly", "job_workflow_ref": "acme/deploy/.github/workflows/nightly.yml@refs/heads/main",
		"event_name": "schedule", "ref_type": "branch",
		"run_id": "9", "run_attempt": "1", "runner_environment": "github-hosted",
		"nbf": time.Now().Add(-10 * time.Minute).Unix(),
	}
	for name, value := range change {
		claims[name] = value
	}
	return claims
}

// TestGitHubActions: a job proves what it is with the token that GitHub makes for it, and a job of
// somebody else's repository does not.
func TestGitHubActions(t *testing.T) {
	issuer := newIssuer(t, mcptest.IssuerOptions{Alg: "RS256"})
	g := newGate(t, func(c *auth.Config) {
		c.RequiredScopes = []string{"mcp"}
		c.Issuers[0].Workloads, c.Issuers[0].Scopes = true, []string{"mcp"}
		c.Issuers[0].RequireClaims = map[string][]string{"repository_owner": {"acme", "acme-labs"},
			"ref": {"refs/heads/main"}}
		c.Issuers[0].Claims = auth.Claims{Groups: "repository"}
	}, issuer)
	sign := func(change map[string]any) string {
		return issuer.Sign(map[string]any{"typ": "JWT", "x5t": "eBZ_cn3sXYAd0ch4THBKHIgOwOE"}, github(change))
	}
	a := g.bearer(sign(nil))
	if a.Code != http.StatusOK {
		t.Fatal(a.Body)
	}
	if c := a.caller; c.Subject != "repo:acme/deploy:ref:refs/heads/main" ||
		!slices.Equal(c.Groups, []string{"acme/deploy"}) || !slices.Equal(c.Scopes, []string{"mcp"}) || c.ClientID != "" {
		t.Errorf("the caller is %+v", c)
	}
	for name, change := range map[string]map[string]any{
		"somebody else's":        {"repository_owner": "mallory", "repository": "mallory/deploy"},
		"no owner":               {"repository_owner": nil},
		"another case":           {"repository_owner": "ACME"},
		"another branch":         {"ref": "refs/heads/evil"},
		"a list with others":     {"repository_owner": []string{"mallory"}},
		"an object":              {"repository_owner": map[string]any{"acme": true}},
		"a twin in another case": {"Repository_Owner": "acme"},
		"an ID token's hash":     {"at_hash": "x"},
		"a nonce":                {"nonce": "x"},
		"GitHub's own audience":  {"aud": "https://github.com/acme"},
		"it has expired":         {"exp": time.Now().Add(-time.Hour).Unix()},
		"an event":               {"events": map[string]any{}},
	} {
		if a := g.bearer(sign(change)); a.Code != http.StatusUnauthorized ||
			!strings.Contains(a.Header().Get("Www-Authenticate"), invalidToken) {
			t.Errorf("%s: %d %s", name, a.Code, a.Body)
		}
	}
}

// TestKubernetes: a pod proves what it is with a token of its service account.
func TestKubernetes(t *testing.T) {
	issuer := newIssuer(t, mcptest.IssuerOptions{Alg: "RS256"})
	g := newGate(t, func(c *auth.Config) {
		c.Issuers[0].Workloads, c.Issuers[0].JWKSURL = true, issuer.URLOf(mcptest.EndpointJWKS)
		c.Issuers[0].RequireClaims = map[string][]string{"/kubernetes.io/namespace": {"ci"}}
		c.Issuers[0].Claims = auth.Claims{Groups: "/kubernetes.io/namespace"}
	}, issuer)
	sign := func(namespace string) string {
		return issuer.Sign(map[string]any{"typ": nil}, map[string]any{
			"client_id": nil, "sub": "system:serviceaccount:" + namespace + ":runner", "aud": []string{publicURL},
			"nbf": time.Now().Unix(),
			"kubernetes.io": map[string]any{
				"namespace": namespace, "node": map[string]any{"name": "n1", "uid": "1"},
				"pod":            map[string]any{"name": "job-1", "uid": "2"},
				"serviceaccount": map[string]any{"name": "runner", "uid": "3"}, "warnafter": time.Now().Add(time.Hour).Unix(),
			},
		})
	}
	a := g.bearer(sign("ci"))
	if a.Code != http.StatusOK {
		t.Fatal(a.Body)
	}
	if c := a.caller; c.Subject != "system:serviceaccount:ci:runner" || !slices.Equal(c.Groups, []string{"ci"}) {
		t.Errorf("the caller is %+v", c)
	}
	if a := g.bearer(sign("default")); a.Code != http.StatusUnauthorized {
		t.Errorf("of another namespace: %d %s", a.Code, a.Body)
	}
	if n := issuer.Fetches(mcptest.EndpointOpenID); n != 0 {
		t.Errorf("the metadata were fetched %d times", n)
	}
}

// TestWorkloadIssuerIsNotOffered: clients are not sent to an issuer where nobody can sign in, and a
// token that looks like an ID token stays refused elsewhere.
func TestWorkloadIssuerIsNotOffered(t *testing.T) {
	people, jobs := newIssuer(t, mcptest.IssuerOptions{}), newIssuer(t, mcptest.IssuerOptions{})
	g := newGate(t, func(c *auth.Config) {
		c.Issuers[1].Workloads, c.Issuers[1].RequireClaims = true, map[string][]string{"repository_owner": {"acme"}}
	}, people, jobs)
	w := httptest.NewRecorder()
	g.Metadata().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/.well-known/oauth-protected-resource", nil))
	if got := w.Body.String(); !strings.Contains(got, people.URL) || strings.Contains(got, jobs.URL) {
		t.Errorf("metadata %s", got)
	}
	g.bearer(jobs.Sign(map[string]any{"typ": "JWT"}, github(nil))).expect(t, 200)
	g.bearer(people.Sign(map[string]any{"typ": "JWT"}, github(nil))).expect(t, 401, "looks like an ID token")
	alone := newGate(t, func(c *auth.Config) {
		c.Issuers[0].Workloads, c.Issuers[0].RequireClaims = true, map[string][]string{"repository_owner": {"acme"}}
	}, jobs)
	if a := alone.call(); len(alone.MetadataPaths()) != 0 ||
		strings.Contains(a.Header().Get("Www-Authenticate"), "resource_metadata") {
		t.Errorf("%v, %v", alone.MetadataPaths(), a.Header())
	}
	for name, change := range map[string]func(*auth.Issuer){
		"whoever it makes tokens for": func(i *auth.Issuer) { i.RequireClaims = nil },
		"no values":                   func(i *auth.Issuer) { i.RequireClaims = map[string][]string{"repository": {}} },
		"a bad pointer":               func(i *auth.Issuer) { i.RequireClaims = map[string][]string{"/a~b": {"x"}} },
		"two scopes in one":           func(i *auth.Issuer) { i.Scopes = []string{"a b"} },
	} {
		iss := auth.Issuer{URL: "https://jobs.example", Workloads: true, RequireClaims: map[string][]string{"a": {"b"}}}
		change(&iss)
		if err := (auth.Config{Mode: auth.ModeOAuth, Issuers: []auth.Issuer{iss}}).Validate(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestRequireClaims: any issuer's tokens can be held to claims, whatever their type is.
func TestRequireClaims(t *testing.T) {
	issuer := newIssuer(t, mcptest.IssuerOptions{})
	g := newGate(t, func(c *auth.Config) {
		c.Issuers[0].RequireClaims = map[string][]string{"level": {"3", "true"}, "tenant": {"acme"}}
	}, issuer)
	for _, tt := range []struct {
		level, tenant any
		status        int
	}{{3, "acme", 200}, {true, "acme", 200}, {"3", []string{"x", "acme"}, 200}, {4, "acme", 401}, {3, nil, 401},
		{nil, "acme", 401}, {3, []string{}, 401}} {
		if a := g.bearer(issuer.Token(map[string]any{"level": tt.level, "tenant": tt.tenant})); a.Code != tt.status {
			t.Errorf("%v, %v: %d %s", tt.level, tt.tenant, a.Code, a.Body)
		}
	}
}
