package issuer

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

func TestSignInPage(t *testing.T) {
	s := start(t, Deps{})
	a := s.get(t, authorizePath+"?"+query(clientID(t, callback)).Encode())
	for _, want := range []string{"For development only", "Test", "Alice", "Bob", "engineering", "127.0.0.1:5000", resource, "use the gateway"} {
		if !strings.Contains(a.body, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if strings.Contains(a.body, "admin") || strings.Contains(a.body, "<script") {
		t.Errorf("the page says too much:\n%s", a.body)
	}
	csp := a.Header.Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'none'", "form-action 'self' http://127.0.0.1:5000;", "frame-ancestors 'none'", "base-uri 'none'"} {
		if !strings.Contains(csp, want) {
			t.Errorf("the policy has no %s: %s", want, csp)
		}
	}
	if a.Header.Get("X-Frame-Options") != "DENY" || a.Header.Get("Cache-Control") != "no-store" || a.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("headers: %v", a.Header)
	}
	if c := a.Cookies(); len(c) != 1 || !c[0].HttpOnly || c[0].SameSite != http.SameSiteStrictMode {
		t.Errorf("cookies: %v", c)
	}
	if style := s.get(t, "/style.css"); style.StatusCode != http.StatusOK || !strings.HasPrefix(style.Header.Get("Content-Type"), "text/css") {
		t.Errorf("style: %d %v", style.StatusCode, style.Header)
	}
}

// TestNamesAreHarmless shows a client with a malicious name.
func TestNamesAreHarmless(t *testing.T) {
	s := start(t, Deps{})
	name := `<script>alert(1)</script>` + "\u202e\u0000\n" + strings.Repeat("x", 1000)
	a := s.postBody(t, registerPath, `{"client_name":`+quoted(name)+`,"redirect_uris":["`+callback+`"]}`, "Content-Type: application/json")
	id := member(t, a, "client_id")
	page := s.get(t, authorizePath+"?"+query(id).Encode())
	if page.StatusCode != http.StatusOK || !strings.Contains(page.body, "&lt;script&gt;") ||
		strings.ContainsAny(page.body, "\u202e\u0000") || strings.Contains(page.body, strings.Repeat("x", maxClientName+1)) {
		t.Errorf("%d\n%s", page.StatusCode, page.body)
	}
}

// TestRefusedOnThePage sends requests that must not be answered at the redirect URI,
// because that is in doubt.
func TestRefusedOnThePage(t *testing.T) {
	s := start(t, Deps{})
	good := clientID(t, callback)
	twice := func(name, value string) url.Values {
		q := query(good)
		q.Add(name, value)
		return q
	}
	for _, tt := range []struct {
		name  string
		query url.Values
		want  string
	}{
		{"no client", query(good, "client_id", "-"), "client_id is missing"},
		{"unknown client", query("nobody"), "no such client"},
		{"a client with a secret", query("script"), "no such client"},
		{"a client id that is not base64", query(registeredPrefix + "!"), "no such client"},
		{"a client id that is not JSON", query(registeredPrefix + "eA"), "no such client"},
		{"a second id for the same client", query(registeredPrefix + base64.RawURLEncoding.EncodeToString([]byte(`{"n":"Test", "r":["`+callback+`"]}`))), "no such client"},
		{"a made-up client that could not register", query(clientID(t, "http://evil.example/")), "no such client"},
		{"a metadata document, which is not offered", query("https://app.example/client"), "let it register"},
		{"two clients", twice("client_id", good), "more than once"},
		{"no redirect_uri", query(good, "redirect_uri", "-"), "redirect_uri is missing"},
		{"two redirect_uris", twice("redirect_uri", callback), "more than once"},
		{"two states", twice("state", "x"), "more than once"},
		{"another redirect_uri", query(good, "redirect_uri", "https://evil.example/callback"), "none of those"},
		{"another path", query(good, "redirect_uri", callback+"/x"), "none of those"},
		{"another host of this machine", query(good, "redirect_uri", "http://localhost:5000/callback"), "none of those"},
		{"a fragment", query(good, "redirect_uri", callback+"#x"), "none of those"},
		{"too long", query(good, "state", strings.Repeat("x", maxQuery)), "too long"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, method := range []string{http.MethodGet, http.MethodPost} {
				var a answer
				if path := authorizePath + "?" + tt.query.Encode(); method == http.MethodGet {
					a = s.get(t, path)
				} else {
					a = s.post(t, path, url.Values{"user": {"alice"}})
				}
				if a.StatusCode != http.StatusBadRequest || a.Header.Get("Location") != "" || !strings.Contains(a.body, tt.want) {
					t.Errorf("%s: %d %q\n%s", method, a.StatusCode, a.Header.Get("Location"), a.body)
				}
			}
		})
	}
	if a := s.get(t, authorizePath+"?a=%zz"); a.StatusCode != http.StatusBadRequest {
		t.Errorf("a broken query: %d", a.StatusCode)
	}
}

// TestRefusedAtTheClient sends bad requests of a known client: it gets the error, with its
// state and the issuer (RFC 9207 §2).
func TestRefusedAtTheClient(t *testing.T) {
	s := start(t, Deps{})
	good := clientID(t, callback)
	twoResources := query(good)
	twoResources.Add("resource", other)
	twoScopes := query(good)
	twoScopes.Add("scope", "admin")
	for _, tt := range []struct {
		name       string
		query      url.Values
		code, want string
	}{
		{"no response_type", query(good, "response_type", "-"), errResponseType, "want code"},
		{"implicit", query(good, "response_type", "token"), errResponseType, "want code"},
		{"fragment", query(good, "response_mode", "fragment"), errInvalidRequest, "want query"},
		{"no PKCE", query(good, "code_challenge", "-"), errInvalidRequest, "PKCE is required"},
		{"no method, which means plain", query(good, "code_challenge_method", "-"), errInvalidRequest, "want S256"},
		{"plain", query(good, "code_challenge_method", "plain"), errInvalidRequest, "want S256"},
		{"a challenge that is none", query(good, "code_challenge", verifier), errInvalidRequest, "43 characters"},
		{"no resource", query(good, "resource", "-"), errInvalidTarget, "resource is missing"},
		{"another resource", query(good, "resource", "https://evil.example/mcp"), errInvalidTarget, "makes no tokens"},
		{"a resource in another spelling", query(good, "resource", resource+"/"), errInvalidTarget, "makes no tokens"},
		{"two resources", twoResources, errInvalidTarget, "one at a time"},
		{"unknown scopes", query(good, "scope", "openid email"), errInvalidScope, "mcp admin"},
		{"scope twice", twoScopes, errInvalidRequest, "more than once"},
		{"a request object", query(good, "request", "x"), errInvalidRequest, "not supported"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := s.get(t, authorizePath+"?"+tt.query.Encode())
			got := location(t, a, callback)
			if a.StatusCode != http.StatusFound || got.Get("error") != tt.code || !strings.Contains(got.Get("error_description"), tt.want) {
				t.Errorf("%d %v", a.StatusCode, got)
			}
			if got.Get("state") != "s&=t" || got.Get("iss") != s.URL() || got.Has("code") {
				t.Errorf("state, iss: %v", got)
			}
		})
	}
	t.Run("no state", func(t *testing.T) {
		got := location(t, s.get(t, authorizePath+"?"+query(good, "state", "-", "resource", "-").Encode()), callback)
		if got.Has("state") {
			t.Errorf("a state that was not sent: %v", got)
		}
	})
}

// TestNoOpenRedirector: a link alone never sends a browser to another machine.
func TestNoOpenRedirector(t *testing.T) {
	s := start(t, Deps{})
	away := "https://app.example/callback?a=b"
	q := query(clientID(t, away), "redirect_uri", away, "resource", "-")
	a := s.get(t, authorizePath+"?"+q.Encode())
	if a.StatusCode != http.StatusBadRequest || a.Header.Get("Location") != "" ||
		!strings.Contains(a.body, `href="https://app.example/callback?a=b&amp;error=invalid_target`) {
		t.Errorf("%d %q\n%s", a.StatusCode, a.Header.Get("Location"), a.body)
	}
	page := s.get(t, authorizePath+"?"+change(q, "resource", resource).Encode())
	if !strings.Contains(page.body, "app.example is not on this machine") {
		t.Errorf("no warning:\n%s", page.body)
	}
	if got := s.signIn(t, "alice", query(clientID(t, callback))); got.Get("code") == "" {
		t.Errorf("the good one: %v", got)
	}
}

func TestDecision(t *testing.T) {
	s := start(t, Deps{})
	q := query(clientID(t, callback))
	path := authorizePath + "?" + q.Encode()
	page := s.get(t, path)
	csrf := csrfField.FindStringSubmatch(page.body)[1]

	t.Run("a user", func(t *testing.T) {
		got := s.signIn(t, "alice", q)
		if got.Get("code") == "" || got.Get("state") != "s&=t" || got.Get("iss") != s.URL() || got.Has("error") {
			t.Errorf("%v", got)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		got := location(t, s.post(t, path, url.Values{"csrf": {csrf}, "cancel": {"1"}}), callback)
		if got.Get("error") != errAccessDenied || got.Get("state") != "s&=t" || got.Get("iss") != s.URL() || got.Has("code") {
			t.Errorf("%v", got)
		}
	})
	refused := func(name string, want int, do func(t *testing.T) answer) {
		t.Run(name, func(t *testing.T) {
			if a := do(t); a.StatusCode != want || a.Header.Get("Location") != "" {
				t.Errorf("%d, want %d; to %q", a.StatusCode, want, a.Header.Get("Location"))
			}
		})
	}
	choice := url.Values{"csrf": {csrf}, "user": {"alice"}}
	refused("nobody", http.StatusBadRequest, func(t *testing.T) answer {
		return s.post(t, path, url.Values{"csrf": {csrf}, "user": {"mallory"}})
	})
	refused("no token", http.StatusForbidden, func(t *testing.T) answer {
		return s.post(t, path, url.Values{"user": {"alice"}})
	})
	refused("the token of another request", http.StatusForbidden, func(t *testing.T) answer {
		return s.post(t, authorizePath+"?"+change(q, "resource", other).Encode(), choice)
	})
	refused("from another site", http.StatusForbidden, func(t *testing.T) answer {
		return s.post(t, path, choice, "Sec-Fetch-Site: cross-site")
	})
	refused("from another origin", http.StatusForbidden, func(t *testing.T) answer {
		return s.post(t, path, choice, "Origin: https://evil.example")
	})
	s.client.Jar = nil
	refused("no cookie", http.StatusForbidden, func(t *testing.T) answer { return s.post(t, path, choice) })
	refused("another browser", http.StatusForbidden, func(t *testing.T) answer {
		return s.post(t, path, choice, "Cookie: "+csrfCookie+"=AAAAAAAAAAAAAAAAAAAAAAAAAA")
	})
}

func TestRedirectURIs(t *testing.T) {
	for _, tt := range []struct {
		uri   string
		good  bool
		local bool
	}{
		{"http://127.0.0.1/callback", true, true},
		{"http://127.0.0.1:5000", true, true},
		{"http://localhost:33418/", true, true},
		{"http://[::1]:5000/callback?a=b", true, true},
		{"https://vscode.dev/redirect", true, false},
		{"https://app.example:8443/cb?x=y", true, false},
		{"cursor://anysphere.cursor-mcp/oauth/callback", true, true},
		{"com.example.app:/oauth", true, true},

		{"", false, false},
		{"/callback", false, false},
		{"//app.example/callback", false, false},
		{"http://app.example/callback", false, false},
		{"http://10.0.0.1/callback", false, false},
		{"HTTPS://app.example/", true, false},
		{"http://127.0.0.2/callback", false, false},
		{"http://127.0.0.1.evil.example/", false, false},
		{"http://localhost.evil.example/", false, false},
		{"http://localhost@evil.example/", false, false},
		{"http://localhost:5000@evil.example/", false, false},
		{"http://localhost:port/", false, false},
		{"https://u:p@app.example/", false, false},
		{"https://app.example/#f", false, false},
		{"https://app.example/#", false, false},
		{"https:///callback", false, false},
		{"https:app.example", false, false},
		{"https://a;script-src *", false, false},
		{"https://a;script-src/", false, false},
		{"https://app.example/\r\nX: y", false, false},
		{"https://app.example/ x", false, false},
		{`https://app.example/\x`, false, false},
		{`https://app.example/"x`, false, false},
		{"https://app.exämple/", false, false},
		{"https://169.254.169.254/", false, false},
		{"https://2852039166/", false, false},
		{"https://%61pp.example/", false, false},
		{"https://app.example/%E2%80%AEgnp.exe", false, false},
		{"javascript:alert(1)", false, false},
		{"JavaScript:alert(1)", false, false},
		{"javascript://localhost/%0aalert(1)", false, false},
		{"data:text/html,x", false, false},
		{"file:///etc/passwd", false, false},
		{"https://app.example/" + strings.Repeat("x", maxURI), false, false},
	} {
		if err := checkRedirect(tt.uri); (err == nil) != tt.good {
			t.Errorf("%q: %v", tt.uri, err)
		}
		if tt.good && isLocal(tt.uri) != tt.local {
			t.Errorf("%q: on this machine: %t", tt.uri, isLocal(tt.uri))
		}
	}
}

func TestMatches(t *testing.T) {
	for _, tt := range []struct {
		registered, asked string
		want              bool
	}{
		{"http://127.0.0.1/callback", "http://127.0.0.1:61000/callback", true},
		{"http://127.0.0.1:1/callback", "http://127.0.0.1:61000/callback", true},
		{"http://localhost:33418/", "http://localhost:61000/", true},
		{"http://[::1]/a?b=c", "http://[::1]:9/a?b=c", true},
		{"https://app.example/cb", "https://app.example/cb", true},
		{"cursor://a/b", "cursor://a/b", true},

		{"http://127.0.0.1/callback", "http://127.0.0.1:61000/callback/", false},
		{"http://127.0.0.1/callback", "http://127.0.0.1:61000/Callback", false},
		{"http://127.0.0.1/callback", "http://127.0.0.1:61000/callback?x=y", false},
		{"http://127.0.0.1/callback", "http://localhost:61000/callback", false},
		{"http://127.0.0.1/callback", "https://127.0.0.1:61000/callback", false},
		{"http://127.0.0.1", "http://127.0.0.1:61000/", false},
		{"https://app.example/cb", "https://app.example:8443/cb", false},
		{"https://app.example/cb", "https://APP.example/cb", false},
		{"https://app.example/cb", "https://app.example/cb?x", false},
		{"cursor://a/b", "cursor://a/b/", false},
	} {
		if got := matches(tt.registered, tt.asked); got != tt.want {
			t.Errorf("%q for %q: %t", tt.asked, tt.registered, got)
		}
	}
}
