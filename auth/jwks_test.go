package auth_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

func number(n int64) string {
	return base64.RawURLEncoding.EncodeToString(big.NewInt(n).Bytes())
}

// Keys that must not verify tokens are not loaded, are told in the status, and
// leave the others alone.
func TestBadKeys(t *testing.T) {
	rsa, ec := mcptest.NewKey("rsa", "RS256", 0), mcptest.NewKey("ec", "ES256", 0)
	tests := []struct {
		name    string
		key     *mcptest.Key
		members map[string]any
		reason  string // "" for a good key
	}{
		{"as it is", rsa, nil, ""},
		{"use missing", rsa, claims{"use": nil}, ""},
		{"use enc", rsa, claims{"use": "enc"}, "not for signatures"},
		{"use in other case", rsa, claims{"use": "SIG"}, "not for signatures"},
		{"key_ops verify", rsa, claims{"key_ops": []string{"verify"}}, ""},
		{"key_ops without verify", rsa, claims{"key_ops": []string{"sign", "encrypt"}}, "not for verifying"},
		{"key_ops of another shape", rsa, claims{"key_ops": claims{}}, "not for verifying"},
		{"an algorithm of another kind", rsa, claims{"alg": "ES256"}, "not one that it could be used with"},
		{"an algorithm of another curve", ec, claims{"alg": "ES384"}, "not one that it could be used with"},
		{"an algorithm for encryption", rsa, claims{"alg": "RSA-OAEP"}, "not one that it could be used with"},
		{"symmetric", rsa, claims{"kty": "oct", "k": "AAAA"}, "secret key"},
		{"symmetric by its kind", rsa, claims{"kty": "oct"}, "want RSA, EC or OKP"},
		{"a kind that nobody knows", rsa, claims{"kty": "X"}, "want RSA, EC or OKP"},
		{"no kind", rsa, claims{"kty": nil}, "want RSA, EC or OKP"},
		{"a secret key", rsa, claims{"d": "AAAA"}, "secret key"},
		{"1024 bits", mcptest.NewKey("small", "RS256", 1024), nil, "1024 bits"},
		{"8192 bits", rsa, claims{"n": strings.Repeat("_", 8192/6+1)}, "modulus too large"},
		{"exponent 1", rsa, claims{"e": number(1)}, "bad e value"},
		{"an even exponent", rsa, claims{"e": number(65536)}, "exponent 65536"},
		{"a huge exponent", rsa, claims{"e": number(1<<40 + 1)}, "exponent"},
		{"no exponent", rsa, claims{"e": nil}, "missing n/e"},
		{"not on the curve", ec, claims{"x": strings.Repeat("A", 43)}, ""}, // reason is go-jose's
		{"a curve that nobody knows", ec, claims{"crv": "secp256k1"}, "unsupported elliptic curve"},
		{"another curve", ec, claims{"crv": "P-384"}, "wrong length"},
		{"a kid that is no text", rsa, claims{"kid": 1}, "kid is not a text"},
		{"an alg that is no text", rsa, claims{"alg": []string{"RS256"}}, "alg is not a text"},
		{"bad certificates are not looked at", rsa, claims{"x5c": []string{"!"}, "x5u": "::", "x5t": "!"}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			issuer := newIssuer(t, mcptest.IssuerOptions{})
			good := issuer.Key()
			key := tt.key.With(tt.key.ID, tt.key.Alg)
			key.Members = tt.members
			issuer.Publish(key)
			g := newGate(t, nil, issuer)
			body := claims{"iss": issuer.URL, "sub": "a", "aud": publicURL, "exp": 9e9}
			g.bearer(good.Sign(nil, body)).expect(t, 200)
			s := g.Status()[0]
			bad := tt.reason != "" || strings.HasSuffix(tt.name, "not on the curve")
			if !bad {
				g.bearer(key.Sign(nil, body)).expect(t, 200)
				if s.Keys != 2 || len(s.Refused) != 0 {
					t.Errorf("got %d keys, refused %q", s.Keys, s.Refused)
				}
				return
			}
			g.bearer(key.Sign(nil, body)).expect(t, 401, invalidToken)
			if s.Keys != 1 || len(s.Refused) != 1 || !strings.Contains(s.Refused[0], tt.reason) {
				t.Errorf("got %d keys, refused %q, want %q", s.Keys, s.Refused, tt.reason)
			}
		})
	}
}

// An issuer that withdraws all of its keys means it: nothing of it is accepted.
func TestNoKeys(t *testing.T) {
	for _, set := range []string{`{"keys":[]}`, `{"keys":[{"kty":"oct","k":"AAAA"}]}`} {
		issuer := newIssuer(t, mcptest.IssuerOptions{})
		issuer.SetJWKS([]byte(set))
		g := newGate(t, nil, issuer)
		g.bearer(issuer.Token(nil)).expect(t, 401, invalidToken)
		g.bearer(issuer.Sign(claims{"kid": nil}, nil)).expect(t, 401, invalidToken)
		if s := g.Status()[0]; s.State != auth.StateDegraded || !strings.Contains(s.Reason, "no key that can verify") {
			t.Errorf("got status %+v", s)
		}
	}
}

// Certificates and what else a set may have do no harm, and white space is none.
func TestKeySetOfAnIssuer(t *testing.T) {
	issuer := newIssuer(t, mcptest.IssuerOptions{})
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(issuer.JWKS(), &set); err != nil {
		t.Fatal(err)
	}
	issuer.SetJWKS([]byte(fmt.Sprintf("\n{ \"extra\" : {\"a\":[1]},\r\n\t\"keys\" : [ %s ] }\n", set.Keys[0])))
	newGate(t, nil, issuer).bearer(issuer.Token(nil)).expect(t, 200)
}
