package gateway

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/auth/apikey"
	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// TestFailedSignIns: operators see which client was refused, why and what to do, and no part of a token.
func TestFailedSignIns(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	site := newSite(t, true, one("work", saying("x")))
	c, issuer := withIssuer(t)
	c.write(t, operatorsConfig+fmt.Sprintf("upstreams: [{name: up, url: %q}]\npublic_url: %q\npolicy: {default: allow}\nauth: {mode: oauth, issuers: [{url: %q}]}\n", site.url, issuer.Audience, issuer.URL))
	c.run(t)
	expired := issuer.Token(map[string]any{"exp": time.Now().Add(-time.Hour).Unix(),
		"iat": time.Now().Add(-2 * time.Hour).Unix()})
	elsewhere := issuer.Token(map[string]any{"aud": "https://other.example.com"})
	for _, one := range []struct{ agent, token string }{
		{"claude-code/2.0", expired}, {"claude-code/2.1", expired}, {"cursor/1", elsewhere}, {expired, expired},
	} {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL(), strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+one.token)
		r.Header.Set("User-Agent", one.agent)
		r.Close = true
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusUnauthorized {
			t.Fatalf("%s: %d", one.agent, answer.StatusCode)
		}
	}
	const signins = "/api/v1/signins"
	status, text := operatorsOf(t, c).ask(t, viewerToken, http.MethodGet, signins, signins, "")
	var got admin.SignIns
	if status != http.StatusOK || json.Unmarshal([]byte(text), &got) != nil || len(got.Failures) != 3 ||
		len(got.Last) != 4 {
		t.Fatalf("%d %s", status, text)
	}
	for i, want := range []admin.SignInFailure{
		{Reason: "the token has expired", Count: 1}, {Agent: "cursor", Reason: "the token is for another audience", Count: 1},
		{Agent: "claude-code", Reason: "the token has expired", Count: 2},
	} {
		f := got.Failures[i]
		if f.Agent != want.Agent || f.Reason != want.Reason || f.Count != want.Count || f.Remedy == "" ||
			f.Event != "refused" || time.Since(f.Last) > patience {
			t.Errorf("%+v, want %+v", f, want)
		}
	}
	for _, token := range []string{expired, elsewhere} {
		for part := range strings.SplitSeq(token, ".") {
			if strings.Contains(text, part[:min(len(part), 30)]) {
				t.Errorf("a part of a token is in %s", text)
			}
		}
	}
}

// ownTokens returns a file with a key of auth.server, and what signs with it.
func ownTokens(t *testing.T) (file string, sign func(claims map[string]any) string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	key := jose.JSONWebKey{Key: private}
	thumb, err := key.Thumbprint(crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	key.KeyID = base64.RawURLEncoding.EncodeToString(thumb[:12]) // as in the key set
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key},
		(&jose.SignerOptions{}).WithType("at+jwt"))
	if err != nil {
		t.Fatal(err)
	}
	return file, func(claims map[string]any) string {
		t.Helper()
		text, err := json.Marshal(claims)
		if err != nil {
			t.Fatal(err)
		}
		signed, err := signer.Sign(text)
		if err != nil {
			t.Fatal(err)
		}
		token, err := signed.CompactSerialize()
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
}

// TestTestedTokens: an operator who pastes a token learns what the gateway that runs thinks of it. The
// token is nowhere afterwards, and nobody is told of a sign-in.
func TestTestedTokens(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	site := newSite(t, true, one("work", saying("x")))
	c, issuer := withIssuer(t)
	other := mcptest.NewIssuer(mcptest.IssuerOptions{})
	defer other.Close()
	base := strings.TrimSuffix(issuer.Audience, "/mcp")
	signing, sign := ownTokens(t)
	key, id := apikey.New()
	records := filepath.Join(t.TempDir(), "audit.jsonl")
	c.write(t, operatorsConfig+fmt.Sprintf(`upstreams: [{name: up, url: %q}]
public_url: %q
policy: {default: deny, rules: [{name: staff, who: {groups: [staff]}, allow: ["tools:up/*"]}, {name: others, who: {groups: [others]}, allow: ["tools:up/*"]}]}
views: [{name: small, show: ["tools:up/*"]}, {name: closed, who: {groups: [nobody]}, show: ["tools:up/*"]}]
auth:
  mode: oauth
  dpop: accepted
  issuers: [{url: %q}]
  keys: {entries: [{id: %s, hash: %q, user: ci-bot, groups: [others]}]}
  server: {enabled: true, client_id: gatehouse, signing_key: "${file:%s}", clients: [{id: web, name: Web, redirect_uris: ["https://app.example/cb"]}]}
audit: {sinks: [{type: file, path: %q}]}
`, site.url, issuer.Audience, issuer.URL, id, apikey.Hash(key), signing, records))
	c.level = slog.LevelDebug
	c.run(t)
	// A token of the gateway's own is good while what its user gave the client is there.
	issuer.LetSignIn(nil)
	app := &mcptest.OAuthApp{Endpoint: issuer.Audience, ID: "web", Redirect: "https://app.example/cb"}
	given := app.SignIn(ctx, t, mcptest.NewTab(t, "ann"), func(*mcptest.Page) string { return "allow" })
	claims, err := base64.RawURLEncoding.DecodeString(strings.Split(given.Access, ".")[1])
	if err != nil {
		t.Fatal(err)
	}
	grant, _ := mcp.Raw(claims).Member(auth.ClaimGrant)
	soon, old := time.Now().Add(time.Hour).Unix(), time.Now().Add(-time.Hour).Unix()
	own := func(change map[string]any) string {
		claims := map[string]any{
			"iss": base + "/mcp", "aud": issuer.Audience, "sub": "ann", "groups": []string{"staff"}, "client_id": "web",
			"scope": "mcp", "iat": old, "exp": soon,
			auth.ClaimProvider: issuer.URL, auth.ClaimGrant: grant.Text(),
		}
		for name, value := range change {
			claims[name] = value
		}
		return sign(claims)
	}
	good := issuer.Token(map[string]any{"sub": "ann", "groups": []string{"staff"}})
	ours := own(nil)
	changed := ours[:len(ours)-12] + "AAAAAAAAAAAA"
	const api = "/api/v1/auth/test"
	o := operatorsOf(t, c)
	recorded := func() string {
		_, kept := o.ask(t, auditorToken, http.MethodGet, "/api/v1/decisions",
			"/api/v1/decisions?kind=signin,admin&limit=1000", "")
		return kept
	}
	before := strings.Count(recorded(), `"kind":"signin"`)
	var said strings.Builder
	test := func(as, token, view string) (e admin.Examined, status int, answer string) {
		t.Helper()
		body, _ := json.Marshal(admin.PastedToken{Text: token, View: view})
		status, answer = o.ask(t, as, http.MethodPost, api, api, string(body))
		said.WriteString(answer)
		if status == http.StatusOK && json.Unmarshal([]byte(answer), &e) != nil {
			t.Fatal(answer)
		}
		return e, status, answer
	}
	for name, tt := range map[string]struct {
		token, view string
		step        auth.Step // that fails, "" for none
		rules       string
		next        string
	}{
		"of the issuer":     {good, "", "", "staff", "Nothing"},
		"as it was copied":  {" authorization: Bearer " + good + "\r\n", "", "", "staff", "Nothing"},
		"of auth.server":    {ours, "", "", "staff", "Nothing"},
		"at a view":         {ours, "small", "", "staff", "Nothing"},
		"a key":             {key, "", "", "others", "Nothing"},
		"at another's view": {good, "closed", auth.StepEndpoint, "", "who of the view"},
		"another key":       {key[:len(key)-2] + "zz", "", auth.StepForm, "", "whole key"},
		"another issuer":    {other.Token(nil), "", auth.StepIssuer, "", "auth.issuers[].url"},
		"another audience": {issuer.Token(map[string]any{"aud": "https://other.example.com"}), "", auth.StepAudience,
			"", "audience"},
		"own, another place": {own(map[string]any{"aud": "https://other.example.com"}), "", auth.StepAudience, "",
			"Sign in again"},
		"own, ended":   {own(map[string]any{auth.ClaimGrant: "none"}), "", auth.StepRevoked, "", "Sign in again"},
		"expired":      {issuer.Token(map[string]any{"exp": old}), "", auth.StepTimes, "", "Sign in again"},
		"own, expired": {own(map[string]any{"iat": old - 7200, "exp": old}), "", auth.StepTimes, "", "Sign in again"},
		"own, changed": {changed, "", auth.StepSignature, "", "whole token"},
		"bound to a key": {own(map[string]any{"cnf": map[string]any{"jkt": "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs"}}),
			"", auth.StepProof, "", "Nothing else is wrong"},
		"no token": {"hello world", "", auth.StepForm, "", "whole token"},
	} {
		e, status, answer := test(operatorToken, tt.token, tt.view)
		failed := auth.Step("")
		for _, s := range e.Steps {
			if s.Result == auth.StepFailed {
				failed = s.Step
			}
		}
		if status != http.StatusOK || e.Good != (tt.step == "") || failed != tt.step ||
			strings.Join(e.Rules, " ") != tt.rules || !strings.Contains(e.Next, tt.next) || e.Good != (e.Caller != nil) ||
			e.Good != (e.Endings != "") && name != "a key" {
			t.Errorf("%s: %d, failed at %q: %s", name, status, failed, answer)
		}
	}
	if e, _, _ := test(operatorToken, ours, ""); e.Caller == nil || e.Caller.User != "ann" ||
		e.Caller.Issuer != issuer.URL || e.Caller.Client != "web" || !strings.Contains(e.Kind, "own authorization server") {
		t.Errorf("who it is: %+v", e)
	}
	for name, tt := range map[string]struct {
		as, token, view string
		status          int
		says            string
	}{
		"no such view": {operatorToken, good, "none", http.StatusBadRequest, "no view of this name: leave it out"},
		"nothing":      {operatorToken, " ", "", http.StatusBadRequest, "token: is needed"},
		"too long":     {operatorToken, strings.Repeat("x", 80<<10), "", http.StatusBadRequest, "too large"},
		"a viewer":     {viewerToken, good, "", http.StatusForbidden, "GH-ADMIN-ROLE"},
		"an auditor":   {auditorToken, good, "", http.StatusForbidden, "GH-ADMIN-ROLE"},
		"a caller":     {good, good, "", http.StatusUnauthorized, "GH-ADMIN-TOKEN-INVALID"},
	} {
		if _, status, answer := test(tt.as, tt.token, tt.view); status != tt.status || !strings.Contains(answer, tt.says) {
			t.Errorf("%s: %d %s", name, status, answer)
		}
	}

	// No other sign-in was recorded: what operators did was.
	var signIns admin.SignIns
	if _, answer := o.ask(t, viewerToken, http.MethodGet, "/api/v1/signins", "/api/v1/signins",
		""); json.Unmarshal([]byte(answer), &signIns) != nil || len(signIns.Failures) > 0 {
		t.Errorf("told as sign-ins that failed: %s", answer)
	}
	kept := recorded()
	if strings.Count(kept, `"kind":"signin"`) != before || strings.Count(kept, `"event":"token tested"`) != 17 ||
		strings.Count(kept, `"view":"small"`) != 1 {
		t.Errorf("recorded: %s", kept)
	}
	// The token is nowhere.
	if err := c.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(records)
	if err != nil || len(written) == 0 {
		t.Fatalf("%d bytes of records, %v", len(written), err)
	}
	for where, text := range map[string]string{"the records": string(written), "the records that are kept": kept,
		"the log": c.log.String(), "an answer": said.String()} {
		for _, token := range []string{good, changed, key, ours} {
			for part := range strings.SplitSeq(token, ".") {
				if strings.Contains(text, part[:min(len(part), 30)]) {
					t.Errorf("%s has a part of a token", where)
				}
			}
		}
	}
}
