package issuer

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// local is a request from this machine for s.
func local(s *Issuer, method, path, body string) *http.Request {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.RemoteAddr, r.Host = "127.0.0.1:4000", s.host
	return r
}

func fuzzed(f *testing.F) *Issuer {
	f.Helper()
	s, err := New(testConfig("http://127.0.0.1:9000"), Deps{})
	if err != nil {
		f.Fatal(err)
	}
	return s
}

// FuzzAuthorize: whatever the request, a browser is never sent where it should not go, and
// never gets a code without a user's choice.
func FuzzAuthorize(f *testing.F) {
	id, _ := registeredID(client{name: "Test", redirects: []string{callback, "https://app.example/cb"}})
	f.Add(query(id).Encode())
	f.Add(query(id, "resource", "-").Encode())
	f.Add(query(id, "redirect_uri", "https://app.example/cb").Encode())
	f.Add(query(id, "redirect_uri", "http://127.0.0.1:1@evil.example/callback").Encode())
	f.Add(query(registeredPrefix + "eyJuIjoiIiwiciI6WyJqYXZhc2NyaXB0OngiXX0").Encode())
	f.Add(query("https://app.example/c", "state", "\r\n").Encode())
	f.Add("client_id=%zz&&;=")
	s := fuzzed(f)
	f.Fuzz(func(t *testing.T, raw string) {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			r := local(s, method, authorizePath, "user=alice&csrf=x")
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.URL.RawQuery = raw
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			to := w.Header().Get("Location")
			asked, _ := url.ParseQuery(raw)
			switch w.Code {
			case http.StatusOK:
				if method == http.MethodPost {
					t.Fatalf("POST %q: accepted", raw)
				}
			case http.StatusBadRequest, http.StatusForbidden:
				if to != "" {
					t.Fatalf("%q: %d with Location %q", raw, w.Code, to)
				}
			case http.StatusFound:
				c, err := registered(asked.Get("client_id"))
				if err != nil || !c.mayReturnTo(asked.Get("redirect_uri")) || !isLocal(to) ||
					!strings.HasPrefix(to, asked.Get("redirect_uri")+"?") && !strings.HasPrefix(to, asked.Get("redirect_uri")+"&") ||
					strings.Contains(to, "code=") && !strings.Contains(asked.Get("redirect_uri"), "code=") && !strings.Contains(asked.Get("state"), "code=") {
					t.Fatalf("%q: sent to %q", raw, to)
				}
			default:
				t.Fatalf("%q: %d", raw, w.Code)
			}
			if strings.ContainsAny(to, "\r\n") || strings.ContainsAny(w.Header().Get("Content-Security-Policy"), "\r\n") {
				t.Fatalf("%q: a line break in a header", raw)
			}
		}
	})
}

// FuzzToken: there is no token without a code, a refresh token or a secret, and no body
// causes a panic.
func FuzzToken(f *testing.F) {
	id, _ := registeredID(client{name: "Test", redirects: []string{callback}})
	s := fuzzed(f)
	other, err := New(testConfig("http://127.0.0.1:9001"), Deps{})
	if err != nil {
		f.Fatal(err)
	}
	foreign, err := other.Token("alice", resource)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(codeForm(id, "x").Encode(), "")
	f.Add(refreshForm(id, "x.y").Encode(), "")
	f.Add("grant_type=client_credentials&resource="+url.QueryEscape(resource), "Basic c2NyaXB0Og==")
	f.Add("grant_type=client_credentials&client_id=script&client_secret=&resource="+url.QueryEscape(resource), "")
	f.Add("grant_type="+url.QueryEscape(grantExchange)+"&client_id=gateway&subject_token="+foreign+"&subject_token_type="+
		url.QueryEscape(accessTokenType)+"&resource="+url.QueryEscape(upstream), "")
	f.Add("a=%zz&&;=", "Basic !")
	f.Fuzz(func(t *testing.T, body, authorization string) {
		for _, path := range []string{tokenPath, revokePath, introspectPath} {
			r := local(s, http.MethodPost, path, body)
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			if authorization != "" {
				r.Header["Authorization"] = []string{authorization}
			}
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			if w.Code == http.StatusOK && path == revokePath {
				continue // RFC 7009 §2.2: the response says nothing about unknown tokens
			}
			if w.Code != http.StatusBadRequest && w.Code != http.StatusUnauthorized {
				t.Fatalf("%s %q %q: %d %s", path, body, authorization, w.Code, w.Body)
			}
		}
	})
}

// FuzzRegister: every accepted client gets an id that leads back to the same client.
func FuzzRegister(f *testing.F) {
	f.Add(`{"client_name":"x","redirect_uris":["http://localhost/cb"],"grant_types":["authorization_code","refresh_token"]}`)
	f.Add(`{"redirect_uris":["cursor://a/b","https://app.example/?x=y"]}`)
	f.Add(`{"client_name":"\ud800\u202e","redirect_uris":["http://[::1]:1/"],"grant_types":null}`)
	s := fuzzed(f)
	f.Fuzz(func(t *testing.T, body string) {
		r := local(s, http.MethodPost, registerPath, body)
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code == http.StatusBadRequest {
			return
		}
		if w.Code != http.StatusCreated {
			t.Fatalf("%q: %d", body, w.Code)
		}
		id := member(t, answer{body: w.Body.String()}, "client_id")
		c, err := registered(id)
		if err != nil || len(c.redirects) == 0 || !c.mayReturnTo(c.redirects[0]) {
			t.Fatalf("%q: the id %q is no client: %+v, %v", body, id, c, err)
		}
	})
}
