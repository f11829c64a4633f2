package outbound

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

func pemOf(t *testing.T, kind string, der []byte, err error) mcp.Secret {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return mcp.Secret(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

func pkcs8(t *testing.T, key any) mcp.Secret {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	return pemOf(t, "PRIVATE KEY", der, err)
}

func ecKey(t *testing.T, curve elliptic.Curve) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func rsaKey(t *testing.T, bits int) *rsa.PrivateKey {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestValidate(t *testing.T) {
	empty, resource := "", "https://crm.example.com/mcp"
	machine := func(change func(*Config)) Config {
		c := Config{Type: TypeClientCredentials, TokenURL: "https://login.example.com/token", ClientID: "gatehouse",
			ClientSecret: "s3cret"}
		if change != nil {
			change(&c)
		}
		return c
	}
	user := func(change func(*Config)) Config {
		return machine(func(c *Config) {
			c.Type, c.Issuer = TypeTokenExchange, "https://login.example.com"
			if change != nil {
				change(c)
			}
		})
	}
	key := pkcs8(t, ecKey(t, elliptic.P256()))
	tests := []struct {
		name string
		cfg  Config
		want []string // parts of the error, one for each line
	}{
		{"nothing", Config{}, nil},
		{"none", Config{Type: "none"}, nil},
		{"header", Config{Type: "header", Header: "X-Api-Key", Token: "a b"}, nil},
		{"bearer", Config{Type: "bearer", Token: "abc=="}, nil},
		{"client_credentials", machine(func(c *Config) { c.Scopes = []string{"a", "b:c"} }), nil},
		{"token_url on loopback", machine(func(c *Config) { c.TokenURL = "http://127.0.0.1:1/token" }), nil},
		{"token_url with a query", machine(func(c *Config) { c.TokenURL += "?tenant=1" }), nil},
		{"post", machine(func(c *Config) { c.ClientAuth = authPost }), nil},
		{"key", machine(func(c *Config) { c.ClientSecret, c.PrivateKey, c.KeyID = "", key, "k1" }), nil},
		{"no resource", machine(func(c *Config) { c.Resource = &empty }), nil},
		{"token_exchange", user(func(c *Config) { c.Resource, c.Audience, c.SubjectTokenType = &resource, "crm", typeJWT }),
			nil},

		{"another type", Config{Type: "oauth", Token: "x"}, []string{`type: "oauth": want none, header`}},
		{"keys without a type", Config{Token: "x", ClientID: "y"},
			[]string{"token: is for type header and bearer", "client_id: is for type client_credentials and token_exchange"}},
		{"header without all", Config{Type: "header"}, []string{"header: is needed", "token: is needed"}},
		{"header with nonsense", Config{Type: "header", Header: "a b", Token: "x\r\nY: z"},
			[]string{`header: "a b" is not a header name`, "token: is needed"}},
		{"bearer with the scheme", Config{Type: "bearer", Token: "Bearer abc"},
			[]string{"token: is needed for type bearer: the token alone"}},
		{"bearer with a header", Config{Type: "bearer", Token: "abc", Header: "X"}, []string{"header: is for type header"}},
		{"client_credentials without all", Config{Type: TypeClientCredentials},
			[]string{"token_url: is needed", "client_id: is needed", "client_secret or private_key is needed"}},
		{"client_credentials with an issuer", machine(func(c *Config) { c.Issuer = "x" }),
			[]string{"issuer: is for type token_exchange"}},
		{"plaintext", machine(func(c *Config) { c.TokenURL = "http://login.example.com/token" }),
			[]string{"token_url: http is only for loopback"}},
		{"credentials in the URL", machine(func(c *Config) { c.TokenURL = "https://me:hidden@login.example.com/token" }),
			[]string{"token_url: user and password"}},
		{"a fragment", machine(func(c *Config) { c.TokenURL += "#x" }), []string{"token_url: has a fragment"}},
		{"not a URL", machine(func(c *Config) { c.TokenURL = "login.example.com/token" }),
			[]string{"token_url: is not an absolute URL"}},
		{"both proofs", machine(func(c *Config) { c.PrivateKey = key }), []string{"client_secret: only one"}},
		{"another client_auth", machine(func(c *Config) { c.ClientAuth = "none" }),
			[]string{`client_auth: "none": want client_secret_basic`}},
		{"a key as a secret", machine(func(c *Config) { c.ClientSecret, c.PrivateKey, c.ClientAuth = "", key, authPost }),
			[]string{"client_auth:"}},
		{"key settings without a key", machine(func(c *Config) { c.KeyID = "k1" }),
			[]string{"private_key: is needed with key_id"}},
		{"an algorithm of another key",
			machine(func(c *Config) { c.ClientSecret, c.PrivateKey, c.Algorithm = "", key, "RS256" }), []string{`algorithm: "RS256" is not for this private_key: want one of [ES256]`}},
		{"a symmetric algorithm", machine(func(c *Config) { c.ClientSecret, c.PrivateKey, c.Algorithm = "", key, "HS256" }),
			[]string{"algorithm:"}},
		{"relative resource", machine(func(c *Config) { r := "crm"; c.Resource = &r }),
			[]string{"resource: is not an absolute URI"}},
		{"resource with a fragment", machine(func(c *Config) { r := "https://a/#b"; c.Resource = &r }),
			[]string{"resource:"}},
		{"two scopes in one", machine(func(c *Config) { c.Scopes = []string{"a", "b c"} }),
			[]string{`scopes[1]: "b c" is not one scope`}},
		{"subject_token_type for a machine", machine(func(c *Config) { c.SubjectTokenType = typeJWT }),
			[]string{"subject_token_type: is for type token_exchange"}},
		{"token_exchange without an issuer", user(func(c *Config) { c.Issuer = "" }), []string{"issuer: is needed"}},
		{"token_exchange for nobody", user(func(c *Config) { c.Resource = &empty }),
			[]string{"audience or resource is needed"}},
		{"an ID token", user(func(c *Config) { c.SubjectTokenType = "id_token" }),
			[]string{`subject_token_type: "id_token"`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.cfg.Validate()
			var lines []string
			if err != nil {
				lines = strings.Split(err.Error(), "\n")
			}
			if len(lines) != len(tt.want) {
				t.Fatalf("got %q, want %d problems", lines, len(tt.want))
			}
			for i, want := range tt.want {
				if !strings.Contains(lines[i], want) {
					t.Errorf("got %q, want it to contain %q", lines[i], want)
				}
			}
			for _, secret := range []string{"s3cret", "hidden", "PRIVATE"} {
				if err != nil && strings.Contains(err.Error(), secret) {
					t.Errorf("the error shows a secret: %v", err)
				}
			}
		})
	}
}

func TestPrivateKey(t *testing.T) {
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p256 := ecKey(t, elliptic.P256())
	sec1, err := x509.MarshalECPrivateKey(p256)
	ecPEM := pemOf(t, "EC PRIVATE KEY", sec1, err)
	params := pemOf(t, "EC PARAMETERS", []byte{6, 8}, nil)
	public, err := x509.MarshalPKIXPublicKey(p256.Public())
	publicPEM := pemOf(t, "PUBLIC KEY", public, err)
	large := rsaKey(t, 2048)
	tests := []struct {
		name      string
		key       mcp.Secret
		algorithm string
		want      string // part of the error; "" for none
	}{
		{"RSA", pkcs8(t, large), "", ""},
		{"RSA, PKCS #1", pemOf(t, "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(large), nil), "PS512", ""},
		{"P-256", pkcs8(t, p256), "ES256", ""},
		{"P-384", pkcs8(t, ecKey(t, elliptic.P384())), "", ""},
		{"P-521", pkcs8(t, ecKey(t, elliptic.P521())), "ES512", ""},
		{"SEC 1", ecPEM, "", ""},
		{"SEC 1 with parameters", params + ecPEM, "", ""},
		{"Ed25519", pkcs8(t, ed), "EdDSA", ""},

		{"no PEM", "c2VjcmV0", "", "private_key: is not in PEM"},
		{"only parameters", params + params, "", "private_key: is a"},
		{"a public key", publicPEM, "", `private_key: is a "PUBLIC KEY"`},
		{"damaged", pemOf(t, "PRIVATE KEY", []byte("xyz"), nil), "", "private_key: cannot be read"},
		{"encrypted", pemOf(t, "ENCRYPTED PRIVATE KEY", []byte("xyz"), nil), "", "private_key: is encrypted"},
		{"RSA of 1024 bits", pkcs8(t, rsaKey(t, 1024)), "", "private_key: has 1024 bits"},
		{"P-224", pkcs8(t, ecKey(t, elliptic.P224())), "", "private_key: is of a kind that cannot sign"},
		{"none", pkcs8(t, p256), "none", `algorithm: "none"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := newSigner(Config{PrivateKey: tt.key, Algorithm: tt.algorithm})
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestHeaderName(t *testing.T) {
	for want, cfg := range map[string]Config{
		"": {}, "X-Api-Key": {Type: TypeHeader, Header: "x-api-key"}, "Authorization": {Type: TypeTokenExchange},
	} {
		if got := cfg.HeaderName(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if (Config{Type: TypeClientCredentials}).PerUser() || !(Config{Type: TypeTokenExchange}).PerUser() {
		t.Error("token_exchange alone is per user")
	}
}
