package auth_test

import (
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/auth/apikey"
	"github.com/gatehouse-mcp/gatehouse/internal/expiring"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// holder is a client with a key that its tokens are bound to.
type holder struct {
	key *mcptest.Key
	jwk jose.JSONWebKey
}

func newHolder(alg string) holder {
	k := mcptest.NewKey("", alg, 0)
	return holder{k, jose.JSONWebKey{Key: k.Public()}}
}

func (h holder) cnf(t testing.TB) map[string]any {
	t.Helper()
	sum, err := h.jwk.Thumbprint(crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]any{"jkt": base64.RawURLEncoding.EncodeToString(sum)}
}

func tokenHash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// prove makes a proof for a POST to the endpoint; header and claims override its own, and nil takes
// one away.
func (h holder) prove(token string, header, claims map[string]any) string {
	head := map[string]any{"typ": "dpop+jwt", "kid": nil, "jwk": h.jwk}
	said := map[string]any{"jti": rand.Text(), "htm": "POST", "htu": publicURL, "iat": time.Now().Unix(),
		"ath": tokenHash(token)}
	maps.Copy(head, header)
	maps.Copy(said, claims)
	return h.key.Sign(without(head), without(said))
}

func without(m map[string]any) map[string]any {
	maps.DeleteFunc(m, func(name string, value any) bool { return value == nil && name != "kid" })
	return m
}

// show sends a token with proofs.
func (g *gate) show(authorization string, proofs ...string) answer {
	r := httptest.NewRequest(http.MethodPost, publicURL, untouchable{})
	r.Header.Set("Authorization", authorization)
	for _, proof := range proofs {
		r.Header.Add("DPoP", proof)
	}
	return g.do(r)
}

func withDPoP(mode string) func(*auth.Config) {
	return func(c *auth.Config) { c.DPoP = mode }
}

// refused checks that a request was refused with a code in the challenge of the scheme DPoP.
func (a answer) refused(t testing.TB, what, code string) {
	t.Helper()
	challenges := strings.Join(a.Header()["Www-Authenticate"], "\n")
	if a.Code != http.StatusUnauthorized || a.passed != nil || !strings.Contains(challenges, `error="`+code+`"`) ||
		!strings.Contains(challenges, `DPoP `) || !strings.Contains(challenges, `algs="RS256 `) {
		t.Errorf("%s: got %d, %s, %s", what, a.Code, challenges, a.Body)
	}
}

// TestDPoP: a token that is bound to a key is good with a proof of the key, again and again, with
// each algorithm; what gets past the gate has neither.
func TestDPoP(t *testing.T) {
	issuer := newIssuer(t, mcptest.IssuerOptions{})
	g := newGate(t, withDPoP(auth.DPoPAccepted), issuer)
	for _, alg := range []string{"ES256", "ES384", "ES512", "RS256", "PS256", "EdDSA"} {
		h := newHolder(alg)
		token := issuer.Token(map[string]any{"cnf": h.cnf(t)})
		for range 2 {
			a := g.show("DPoP "+token, h.prove(token, nil, nil))
			if a.Code != http.StatusOK || a.caller.Subject != "alice" {
				t.Fatalf("%s: %d %s %s", alg, a.Code, a.Header(), a.Body)
			}
			if a.passed.Header.Get("DPoP") != "" || a.passed.Header.Get("Authorization") != "" {
				t.Errorf("%s: the proof gets past the gate", alg)
			}
		}
	}
	g.bearer(issuer.Token(nil))
	if a := g.bearer(issuer.Token(nil)); a.Code != http.StatusOK {
		t.Errorf("a token that is bound to no key: %s", a.Body)
	}
	w := httptest.NewRecorder()
	g.Metadata().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/.well-known/oauth-protected-resource", nil))
	if got := w.Body.String(); !strings.Contains(got, `"dpop_signing_alg_values_supported":["RS256",`) ||
		strings.Contains(got, "dpop_bound_access_tokens_required") {
		t.Errorf("metadata %s", got)
	}
	a := g.call()
	if lines := a.Header()["Www-Authenticate"]; len(lines) != 2 || !strings.HasPrefix(lines[0], "Bearer ") ||
		!strings.HasPrefix(lines[1], "DPoP algs=") || strings.Contains(lines[1], "error") {
		t.Errorf("challenges %q", lines)
	}
}

// TestDPoPStolenToken: a bound token without a proof, or with a proof of another key, is worth
// nothing, even a moment after it was used rightly.
func TestDPoPStolenToken(t *testing.T) {
	issuer := newIssuer(t, mcptest.IssuerOptions{})
	g := newGate(t, withDPoP(auth.DPoPAccepted), issuer)
	h, thief := newHolder("ES256"), newHolder("ES256")
	token := issuer.Token(map[string]any{"cnf": h.cnf(t)})
	if a := g.show("DPoP "+token, h.prove(token, nil, nil)); a.Code != http.StatusOK {
		t.Fatal(a.Body)
	}
	g.show("Bearer "+token).refused(t, "as a bearer token", "invalid_token")
	g.show("Bearer "+token, h.prove(token, nil, nil)).refused(t, "as a bearer token with a proof", "invalid_token")
	g.show("DPoP "+token).refused(t, "without a proof", "invalid_dpop_proof")
	g.show("DPoP "+token, thief.prove(token, nil, nil)).refused(t, "with another key", "invalid_dpop_proof")
	g.show("DPoP "+token, thief.prove(token, map[string]any{"jwk": h.jwk}, nil)).refused(t,
		"with the key in front of another signature", "invalid_dpop_proof")
	g.show("DPoP "+token, h.prove(token, nil, nil), h.prove(token, nil, nil)).refused(t, "with two proofs",
		"invalid_dpop_proof")
	other := issuer.Token(map[string]any{"cnf": h.cnf(t), "sub": "bob"})
	g.show("DPoP "+token, h.prove(other, nil, nil)).refused(t, "with a proof for another token", "invalid_dpop_proof")
	plain := issuer.Token(nil)
	g.show("DPoP "+plain, h.prove(plain, nil, nil)).refused(t, "a token that is bound to no key", "invalid_token")
	if who, err := g.IdentifyToken(httptest.NewRequest(http.MethodPost, publicURL, nil), token); err == nil {
		t.Errorf("the stolen token identifies %+v", who)
	}
	approve := httptest.NewRequest(http.MethodPost, publicURL, nil)
	approve.Header.Set("Authorization", "DPoP "+token)
	approve.Header.Set("DPoP", h.prove(token, nil, nil))
	if who, err := g.Identify(approve); err == nil {
		t.Errorf("beside the endpoint, the token identifies %+v", who)
	}
}

// TestDPoPReplay: a proof is good once, at all replicas together, also for a request that differs.
func TestDPoPReplay(t *testing.T) {
	issuer := newIssuer(t, mcptest.IssuerOptions{})
	used := expiring.New(expiring.Base{}, nil, "dpop", 100)
	one := startGate(t, auth.Deps{Proofs: used}, withDPoP(auth.DPoPAccepted), issuer)
	two := startGate(t, auth.Deps{Proofs: used}, withDPoP(auth.DPoPAccepted), issuer)
	h := newHolder("ES256")
	token := issuer.Token(map[string]any{"cnf": h.cnf(t)})
	shown := h.prove(token, nil, map[string]any{"jti": "once"})
	if a := one.show("DPoP "+token, shown); a.Code != http.StatusOK {
		t.Fatal(a.Body)
	}
	one.show("DPoP "+token, shown).refused(t, "again", "invalid_dpop_proof")
	two.show("DPoP "+token, shown).refused(t, "at another replica", "invalid_dpop_proof")
	two.show("DPoP "+token, h.prove(token, nil, map[string]any{"jti": "once"})).refused(t, "another proof with its jti",
		"invalid_dpop_proof")
	other := newHolder("ES256")
	theirs := issuer.Token(map[string]any{"cnf": other.cnf(t)})
	if a := two.show("DPoP "+theirs, other.prove(theirs, nil, map[string]any{"jti": "once"})); a.Code != http.StatusOK {
		t.Errorf("the same jti of another client: %s", a.Body)
	}
}

// TestDPoPShares: proofs of one user, however many, do not make those of another good again.
func TestDPoPShares(t *testing.T) {
	issuer := newIssuer(t, mcptest.IssuerOptions{})
	g := startGate(t, auth.Deps{Proofs: expiring.New(expiring.Base{}, nil, "dpop", 100)}, withDPoP(auth.DPoPAccepted), issuer)
	h := newHolder("ES256")
	alices := issuer.Token(map[string]any{"sub": "alice", "cnf": h.cnf(t)})
	bobs := issuer.Token(map[string]any{"sub": "bob", "cnf": h.cnf(t)})
	shown := h.prove(alices, nil, nil)
	if a := g.show("DPoP "+alices, shown); a.Code != http.StatusOK {
		t.Fatal(a.Body)
	}
	for range 150 {
		if a := g.show("DPoP "+bobs, h.prove(bobs, nil, nil)); a.Code != http.StatusOK {
			t.Fatal(a.Body)
		}
	}
	g.show("DPoP "+alices, shown).refused(t, "again", "invalid_dpop_proof")
}

// TestDPoPProof: what a proof has to say.
func TestDPoPProof(t *testing.T) {
	issuer := newIssuer(t, mcptest.IssuerOptions{})
	g := newGate(t, withDPoP(auth.DPoPAccepted), issuer)
	h := newHolder("ES256")
	token := issuer.Token(map[string]any{"cnf": h.cnf(t)})
	private := map[string]any{}
	text, err := json.Marshal(h.jwk)
	if err != nil || json.Unmarshal(text, &private) != nil {
		t.Fatal(err)
	}
	private["d"] = "AAAA"
	now := time.Now()
	type m = map[string]any
	for name, tt := range map[string]struct {
		header, claims m
		good           bool
	}{
		"good":                     {nil, nil, true},
		"a query and a fragment":   {nil, m{"htu": publicURL + "?x=1#y"}, true},
		"capitals and a port":      {nil, m{"htu": "HTTPS://Gateway.Example:443/mcp"}, true},
		"40 s old":                 {nil, m{"iat": now.Add(-40 * time.Second).Unix()}, true},
		"20 s early":               {nil, m{"iat": now.Add(20 * time.Second).Unix()}, true},
		"the full typ":             {m{"typ": "application/dpop+jwt"}, nil, true},
		"too old":                  {nil, m{"iat": now.Add(-2 * time.Minute).Unix()}, false},
		"too early":                {nil, m{"iat": now.Add(2 * time.Minute).Unix()}, false},
		"no time":                  {nil, m{"iat": nil}, false},
		"another method":           {nil, m{"htm": "GET"}, false},
		"the method in lower case": {nil, m{"htm": "post"}, false},
		"another path":             {nil, m{"htu": publicURL + "/sales"}, false},
		"a slash more":             {nil, m{"htu": publicURL + "/"}, false},
		"another host":             {nil, m{"htu": "https://evil.example/mcp"}, false},
		"another port":             {nil, m{"htu": "https://gateway.example:8443/mcp"}, false},
		"plain http":               {nil, m{"htu": "http://gateway.example/mcp"}, false},
		"a user":                   {nil, m{"htu": "https://gateway.example@evil.example/mcp"}, false},
		"no URL":                   {nil, m{"htu": nil}, false},
		"no method":                {nil, m{"htm": nil}, false},
		"no id":                    {nil, m{"jti": nil}, false},
		"an id that is too long":   {nil, m{"jti": strings.Repeat("x", 257)}, false},
		"no hash of the token":     {nil, m{"ath": nil}, false},
		"another typ":              {m{"typ": "JWT"}, nil, false},
		"no typ":                   {m{"typ": nil}, nil, false},
		"no key":                   {m{"jwk": nil}, nil, false},
		"a private key":            {m{"jwk": private}, nil, false},
		"a secret key":             {m{"jwk": m{"kty": "oct", "k": "AAAA"}, "alg": "HS256"}, nil, false},
		"no algorithm":             {m{"alg": "none"}, nil, false},
		"another algorithm":        {m{"alg": "ES384"}, nil, false},
		"a critical parameter":     {m{"crit": []string{"b64"}, "b64": false}, nil, false},
		"a key at a URL":           {m{"jku": "https://evil.example/keys"}, nil, false},
	} {
		a := g.show("DPoP "+token, h.prove(token, tt.header, tt.claims))
		if tt.good && a.Code != http.StatusOK {
			t.Errorf("%s: %d %s", name, a.Code, a.Body)
		} else if !tt.good {
			a.refused(t, name, "invalid_dpop_proof")
		}
	}
}

// TestDPoPRequired: with required, every token has to be bound; API keys are not tokens.
func TestDPoPRequired(t *testing.T) {
	issuer := newIssuer(t, mcptest.IssuerOptions{})
	key, entry := newAPIKey(nil)
	g := newGate(t, func(c *auth.Config) { c.DPoP, c.Keys.Entries = auth.DPoPRequired, []apikey.Entry{entry} }, issuer)
	h := newHolder("ES256")
	token := issuer.Token(map[string]any{"cnf": h.cnf(t)})
	if a := g.show("DPoP "+token, h.prove(token, nil, nil)); a.Code != http.StatusOK {
		t.Fatal(a.Body)
	}
	unbound := issuer.Token(nil)
	if _, err := g.IdentifyToken(httptest.NewRequest(http.MethodGet, publicURL, nil), unbound); err != nil {
		t.Errorf("nobody can sign in to the console: %v", err)
	}
	g.bearer(unbound).refused(t, "a bearer token", "invalid_token") // known from a sign-in or not
	g.bearer(issuer.Token(nil)).refused(t, "a bearer token", "invalid_token")
	if a := g.bearer(key); a.Code != http.StatusOK {
		t.Errorf("an API key: %s", a.Body)
	}
	g.show("DPoP "+key, h.prove(key, nil, nil)).refused(t, "an API key with a proof", "invalid_token")
	a := g.call()
	if lines := a.Header()["Www-Authenticate"]; len(lines) != 1 || !strings.HasPrefix(lines[0], "DPoP ") ||
		!strings.Contains(lines[0], "resource_metadata=") {
		t.Errorf("challenges %q", lines)
	}
	w := httptest.NewRecorder()
	g.Metadata().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/.well-known/oauth-protected-resource", nil))
	if !strings.Contains(w.Body.String(), `"dpop_bound_access_tokens_required":true`) {
		t.Errorf("metadata %s", w.Body)
	}
}

// TestDPoPOtherBindings: a token that is bound in another way is refused, with a word about it.
func TestDPoPOtherBindings(t *testing.T) {
	issuer := newIssuer(t, mcptest.IssuerOptions{})
	on, off := newGate(t, withDPoP(auth.DPoPAccepted), issuer), newGate(t, nil, issuer)
	h := newHolder("ES256")
	jkt := h.cnf(t)["jkt"]
	for want, cnf := range map[string]any{
		"mutual TLS":                  map[string]any{"x5t#S256": "bwcK0esc3ACC3DB2Y5_lESsXE8o9ltc05O89jdN-dg2"},
		"(mutual TLS), which":         map[string]any{"x5t#S256": "x", "jkt": jkt},
		"which this gateway cannot":   map[string]any{"jwk": map[string]any{}},
		"this gateway cannot check":   map[string]any{"jkt": jkt, "kid": "x"},
		"gateway cannot check":        map[string]any{"jkt": "short"},
		"a key of its client, which":  "x",
		"is bound to a key of its cl": map[string]any{},
	} {
		token := issuer.Token(map[string]any{"cnf": cnf})
		for _, scheme := range []string{"Bearer ", "DPoP "} {
			if a := on.show(scheme+token, h.prove(token, nil, nil)); a.Code != http.StatusUnauthorized ||
				!strings.Contains(a.Body.String(), want) {
				t.Errorf("%v: %d %s", cnf, a.Code, a.Body)
			}
		}
	}
	token := issuer.Token(map[string]any{"cnf": h.cnf(t)})
	off.bearer(token).expect(t, 401, invalidToken, "which this gateway cannot check")
	off.show("DPoP "+token, h.prove(token, nil, nil)).expect(t, 401)
}

// TestDPoPIntrospected: opaque tokens can be bound, too, if the issuer says to which key.
func TestDPoPIntrospected(t *testing.T) {
	issuer := newIssuer(t, mcptest.IssuerOptions{})
	g := newGate(t, func(c *auth.Config) {
		c.DPoP = auth.DPoPAccepted
		c.Issuers[0].Introspection = &auth.Introspection{ClientID: issuer.ClientID,
			ClientSecret: mcp.Secret(issuer.ClientSecret)}
	}, issuer)
	h, thief := newHolder("ES256"), newHolder("ES256")
	token := issuer.Opaque(map[string]any{"cnf": h.cnf(t), "token_type": "DPoP"})
	if a := g.show("DPoP "+token, h.prove(token, nil, nil)); a.Code != http.StatusOK {
		t.Fatal(a.Body)
	}
	g.show("DPoP "+token, thief.prove(token, nil, nil)).refused(t, "another key", "invalid_dpop_proof")
	g.show("Bearer "+token).refused(t, "as a bearer token", "invalid_token")
	unbound := issuer.Opaque(map[string]any{"token_type": "DPoP"})
	g.show("Bearer "+unbound).refused(t, "bound to nobody knows what", "invalid_token")
}

// FuzzDPoPProof: no header makes the parser fail, and none but a proof of the key is taken.
func FuzzDPoPProof(f *testing.F) {
	issuer := mcptest.NewIssuer(mcptest.IssuerOptions{URL: "https://login.example"})
	g := startGate(f, auth.Deps{NewClient: func([]string) (auth.Client, error) { return direct{issuer}, nil }},
		withDPoP(auth.DPoPAccepted), issuer)
	h := newHolder("ES256")
	token := issuer.Token(map[string]any{"cnf": h.cnf(f), "exp": time.Now().Add(24 * time.Hour).Unix()})
	good := h.prove(token, nil, nil)
	f.Add(good)
	f.Add(good[:len(good)/2])
	f.Add("eyJ0eXAiOiJkcG9wK2p3dCJ9.e30.AA")
	f.Add("..")
	f.Fuzz(func(t *testing.T, text string) {
		if a := g.show("DPoP "+token, text); a.Code == http.StatusOK && text != good {
			t.Errorf("%q is a proof", text)
		}
	})
}
