package auth_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/auth/apikey"
	"github.com/gatehouse-mcp/gatehouse/auth/clientele"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// TestExamine: whoever asks about a token learns at which step it is refused, why, and what to do.
func TestExamine(t *testing.T) {
	issuer, other := newIssuer(t, mcptest.IssuerOptions{}), newIssuer(t, mcptest.IssuerOptions{})
	key, entry := newAPIKey(func(e *apikey.Entry) { e.Scopes = []string{"mcp"} })
	old, expired := newAPIKey(func(e *apikey.Entry) { e.Expires = "2020-01-01T00:00:00Z" })
	view, ofView := newAPIKey(func(e *apikey.Entry) { e.Scopes, e.Views = []string{"mcp"}, []string{"sales"} })
	g := startGate(t, auth.Deps{Views: map[string]string{"sales": publicURL + "/sales"}}, func(c *auth.Config) {
		c.RequiredScopes = []string{"mcp"}
		c.Issuers[0].RequireClaims = map[string][]string{"tenant": {"acme"}}
		c.Keys.Entries = []apikey.Entry{entry, expired, ofView}
	}, issuer)
	sign := func(change map[string]any) string {
		claims := map[string]any{"scope": "mcp", "tenant": "acme"}
		for name, value := range change {
			claims[name] = value
		}
		return issuer.Token(claims)
	}
	good := sign(nil)
	for name, tt := range map[string]struct {
		token  string
		step   auth.Step // that fails, "" for none
		detail string
	}{
		"good":           {good, "", ""},
		"a key":          {key, "", ""},
		"nothing":        {"", auth.StepForm, ""},
		"a text":         {"hello", auth.StepForm, ""},
		"half of it":     {good[:len(good)/2], auth.StepForm, ""},
		"another issuer": {other.Token(nil), auth.StepIssuer, other.URL},
		"an ID token":    {issuer.Sign(map[string]any{"typ": "JWT"}, map[string]any{"nonce": "x"}), auth.StepType, ""},
		"another audience": {sign(map[string]any{"aud": "https://other.example"}), auth.StepAudience,
			"https://other.example"},
		"expired":         {sign(map[string]any{"exp": time.Now().Add(-time.Hour).Unix()}), auth.StepTimes, ""},
		"nobody":          {sign(map[string]any{"sub": nil}), auth.StepUser, ""},
		"another tenant":  {sign(map[string]any{"tenant": "evil"}), auth.StepClaims, "evil"},
		"bound":           {sign(map[string]any{"cnf": map[string]any{"jkt": "x"}}), auth.StepBinding, ""},
		"changed":         {good[:len(good)-8] + "AAAAAAAA", auth.StepSignature, ""},
		"no scope":        {sign(map[string]any{"scope": "x"}), auth.StepScopes, ""},
		"for a view":      {sign(map[string]any{"aud": publicURL + "/sales"}), auth.StepEndpoint, "/sales"},
		"an old key":      {old, auth.StepTimes, ""},
		"half a key":      {key[:30], auth.StepForm, ""},
		"a key of a view": {view, auth.StepEndpoint, ""},
	} {
		e, caller := auth.Examine(t.Context(), g.Auth, tt.token, "")
		failed := auth.Step("")
		for i, s := range e.Steps {
			if s.Result == auth.StepFailed {
				failed = s.Step
			}
			if want := auth.StepGood; failed == "" && s.Result != want ||
				failed != "" && s.Step != failed && s.Result != auth.StepSkipped {
				t.Errorf("%s: step %d is %+v", name, i, s)
			}
		}
		if e.Good != (tt.step == "") || failed != tt.step || !strings.Contains(e.Detail, tt.detail) || e.Next == "" ||
			!e.Good && (e.Reason == "" && tt.token != "") {
			t.Errorf("%s: failed at %q: %+v", name, failed, e)
		}
		if e.Good != (e.Caller != nil && caller.Subject != "") {
			t.Errorf("%s: %+v", name, caller)
		}
		text, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range strings.Split(tt.token, ".") {
			if len(part) > 12 && strings.Contains(string(text), part) {
				t.Errorf("%s: the answer tells the token: %s", name, text)
			}
		}
	}
	e, _ := auth.Examine(t.Context(), g.Auth, sign(map[string]any{"exp": time.Now().Add(-time.Hour).Unix()}), "")
	text, _ := json.Marshal(e.Says)
	if !strings.Contains(string(text), "1h0m") ||
		!strings.Contains(string(text), " ago by the clock of the machine that looks at it") {
		t.Errorf("an expired one: %s", text)
	}
	if e, _ := auth.Examine(t.Context(), g.Auth, view, "sales"); !e.Good {
		t.Errorf("at its view: %+v", e)
	}
}

// TestExamineOwnToken: where no gateway runs, nobody says that its own server is not accepted.
func TestExamineOwnToken(t *testing.T) {
	issuer, own := newIssuer(t, mcptest.IssuerOptions{}), newIssuer(t, mcptest.IssuerOptions{})
	g := newGate(t, func(c *auth.Config) {
		c.Server = auth.ServerConfig{Enabled: true, Issuer: own.URL, ClientID: "gatehouse",
			Clients: []clientele.Fixed{{ID: "app", Name: "App", RedirectURIs: []string{"https://app.example/back"}}}}
	}, issuer)
	e, _ := auth.Examine(t.Context(), g.Auth, own.Token(nil), "")
	if e.Good || !strings.Contains(e.Reason, "the gateway's own authorization server") ||
		!strings.Contains(e.Next, "the gateway that runs") {
		t.Errorf("%+v", e)
	}
}

// TestExamineBound: of a bound token without a proof everything else was looked at.
func TestExamineBound(t *testing.T) {
	issuer := newIssuer(t, mcptest.IssuerOptions{})
	g := startGate(t, auth.Deps{Views: map[string]string{"sales": publicURL + "/sales"}},
		withDPoP(auth.DPoPAccepted), issuer)
	bound := func(aud string) string {
		return issuer.Token(map[string]any{"aud": aud, "cnf": newHolder("ES256").cnf(t)})
	}
	e, _ := auth.Examine(t.Context(), g.Auth, bound(publicURL), "")
	at := slices.Index(e.Steps, auth.Examined{Step: auth.StepProof, Result: auth.StepFailed})
	if at < 0 || at != len(e.Steps)-1 || e.Steps[at-1] != (auth.Examined{Step: auth.StepEndpoint,
		Result: auth.StepGood}) || !strings.Contains(e.Next, "Nothing else is wrong") {
		t.Errorf("%+v", e)
	}
	e, _ = auth.Examine(t.Context(), g.Auth, bound(publicURL+"/sales"), "")
	if !slices.Contains(e.Steps, auth.Examined{Step: auth.StepEndpoint, Result: auth.StepFailed}) {
		t.Errorf("of another endpoint: %+v", e)
	}
}

// TestExamineOpaque: what the issuer said a moment ago does not count. If it cannot be asked, that is the
// step that fails.
func TestExamineOpaque(t *testing.T) {
	issuer := newIssuer(t, mcptest.IssuerOptions{})
	g := newGate(t, asks(issuer), issuer)
	again := "never-issued"
	for range 25 {
		if e, _ := auth.Examine(t.Context(), g.Auth, again, ""); e.Reason != "the token is not active" {
			t.Fatalf("%+v", e)
		}
	}
	if asked := len(issuer.Introspected()); asked != 25 {
		t.Errorf("of 25 the issuer was asked %d times", asked)
	}
	issuer.Close()
	e, _ := auth.Examine(t.Context(), g.Auth, again, "")
	if e.Status != 503 || !slices.Contains(e.Steps, auth.Examined{Step: auth.StepIssuer, Result: auth.StepFailed}) {
		t.Errorf("%+v", e)
	}
}

// TestEveryReasonHasARemedy: no token is refused for a reason that nobody can do anything about.
func TestEveryReasonHasARemedy(t *testing.T) {
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, f := range files {
		// ID tokens are not clients'
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") || f.Name() == "provider.go" {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), f.Name(), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) == 0 {
				return true
			}
			name, ok := call.Fun.(*ast.Ident)
			if !ok || name.Name != "badToken" && name.Name != "unfit" && name.Name != "noJudgement" && name.Name != "badProof" {
				return true
			}
			if lit, ok := call.Args[0].(*ast.BasicLit); ok {
				found++
				if text, err := strconv.Unquote(lit.Value); err != nil || auth.Remedy(text) == "" {
					t.Errorf("%s: no remedy for %s", f.Name(), lit.Value)
				}
			}
			return true
		})
	}
	if found < 30 {
		t.Errorf("only %d reasons were found", found)
	}
	for _, err := range []error{apikey.ErrUnknown, apikey.ErrRevoked, apikey.ErrExpired} {
		if auth.Remedy(err.Error()) == "" {
			t.Errorf("no remedy for %v", err)
		}
	}
}

// TestExamineCountsNothing: a token that is examined has not come. Nobody hears of it, no metric counts
// it, and when the client comes with it, that is told as its first use.
func TestExamineCountsNothing(t *testing.T) {
	var judged []auth.Judgement
	issuer := newIssuer(t, mcptest.IssuerOptions{})
	key, entry := newAPIKey(nil)
	metrics := prometheus.NewRegistry()
	g := startGate(t, auth.Deps{Judged: func(j auth.Judgement) { judged = append(judged, j) },
		Metrics: auth.NewMetrics(metrics)}, func(c *auth.Config) {
		asks(issuer)(c)
		c.Keys.Entries = []apikey.Entry{entry}
	}, issuer)
	good := []string{key, issuer.Token(nil), issuer.Opaque(nil)}
	for range 2 {
		for _, token := range good {
			if e, _ := auth.Examine(t.Context(), g.Auth, token, ""); !e.Good {
				t.Fatalf("%+v", e)
			}
		}
	}
	for i := range 25 { // more than make an address suspect: examinations do not shut each other out
		if e, _ := auth.Examine(t.Context(), g.Auth, "never-issued-"+strconv.Itoa(i),
			""); e.Reason != "the token is not active" {
			t.Fatalf("%+v", e)
		}
	}
	families, err := metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.Metric {
			if m.GetCounter().GetValue() > 0 {
				t.Errorf("%s counts: %v", f.GetName(), m)
			}
		}
	}
	if len(judged) > 0 {
		t.Errorf("told: %+v", judged)
	}
	for _, token := range good {
		g.bearer(token).expect(t, 200)
	}
	if len(judged) != len(good) {
		t.Errorf("of %d first uses %d were told: %+v", len(good), len(judged), judged)
	}
	issuer.Revoke(good[2])
	if e, _ := auth.Examine(t.Context(), g.Auth, good[2], ""); e.Good {
		t.Error("what was found out before is told as if it held now")
	}
}

// TestExaminePasted: people copy tokens with what stands around them.
func TestExaminePasted(t *testing.T) {
	issuer := newIssuer(t, mcptest.IssuerOptions{})
	g := newGate(t, nil, issuer)
	token := issuer.Token(nil)
	for text, good := range map[string]bool{
		token: true, " " + token + "\r\n": true, "Bearer " + token: true, "bearer  " + token: true,
		"Authorization: Bearer " + token: true, "authorization:DPoP " + token: true,
		"Bearer": false, "Basic " + token: false, token + " " + token: false,
	} {
		if e, _ := auth.Examine(t.Context(), g.Auth, text, ""); e.Good != good {
			t.Errorf("%.30q: %+v", text, e)
		}
	}
}
