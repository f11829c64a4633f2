package issuer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

func quoted(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// member returns a string member of a JSON answer.
func member(t *testing.T, a answer, name string) string {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal([]byte(a.body), &m); err != nil {
		t.Fatalf("%d %s: %v", a.StatusCode, a.body, err)
	}
	value, _ := m[name].(string)
	return value
}

func TestRegister(t *testing.T) {
	s := start(t, Deps{})
	register := func(body string) answer {
		return s.postBody(t, registerPath, body, "Content-Type: application/json; charset=utf-8")
	}
	a := register(`{"client_name":"Inspector","redirect_uris":["http://localhost:6274/oauth/callback"],` +
		`"grant_types":["authorization_code","refresh_token"],"response_types":["code"],` +
		`"token_endpoint_auth_method":"client_secret_basic","application_type":"native","logo_uri":"https://x.example/"}`)
	if a.StatusCode != http.StatusCreated || a.Header.Get("Cache-Control") != "no-store" || a.Header.Get("Access-Control-Allow-Origin") != "*" {
		t.Fatalf("%d %v\n%s", a.StatusCode, a.Header, a.body)
	}
	if member(t, a, "token_endpoint_auth_method") != "none" || strings.Contains(a.body, "client_secret\"") ||
		!strings.Contains(a.body, `"grant_types":["authorization_code","refresh_token"]`) {
		t.Errorf("registered as %s", a.body)
	}
	id := member(t, a, "client_id")
	again := start(t, Deps{}) // after a restart
	if c, err := again.find(t.Context(), id); err != nil || c.name != "Inspector" || !c.refreshes || !c.mayReturnTo("http://localhost:9/oauth/callback") {
		t.Errorf("the client, read from its id: %+v, %v", c, err)
	}
	if a := register(`{"redirect_uris":["` + callback + `"]}`); a.StatusCode != http.StatusCreated ||
		strings.Contains(a.body, "refresh_token") || member(t, a, "client_name") == "" {
		t.Errorf("the least that is needed: %d %s", a.StatusCode, a.body)
	}

	var long []string
	for i := range 5 {
		long = append(long, quoted(fmt.Sprintf("%s/%d/%s", callback, i, strings.Repeat("x", 900))))
	}
	for _, tt := range []struct{ name, body, code string }{
		{"nothing", ``, errInvalidMetadata},
		{"an array", `[]`, errInvalidMetadata},
		{"no redirects", `{}`, errInvalidMetadata},
		{"empty redirects", `{"redirect_uris":[]}`, errInvalidMetadata},
		{"redirects that are no list", `{"redirect_uris":"` + callback + `"}`, errInvalidMetadata},
		{"many redirects", `{"redirect_uris":[` + strings.Repeat(`"`+callback+`",`, maxRedirects) + `"` + callback + `"]}`, errInvalidMetadata},
		{"long redirects", `{"redirect_uris":[` + strings.Join(long, ",") + `]}`, errInvalidMetadata},
		{"a bad redirect", `{"redirect_uris":["` + callback + `","http://evil.example/"]}`, errInvalidRedirect},
		{"a script", `{"redirect_uris":["javascript:alert(1)"]}`, errInvalidRedirect},
		{"only client_credentials", `{"redirect_uris":["` + callback + `"],"grant_types":["client_credentials"]}`, errInvalidMetadata},
		{"only tokens", `{"redirect_uris":["` + callback + `"],"response_types":["token"]}`, errInvalidMetadata},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if a := register(tt.body); a.StatusCode != http.StatusBadRequest || member(t, a, "error") != tt.code {
				t.Errorf("%d %s", a.StatusCode, a.body)
			}
		})
	}
	if a := s.postBody(t, registerPath, `{"redirect_uris":["`+callback+`"]}`, "Content-Type: text/plain"); a.StatusCode != http.StatusBadRequest {
		t.Errorf("a form of another site: %d", a.StatusCode)
	}
}

func TestMetadataDocuments(t *testing.T) {
	const id = "https://app.example/client.json"
	good := `{"client_id":"` + id + `","client_name":"App","redirect_uris":["http://localhost/callback"],"grant_types":["authorization_code","refresh_token"]}`
	for _, tt := range []struct{ name, id, body, want string }{
		{"good", id, good, ""},
		{"good, without a secret", id, strings.Replace(good, `{`, `{"token_endpoint_auth_method":"none",`, 1), ""},
		{"of another client", id, strings.Replace(good, "client.json", "other.json", 1), "client_id is not its URL"},
		{"without a name", id, strings.Replace(good, `"App"`, `""`, 1), "client_name is missing"},
		{"with a key", id, strings.Replace(good, `{`, `{"token_endpoint_auth_method":"private_key_jwt",`, 1), "only none"},
		{"a bad redirect", id, strings.Replace(good, "http://localhost", "http://evil.example", 1), "http is for localhost"},
		{"no redirects", id, `{"client_id":"` + id + `","client_name":"App"}`, "redirect_uris"},
		{"not JSON", id, `<html>`, "not a JSON object"},
		{"nothing", id, ``, "not a JSON object"},
		{"large", id, good + strings.Repeat(" ", maxDocument), "larger than"},
		{"on http", "http://app.example/client.json", good, "no such client"},
		{"without a path", "https://app.example", good, "want a path"},
		{"the root", "https://app.example/", good, "want a path"},
		{"dot segments", "https://app.example/a/../client.json", good, "dot segments"},
		{"hidden dot segments", "https://app.example/a/%2e%2e/client.json", good, "dot segments"},
		{"a fragment", id + "#x", good, "fragment"},
		{"a user", "https://u@app.example/client.json", good, "without user"},
		{"no host", "https:///client.json", good, "want https with a host"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fetched := 0
			s := start(t, Deps{Fetch: func(_ context.Context, url string) ([]byte, error) {
				fetched++
				if url != tt.id {
					t.Errorf("fetched %s", url)
				}
				return []byte(tt.body), nil
			}})
			q := query(tt.id, "redirect_uri", "http://localhost:5001/callback")
			if tt.want == "" {
				page := s.get(t, authorizePath+"?"+q.Encode())
				if !strings.Contains(page.body, "app.example") || !strings.Contains(page.body, "Any program on this machine can call itself App") {
					t.Errorf("the page:\n%s", page.body)
				}
				got := s.signIn(t, "bob", q)
				a := s.post(t, tokenPath, codeForm(tt.id, got.Get("code"), "redirect_uri", "http://localhost:5001/callback"))
				if a.StatusCode != http.StatusOK || member(t, a, "refresh_token") == "" || fetched != 1 {
					t.Errorf("%d %s; fetched %d times", a.StatusCode, a.body, fetched)
				}
				return
			}
			if a := s.get(t, authorizePath+"?"+q.Encode()); a.StatusCode != http.StatusBadRequest || !strings.Contains(a.body, tt.want) {
				t.Errorf("%d\n%s", a.StatusCode, a.body)
			}
		})
	}
	t.Run("unreachable", func(t *testing.T) {
		fetched := 0
		s := start(t, Deps{Fetch: func(context.Context, string) ([]byte, error) {
			fetched++
			return nil, errors.New("no route")
		}})
		for range 2 {
			if a := s.get(t, authorizePath+"?"+query(id).Encode()); a.StatusCode != http.StatusBadRequest || !strings.Contains(a.body, "no route") {
				t.Errorf("%d\n%s", a.StatusCode, a.body)
			}
		}
		if fetched != 2 {
			t.Errorf("fetched %d times: a failure must not be kept", fetched)
		}
		if !strings.Contains(s.get(t, "/.well-known/oauth-authorization-server").body, `"client_id_metadata_document_supported":true`) {
			t.Error("the metadata does not offer it")
		}
	})
}
