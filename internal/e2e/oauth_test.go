package e2e

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// TestRefusals: a caller without access gets the same answer on every path, with the
// status, the challenge and the body that say what to do. No server gets a request.
func TestRefusals(t *testing.T) {
	t.Parallel()
	s := scripted(t, stateless)
	s.Tools("do")
	issuer, stranger := newIssuer(t), newIssuer(t)
	g := guardWith(t, issuer, gateway.Config{
		Auth: auth.Config{
			Issuers:        []auth.Issuer{{URL: issuer.URL}},
			RequiredScopes: []string{"mcp"}, ScopesSupported: []string{"mcp"},
		},
		Upstreams: []upstream.Config{{Name: "up", URL: s.URL}},
	})
	stranger.Audience = issuer.Audience
	token := func(c claims) string { return issuer.Token(with(claims{"scope": "mcp"}, c)) }
	signed := func(header, c claims) string { return issuer.Sign(header, with(claims{"scope": "mcp"}, c)) }
	in := func(d time.Duration) int64 { return time.Now().Add(d).Unix() }
	good := token(nil)
	parts := strings.Split(good, ".")
	hello := func(token string) []string { return []string{"Bearer " + token} }
	const (
		none       = "an access token is needed: send it as Authorization: Bearer"
		twice      = "there is more than one Authorization header"
		spaced     = "there is one space between Bearer and the token, and none after it"
		noAudience = "the token does not say whom it is for"
		audience   = "the token is for another audience"
		foreign    = "the token is from an issuer that is not accepted"
		algorithm  = "the token's algorithm is not accepted"
		signature  = "the token's signature cannot be verified"
		noJWT      = "the token is not a JWT"
		noCompact  = "the token is not a compact JWT"
		noAccess   = "the token is not an access token"
		noID       = "the token looks like an ID token: send the access token"
	)
	for _, c := range []struct {
		name          string
		authorization []string
		query         string
		status        int
		code, text    string
		scope         string // "" for the usual one
	}{
		{"no token", nil, "", 401, "", none, ""},
		{"Basic", []string{"Basic dXNlcjpwYXNz"}, "", 401, "", none, ""},
		{"nothing behind Bearer", []string{"Bearer"}, "", 401, "", none, ""},
		{"the token alone", []string{good}, "", 401, "", none, ""},
		{"two spaces", []string{"Bearer  " + good}, "", 400, "invalid_request", spaced, ""},
		{"two headers", []string{"Bearer " + good, "Bearer " + good}, "", 400, "invalid_request", twice, ""},
		{"two headers of two schemes", []string{"Basic dXNlcjpwYXNz", "Bearer " + good}, "", 400, "invalid_request",
			twice, ""},
		{"a token in the query", nil, "?access_token=" + good, 401, "", none, ""},
		{"one in the query too", hello(good), "?access_token=" + good, 400, "invalid_request",
			"there is a token in the query too: send it in the Authorization header only", ""},

		{"another audience", hello(token(claims{"aud": "https://other.example/mcp"})), "", 401, "invalid_token",
			audience, ""},
		{"another profile", hello(token(claims{"aud": g.url + "/finance"})), "", 401, "invalid_token", audience, ""},
		{"several other audiences", hello(token(claims{"aud": []string{"a", "b"}})), "", 401, "invalid_token", audience, ""},
		{"a slash behind the audience", hello(token(claims{"aud": g.url + "/"})), "", 401, "invalid_token", audience, ""},
		{"the origin alone", hello(token(claims{"aud": strings.TrimSuffix(g.url, "/mcp")})), "", 401,
			"invalid_token", audience, ""},
		{"no audience", hello(token(claims{"aud": nil})), "", 401, "invalid_token", noAudience, ""},
		{"an empty list of audiences", hello(token(claims{"aud": []string{}})), "", 401, "invalid_token", audience, ""},
		{"another issuer, by its own key", hello(stranger.Token(claims{"scope": "mcp"})), "", 401, "invalid_token",
			foreign, ""},
		{"our issuer, by another's key", hello(stranger.Token(claims{"scope": "mcp", "iss": issuer.URL})), "", 401,
			"invalid_token", signature, ""},
		{"a path behind the issuer", hello(token(claims{"iss": issuer.URL + "/a"})), "", 401, "invalid_token", foreign, ""},
		{"expired", hello(token(claims{"exp": in(-time.Minute)})), "", 401, "invalid_token", "the token has expired", ""},
		{"without an end", hello(token(claims{"exp": nil})), "", 401, "invalid_token",
			"the token does not say when it expires", ""},
		{"not yet", hello(token(claims{"nbf": in(time.Hour)})), "", 401, "invalid_token", "the token is not good yet", ""},
		{"issued later than now", hello(token(claims{"iat": in(time.Hour), "exp": in(2 * time.Hour)})), "", 401,
			"invalid_token", "the token was issued in the future", ""},
		{"nobody's", hello(token(claims{"sub": nil})), "", 401, "invalid_token",
			"the token does not say who its user is", ""},

		{"alg none", hello(part(`{"alg":"none","typ":"at+jwt"}`) + "." + parts[1] + "."), "", 401, "invalid_token",
			noCompact, ""},
		{"alg none with a signature", hello(part(`{"alg":"none","typ":"at+jwt"}`) + "." + parts[1] + "." + parts[2]), "", 401,
			"invalid_token", algorithm, ""},
		{"HS256 with the public key", hello(hs256(t, issuer, parts[1])), "", 401, "invalid_token", algorithm, ""},
		{"a signature of another token", hello(parts[0] + "." + parts[1] + "." + strings.Split(token(nil), ".")[2]), "", 401,
			"invalid_token", signature, ""},
		{"an ID token by its nonce", hello(signed(claims{"typ": "JWT"}, claims{"nonce": "n"})), "", 401,
			"invalid_token", noID, ""},
		{"an ID token by its at_hash", hello(signed(claims{"typ": nil}, claims{"at_hash": "h"})), "", 401,
			"invalid_token", noID, ""},
		{"a logout token", hello(signed(claims{"typ": "logout+jwt"}, nil)), "", 401, "invalid_token", noAccess, ""},
		{"an ID token is for its client", hello(signed(claims{"typ": "JWT"}, claims{"aud": "client"})), "", 401,
			"invalid_token", audience, ""},
		{"an opaque token that nobody introspects", hello("2YotnFZFEjr1zCsicMWpAA"), "", 401, "invalid_token", noJWT, ""},
		{"malformed", hello(good + "."), "", 401, "invalid_token", noCompact, ""},
		{"a long one", hello(strings.Repeat("a", 17<<10)), "", 401, "invalid_token", "the token is too long", ""},

		{"no scope", hello(issuer.Token(nil)), "", 403, "insufficient_scope",
			"the token lacks a scope that every call needs: mcp", "mcp"},
		{"another scope", hello(token(claims{"scope": "files offline_access"})), "", 403, "insufficient_scope",
			"the token lacks a scope that every call needs: mcp", "mcp files"},
		{"groups that are left out", hello(token(claims{"_claim_names": claims{"groups": "src1"},
			"_claim_sources": claims{"src1": claims{"endpoint": stranger.URL}}})), "", 403, "",
			"the token leaves out the groups, since there are too many: have the issuer put fewer into it", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			scope := "mcp"
			if c.scope != "" {
				scope = c.scope
			}
			challenge := fmt.Sprintf(`resource_metadata=%q, scope=%q`,
				strings.TrimSuffix(g.url, "/mcp")+"/.well-known/oauth-protected-resource/mcp", scope)
			if c.code != "" {
				challenge = fmt.Sprintf(`error=%q, error_description=%q, `, c.code, c.text) + challenge
			}
			name := map[string]string{"invalid_request": "GH-TOKEN-MALFORMED", "invalid_token": "GH-TOKEN-INVALID",
				"insufficient_scope": "GH-SCOPE-MISSING"}[c.code]
			switch {
			case c.text == "the token has expired":
				name = "GH-TOKEN-EXPIRED"
			case name == "" && c.status == http.StatusForbidden:
				name = "GH-USER-REFUSED"
			case name == "":
				name = "GH-TOKEN-MISSING"
			}
			want := fmt.Sprintf(`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":%q,"data":{"error_code":%q}}}`,
				c.text, name)
			for _, r := range waysIn {
				client := unopened(t, g.url+c.query, r.revision)
				client.Session = r.session
				x, err := client.Do(deadline(t), r.verb, r.body, with(http.Header{"Authorization": c.authorization}, r.header))
				if err != nil {
					t.Fatal(err)
				}
				body := x.Text()
				x.Close()
				if got := x.Header.Values("Www-Authenticate"); x.Status != c.status || len(got) != 1 ||
					got[0] != "Bearer "+challenge {
					t.Errorf("%s: %d %q, want %d %s", r.name, x.Status, got, c.status, challenge)
				}
				if body != want || x.Header.Get("Content-Type") != "application/json" {
					t.Errorf("%s: %s, want %s", r.name, body, want)
				}
			}
		})
	}
	if n := len(s.Received("tools/call")); n > 0 {
		t.Errorf("%d calls reached the server", n)
	}
	if log := g.log.String(); strings.Contains(log, parts[2]) || strings.Contains(log, "access_token") {
		t.Error("a token is in the log")
	}
}

// waysIn are requests of every kind. The invalid body of one must not matter, because
// nobody reads it.
var waysIn = []struct {
	name, revision, session, verb, body string
	header                              http.Header
}{
	{"a stateless call", stateless, "", "POST",
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"up__do"}}`,
		http.Header{"Mcp-Method": {"tools/call"}}},
	{"initialize", statefulClient, "", "POST", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`, nil},
	{"a request of a session", statefulServer, "ABC", "POST", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, nil},
	{"half a body", stateless, "", "POST", `{"jsonrpc":`, nil},
	{"GET", statefulClient, "ABC", "GET", "", http.Header{"Accept": {"text/event-stream"}}},
	{"DELETE", statefulClient, "ABC", "DELETE", "", nil},
}

// TestGoodTokens: valid tokens of every form are accepted, in both eras.
func TestGoodTokens(t *testing.T) {
	t.Parallel()
	s := scripted(t, statefulServer)
	s.Tools("do")
	s.Tool("do", func(c *mcptest.Call) { c.Text("done") })
	g := guard(t, gateway.Config{
		Auth:      auth.Config{RequiredScopes: []string{"mcp"}, ImpliedScopes: map[string][]string{"admin": {"mcp"}}},
		Upstreams: []upstream.Config{{Name: "up", URL: s.URL}},
	})
	token := func(header, c claims) string { return g.issuer.Sign(header, with(claims{"scope": "mcp"}, c)) }
	for _, c := range []struct{ name, token string }{
		{"of RFC 9068", token(nil, nil)},
		{"typ JWT", token(claims{"typ": "JWT"}, nil)},
		{"no typ", token(claims{"typ": nil}, nil)},
		{"we are one of several audiences", token(nil, claims{"aud": []string{"https://other.example", g.url}})},
		{"a slash behind an issuer without a path", token(nil, claims{"iss": g.issuer.URL + "/"})},
		{"expired within the leeway", token(nil, claims{"exp": time.Now().Add(-time.Second).Unix()})},
		{"several scopes", token(nil, claims{"scope": "files mcp"})},
		{"a broader scope", token(nil, claims{"scope": "admin"})},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, revision := range eras {
				if got := said(mustCall(t, g.raw(t, revision, c.token), "tools/call", `{"name":"up__do"}`)); got != "done" {
					t.Errorf("%s: %s", revision, got)
				}
			}
		})
	}
	t.Run("bearer in lower case", func(t *testing.T) {
		c := unopened(t, g.url, stateless)
		c.Header = http.Header{"Authorization": {"bearer " + token(nil, nil)}}
		mustCall(t, c, "tools/call", `{"name":"up__do"}`)
	})
}

// TestResourceMetadata: a client finds its issuer by these, without a token.
func TestResourceMetadata(t *testing.T) {
	s := scripted(t, stateless)
	g := guard(t, gateway.Config{
		Auth:      auth.Config{RequiredScopes: []string{"mcp"}},
		Upstreams: []upstream.Config{{Name: "up", URL: s.URL}},
	})
	origin := strings.TrimSuffix(g.url, "/mcp")
	want := fmt.Sprintf(`{"resource":%q,"authorization_servers":[%q],"bearer_methods_supported":["header"],"scopes_supported":["mcp"]}`, g.url, g.issuer.URL)
	for _, c := range []struct {
		path   string
		status int
	}{
		{"/.well-known/oauth-protected-resource/mcp", 200},
		{"/.well-known/oauth-protected-resource", 200},
		{"/.well-known/oauth-protected-resource/other", 404},
		{"/.well-known/oauth-authorization-server", 404}, // the issuer serves that
	} {
		req, err := http.NewRequestWithContext(deadline(t), http.MethodGet, origin+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = "localhost" // they do not depend on the Host
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != c.status || err != nil ||
			c.status == 200 && (string(body) != want || resp.Header.Get("Content-Type") != "application/json") {
			t.Errorf("%s: %d %s, %v; want %d %s", c.path, resp.StatusCode, body, err, c.status, want)
		}
	}
}

// with returns members on top of others.
func with[M ~map[string]V, V any](base, more M) M {
	all := make(M, len(base)+len(more))
	for _, from := range []M{base, more} {
		for name, value := range from {
			all[name] = value
		}
	}
	return all
}

func part(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

// hs256 signs with the text of the issuer's public key, which everybody knows.
func hs256(t *testing.T, issuer *mcptest.Issuer, payload string) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(issuer.Key().Public())
	if err != nil {
		t.Fatal(err)
	}
	header, err := json.Marshal(claims{"alg": "HS256", "kid": issuer.Key().ID, "typ": "at+jwt"})
	if err != nil {
		t.Fatal(err)
	}
	input := part(string(header)) + "." + payload
	mac := hmac.New(sha256.New, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	mac.Write([]byte(input))
	return input + "." + part(string(mac.Sum(nil)))
}
