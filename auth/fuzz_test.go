package auth

import (
	"encoding/base64"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// What counts as a JWT is exactly the compact serialisation, and what counts
// as opaque is a b64token that nobody could take for JOSE.
func FuzzForm(f *testing.F) {
	compact := regexp.MustCompile(`^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$`)
	b64token := regexp.MustCompile(`^[A-Za-z0-9\-._~+/]+=*$`)
	for _, seed := range []string{"a.b.c", "a.b.c=", "a..c", ".b.c", "a.b.", "a.b", "eyJ", "abc~+/==", "=", "a b",
		"a\n.b.c", "a.b.c.d.e", "é.b.c", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, token string) {
		got := formOf(token)
		if want := compact.MatchString(token) && !strings.HasSuffix(token, "\n"); (got == formJWT) != want {
			t.Errorf("%q: form %d, a compact JWS: %t", token, got, want)
		}
		if got == formOpaque && (!b64token.MatchString(token) || strings.Count(token, ".") > 1 ||
			strings.HasPrefix(token, "eyJ")) {
			t.Errorf("%q would be shown to an issuer", token)
		}
	})
}

// What is accepted means the same to a reader that ignores case and takes the last
// of two members, and nothing of it makes the rules stumble.
func FuzzClaims(f *testing.F) {
	r := newRules(Config{Leeway: new(time.Second), ImpliedScopes: map[string][]string{"a": {"b"}}},
		Issuer{URL: "https://a.example", Audiences: []string{"us"}, Claims: Claims{User: "sub", Groups: "/realm/roles"}}, nil)
	for _, seed := range []string{
		`{"iss":"https://a.example","aud":"us","sub":"alice","exp":9000000000}`,
		`{"iss":"https://a.example","aud":["us"],"sub":"alice","exp":9e9,"scope":"a b","scp":["c"],"realm":{"roles":["x"]},"client_id":"c"}`,
		`{"iss":"https://a.example","aud":"us","sub":"alice","exp":9000000000,"SUB":"bob"}`,
		`{"sub":"a","sub":"b"}`, `{"\u0073ub":"a"}`, `{"ſub":"a"}`, `{"a":{"b":1,"b":2}}`, `{"exp":1e999}`,
		"{\"a\":\"\xff\"}",
		`{"iss":"https://a.example","aud":"us","sub":"a\ud800","exp":9000000000}`, `{"_claim_names":{"/realm/roles":"x"}}`,
		`[`, ``, `{"realm":{"roles":{}}}`,
	} {
		f.Add([]byte(seed))
	}
	now := time.Unix(1_700_000_000, 0)
	f.Fuzz(func(t *testing.T, text []byte) {
		claims, err := parseObject(slices.Clone(text), r.exact...)
		if err != nil {
			return
		}
		id, ref := r.judge(claims, now)
		if ref != nil {
			return
		}
		var lax struct {
			Iss, Sub string
			Exp      float64
		}
		if err := json.Unmarshal(text, &lax); err != nil {
			t.Fatalf("accepted, but no JSON for others: %v: %s", err, text)
		}
		if lax.Iss != r.URL || lax.Sub != id.caller.Subject || lax.Exp < float64(now.Unix()-1) {
			t.Errorf("others read %+v, we read %s, in %s", lax, id.caller.Subject, text)
		}
		if !id.caller.Expires.After(now) || !isName(id.caller.Subject) {
			t.Errorf("accepted: %s", text)
		}
		for _, scope := range id.granted {
			if !isScope(scope) {
				t.Errorf("scope %q would break a header", scope)
			}
		}
	})
}

// Whatever a header says, it is taken apart without harm, and parameters that choose a
// key are refused.
func FuzzHeader(f *testing.F) {
	for _, seed := range []string{`{"alg":"RS256","kid":"a","typ":"JWT"}`, `{"alg":"none"}`, `{"alg":"RS256","jwk":{}}`,
		`{"alg":1}`, `{"kid":""}`, `{"alg":"a","ALG":"b"}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, header []byte) {
		token := base64.RawURLEncoding.EncodeToString(header) + ".e30.AAAA"
		if formOf(token) != formJWT {
			return
		}
		j, ref := splitJWT(token, nil)
		if ref != nil {
			return
		}
		var members map[string]any
		if err := json.Unmarshal(header, &members); err != nil {
			t.Fatalf("accepted: %q: %v", header, err)
		}
		for _, name := range []string{"jwk", "jku", "x5u", "x5c", "crit", "b64", "zip"} {
			if _, has := members[name]; has {
				t.Errorf("accepted: %s", header)
			}
		}
		if alg, _ := members["alg"].(string); alg != j.alg {
			t.Errorf("others read alg %q, we read %q", alg, j.alg)
		}
	})
}

// A key set of any content is read or refused; what is read is strong, and stays what
// it is when it is read again.
func FuzzKeySet(f *testing.F) {
	f.Add([]byte(`{"keys":[]}`))
	f.Add([]byte(`{"keys":[{"kty":"EC","crv":"P-256","kid":"a","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]}`))
	f.Add([]byte(`{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"},{"kty":"RSA","n":"AQAB","e":"AQAB"},{"kty":"oct","k":"AA"},1]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		set, err := parseKeySet(body)
		if err != nil {
			return
		}
		if len(set.keys) > maxKeys {
			t.Errorf("%d keys", len(set.keys))
		}
		for _, k := range set.keys {
			if _, err := fitting(k.public); err != nil || len(k.fits) == 0 {
				t.Errorf("a weak key: %v: %s", err, k.text)
			}
			again, err := parseKey(mcp.Raw(k.text).Without("alg"))
			if err != nil || again.id != k.id {
				t.Errorf("read again: %v: %s", err, k.text)
			}
		}
	})
}
