package auth_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

func b64(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }

// Every algorithm that is allowed works with a real key; one that is not configured does
// not.
func TestAlgorithms(t *testing.T) {
	for _, alg := range []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384",
		"ES512", "EdDSA"} {
		t.Run(alg, func(t *testing.T) {
			issuer := newIssuer(t, mcptest.IssuerOptions{Alg: alg})
			token := issuer.Token(nil)
			newGate(t, nil, issuer).bearer(token).expect(t, 200)
			other := "ES256"
			if alg == other {
				other = "EdDSA"
			}
			only := newGate(t, func(c *auth.Config) { c.Issuers[0].Algorithms = []string{other} }, issuer)
			only.bearer(token).expect(t, 401, invalidToken)
		})
	}
}

// Unsigned tokens, without a question to the issuer.
func TestUnsigned(t *testing.T) {
	issuer := newIssuer(t, mcptest.IssuerOptions{})
	g := newGate(t, nil, issuer)
	g.bearer(issuer.Token(nil)).expect(t, 200)
	_, rest, _ := strings.Cut(issuer.Token(nil), ".")
	payload, signature, _ := strings.Cut(rest, ".")
	for _, header := range []string{`{"alg":"none"}`, `{"alg":"None"}`, `{"alg":"nOnE","kid":"other"}`, `{"alg":""}`, `{}`,
		`{"alg":null}`, `{"alg":1}`, `{"kid":"other"}`} {
		g.bearer(b64(header)+"."+payload+"."+signature).expect(t, 401, invalidToken)
		g.bearer(b64(header)+"."+payload+".").expect(t, 401, invalidToken)
	}
	if n := issuer.Fetches(mcptest.EndpointJWKS); n != 1 {
		t.Errorf("the keys were fetched %d times", n)
	}
}

// A symmetric signature, made with what everybody can know or with a key that
// is really in the set.
func TestSymmetric(t *testing.T) {
	issuer := newIssuer(t, mcptest.IssuerOptions{Alg: "RS256"})
	key := issuer.Key()
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	var set struct{ Keys []json.RawMessage }
	if err := json.Unmarshal(issuer.JWKS(), &set); err != nil {
		t.Fatal(err)
	}
	secrets := map[string][]byte{
		"PEM":        pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}),
		"DER":        der,
		"JWK":        set.Keys[0],
		"an oct key": []byte("a shared secret of thirty-two byte"),
	}
	oct := `{"kty":"oct","kid":"oct","alg":"HS256","use":"sig","k":"` + b64(string(secrets["an oct key"])) + `"}`
	issuer.SetJWKS([]byte(`{"keys":[` + string(set.Keys[0]) + `,` + oct + `]}`))
	g := newGate(t, nil, issuer)
	good := issuer.Token(nil)
	g.bearer(good).expect(t, 200)
	payload := strings.Split(good, ".")[1]
	for name, secret := range secrets {
		t.Run(name, func(t *testing.T) {
			for _, kid := range []string{key.ID, "oct"} {
				input := b64(`{"alg":"HS256","typ":"at+jwt","kid":"`+kid+`"}`) + "." + payload
				mac := hmac.New(sha256.New, secret)
				mac.Write([]byte(input))
				g.bearer(input+"."+b64(string(mac.Sum(nil)))).expect(t, 401, invalidToken)
			}
		})
	}
	if n := issuer.Fetches(mcptest.EndpointJWKS); n != 1 {
		t.Errorf("the keys were fetched %d times", n)
	}
	if s := g.Status()[0]; s.Keys != 1 || len(s.Refused) != 1 {
		t.Errorf("got %d keys, and refused %q", s.Keys, s.Refused)
	}
}

// The algorithm of the token has to be that of the key, when the key has one.
func TestAlgorithmOfTheKey(t *testing.T) {
	issuer := newIssuer(t, mcptest.IssuerOptions{Alg: "RS256"})
	key := issuer.Key()
	free := mcptest.NewKey("free", "RS256", 0)
	free.Members["alg"] = nil
	issuer.Publish(free)
	g := newGate(t, nil, issuer)
	for _, alg := range []string{"PS256", "RS512", "PS512"} {
		// Signed well, by the very key.
		g.bearer(issuer.Token(nil)).expect(t, 200)
		token := key.With(key.ID, alg).Sign(nil, map[string]any{"iss": issuer.URL, "sub": "a", "aud": publicURL, "exp": 9e9})
		g.bearer(token).expect(t, 401, invalidToken)
		token = free.With("free", alg).Sign(nil, map[string]any{"iss": issuer.URL, "sub": "a", "aud": publicURL, "exp": 9e9})
		g.bearer(token).expect(t, 200)
	}
	if n := issuer.Fetches(mcptest.EndpointJWKS); n != 1 {
		t.Errorf("the keys were fetched %d times", n)
	}
}

// What kind of token it is.
func TestTypeOfTokens(t *testing.T) {
	issuer := newIssuer(t, mcptest.IssuerOptions{})
	lax := newGate(t, nil, issuer)
	strict := newGate(t, func(c *auth.Config) { c.Issuers[0].RequireTyp = []string{"application/at+jwt", "own+jwt"} },
		issuer)
	nonce := newGate(t, func(c *auth.Config) { c.Issuers[0].AllowNonce = true }, issuer)
	tests := []struct {
		name                string
		header, claims      map[string]any
		lax, strict, nonces int
	}{
		{"at+jwt", nil, nil, 200, 200, 200},
		{"AT+JWT", map[string]any{"typ": "AT+JWT"}, nil, 200, 200, 200},
		{"application/at+jwt", map[string]any{"typ": "application/AT+jwt"}, nil, 200, 200, 200},
		{"JWT", map[string]any{"typ": "JWT"}, nil, 200, 401, 200},
		{"none", map[string]any{"typ": nil}, nil, 200, 401, 200},
		{"the operator's own", map[string]any{"typ": "own+jwt"}, nil, 401, 200, 401},
		{"an unknown one", map[string]any{"typ": "x"}, nil, 401, 401, 401},
		{"not a text", map[string]any{"typ": 1}, nil, 401, 401, 401},
		{"logout", map[string]any{"typ": "logout+jwt"}, nil, 401, 401, 401},
		{"DPoP", map[string]any{"typ": "dpop+jwt"}, nil, 401, 401, 401},
		{"an event", map[string]any{"typ": "JWT"}, map[string]any{"events": map[string]any{}}, 401, 401, 401},
		{"an ID token with nonce", map[string]any{"typ": "JWT"}, map[string]any{"nonce": "x"}, 401, 401, 200},
		{"an ID token with at_hash", map[string]any{"typ": "JWT"}, map[string]any{"at_hash": "x"}, 401, 401, 401},
		{"an ID token with c_hash", map[string]any{"typ": nil}, map[string]any{"c_hash": "x"}, 401, 401, 401},
		{"an access token with nonce", nil, map[string]any{"nonce": "x"}, 200, 200, 200},
		{"an ID token that tells nothing", map[string]any{"typ": "JWT"},
			map[string]any{"client_id": nil, "email": "a@example.com"}, 401, 401, 401},
		{"an ID token for its client", map[string]any{"typ": "JWT"}, map[string]any{"client_id": nil, "azp": publicURL},
			401, 401, 401},
		{"an access token for another than its client", map[string]any{"typ": "JWT"},
			map[string]any{"client_id": nil, "azp": "client"}, 200, 401, 200},
		{"an access token with scopes alone", map[string]any{"typ": nil},
			map[string]any{"client_id": nil, "scp": []string{"x"}}, 200, 401, 200},
		{"Entra ID's for an application", map[string]any{"typ": "JWT"},
			map[string]any{"client_id": nil, "azp": publicURL, "roles": []string{"x"}}, 200, 401, 200},
		{"at+jwt that tells nothing", nil, map[string]any{"client_id": nil}, 200, 200, 200},
		{"Keycloak's ID token", map[string]any{"typ": "JWT"}, map[string]any{"typ": "ID"}, 401, 401, 401},
		{"Keycloak's refresh token", map[string]any{"typ": "JWT"}, map[string]any{"typ": "Refresh"}, 401, 401, 401},
		{"Keycloak's access token", map[string]any{"typ": "JWT"}, map[string]any{"typ": "Bearer"}, 200, 401, 200},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			token := issuer.Sign(tt.header, tt.claims)
			lax.bearer(token).expect(t, tt.lax)
			strict.bearer(token).expect(t, tt.strict)
			nonce.bearer(token).expect(t, tt.nonces)
		})
	}
}

// Header parameters that change what is verified or with what.
func TestHeaderParameters(t *testing.T) {
	issuer := newIssuer(t, mcptest.IssuerOptions{Alg: "ES256"})
	thief := newIssuer(t, mcptest.IssuerOptions{Alg: "ES256"})
	var set struct{ Keys []map[string]any }
	if err := json.Unmarshal(thief.JWKS(), &set); err != nil {
		t.Fatal(err)
	}
	g := newGate(t, nil, issuer)
	g.bearer(issuer.Sign(map[string]any{"x5t": "abc", "extra": 1}, nil)).expect(t, 200)
	for name, value := range map[string]any{
		"crit": []string{"exp"}, "b64": false, "zip": "DEF", "jku": thief.URLOf(mcptest.EndpointJWKS), "jwk": set.Keys[0],
		"x5u": thief.URL + "/cert", "x5c": []string{"AAAA"}, "enc": "A256GCM", "epk": map[string]any{},
	} {
		t.Run(name, func(t *testing.T) {
			header := map[string]any{name: value}
			if name == "b64" {
				header["crit"] = []string{"b64"}
			}
			g.bearer(issuer.Sign(header, nil)).expect(t, 401, invalidToken)
			header["kid"] = thief.Key().ID
			claims := map[string]any{"iss": issuer.URL, "sub": "a", "aud": publicURL, "exp": 9e9}
			g.bearer(thief.Key().Sign(header, claims)).expect(t, 401, invalidToken)
		})
	}
	for _, e := range []mcptest.Endpoint{mcptest.EndpointJWKS, "/cert"} {
		if n := thief.Fetches(e); n != 0 {
			t.Errorf("%s was fetched %d times", e, n)
		}
	}
}

// Only three parts of base64url are a JWT.
func TestFormOfTokens(t *testing.T) {
	issuer := newIssuer(t, mcptest.IssuerOptions{Alg: "RS256"})
	g := newGate(t, nil, issuer)
	good := issuer.Token(nil)
	g.bearer(good).expect(t, 200)
	p := strings.Split(good, ".")
	flat := `{"protected":"` + p[0] + `","payload":"` + p[1] + `","signature":"` + p[2] + `"}`
	for name, token := range map[string]string{
		"flattened JSON": flat,
		"general JSON": `{"payload":"` + p[1] + `","signatures":[{"protected":"` + p[0] +
			`","signature":"` + p[2] + `"}]}`,
		"a space":                   p[0] + ". " + p[1] + "." + p[2],
		"a tab":                     p[0] + ".\t" + p[1] + "." + p[2],
		"padding":                   good + "=",
		"padding of the part":       p[0] + "." + p[1] + "=." + p[2],
		"four parts":                good + "." + p[2],
		"a trailing dot":            good + ".",
		"a leading dot":             "." + good,
		"two parts":                 p[0] + "." + p[1],
		"an empty part":             p[0] + ".." + p[2],
		"base64":                    p[0] + "." + strings.NewReplacer("-", "+", "_", "/").Replace(p[1]) + "+." + p[2],
		"not ASCII":                 good + "é",
		"a control character":       p[0] + "\x01" + "." + p[1] + "." + p[2],
		"another last bit":          otherLastBit(good),
		"a JWE":                     p[0] + "." + p[1] + "." + p[2] + "." + p[1] + "." + p[2],
		"an empty signature":        p[0] + "." + p[1] + ".",
		"too long":                  good + strings.Repeat("A", 16<<10),
		"a header that is no JSON":  b64("x") + "." + p[1] + "." + p[2],
		"a header that is a list":   b64("[]") + "." + p[1] + "." + p[2],
		"claims that are no object": p[0] + "." + b64(`"x"`) + "." + p[2],
		"claims and more":           p[0] + "." + b64(`{}{}`) + "." + p[2],
		"one letter":                "a",
	} {
		t.Run(name, func(t *testing.T) { g.bearer(token).expect(t, 401, invalidToken) })
	}
}

// otherLastBit changes a bit of the last character that no byte of the signature has.
func otherLastBit(token string) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	last := strings.IndexByte(alphabet, token[len(token)-1])
	return token[:len(token)-1] + string(alphabet[last^1])
}

// Texts that readers could take for different things, or that are made to be
// expensive.
func TestAmbiguousClaims(t *testing.T) {
	issuer := newIssuer(t, mcptest.IssuerOptions{})
	g := newGate(t, nil, issuer)
	key := issuer.Key()
	const rest = `"exp":9000000000`
	base := `"iss":"` + issuer.URL + `","sub":"alice","aud":"` + publicURL + `",` + rest
	header := `{"alg":"ES256","typ":"at+jwt","kid":"` + key.ID + `"}`
	g.bearer(key.SignText(header, `{`+base+`}`)).expect(t, 200)
	g.bearer(key.SignText(header, "\n { "+base+` , "a":{"b":[1,{"c":null}]} } `)).expect(t, 200)
	for name, payload := range map[string]string{
		"sub twice":               `{"sub":"mallory",` + base + `}`,
		"aud twice":               `{` + base + `,"aud":"` + publicURL + `"}`,
		"exp twice":               `{"exp":1,` + base + `}`,
		"another claim twice":     `{"x":1,"x":1,` + base + `}`,
		"twice further down":      `{"x":{"y":1,"y":2},` + base + `}`,
		"twice in a list":         `{"x":[{"y":1,"y":2}],` + base + `}`,
		"other case":              `{"SUB":"mallory",` + base + `}`,
		"another letter":          `{"ſub":"mallory",` + base + `}`,
		"escaped":                 `{"\u0073ub":"mallory",` + base + `}`,
		"escaped further down":    `{"x":{"\u0073ub":"mallory"},` + base + `}`,
		"groups in other case":    `{"Groups":["admin"],` + base + `}`,
		"nested 10,000 deep":      `{"x":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `,` + base + `}`,
		"nested 40 deep":          `{"x":` + strings.Repeat(`{"y":`, 40) + "1" + strings.Repeat("}", 40) + `,` + base + `}`,
		"not UTF-8":               "{\"x\":\"\xff\"," + base + `}`,
		"no JSON":                 `{` + base,
		"half a surrogate in sub": strings.Replace(`{`+base+`}`, "alice", `a\ud800`, 1),
		"too long":                `{"x":"` + strings.Repeat("x", 16<<10) + `",` + base + `}`,
	} {
		t.Run(name, func(t *testing.T) {
			g.bearer(key.SignText(header, payload)).expect(t, 401, invalidToken)
		})
	}
	g.bearer(key.SignText(`{"alg":"none",`+header[1:], `{`+base+`}`)).expect(t, 401, invalidToken)
	g.bearer(key.SignText(`{"ALG":"none",`+header[1:], `{`+base+`}`)).expect(t, 401, invalidToken)
}

// The signature has to be of this token, by a known key; no key is fetched anew.
func TestBadSignatures(t *testing.T) {
	issuer := newIssuer(t, mcptest.IssuerOptions{Alg: "RS256"})
	g := newGate(t, nil, issuer)
	good, other := strings.Split(issuer.Token(nil), "."), strings.Split(issuer.Token(map[string]any{"sub": "bob"}), ".")
	g.bearer(strings.Join(good, ".")).expect(t, 200)
	flipped := []byte(good[2])
	flipped[7] = map[bool]byte{true: 'B', false: 'A'}[flipped[7] == 'A']
	g.bearer(good[0]+"."+good[1]+"."+string(flipped)).expect(t, 401, invalidToken)
	g.bearer(good[0]+"."+good[1]+"."+other[2]).expect(t, 401, invalidToken)
	g.bearer(good[0]+"."+good[1]+".AAAA").expect(t, 401, invalidToken)
	g.bearer(good[0]+"."+other[1]+"."+good[2]).expect(t, 401, invalidToken)
	thief := mcptest.NewKey(issuer.Key().ID, "RS256", 0)
	g.bearer(thief.Sign(nil, map[string]any{"iss": issuer.URL, "sub": "a", "aud": publicURL, "exp": 9e9})).expect(t,
		401, invalidToken)
	g.bearer(strings.Join(good, ".")).expect(t, 200)
	if n := issuer.Fetches(mcptest.EndpointJWKS); n != 1 {
		t.Errorf("the keys were fetched %d times", n)
	}
}
