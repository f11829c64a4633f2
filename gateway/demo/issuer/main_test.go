package issuer

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	resource  = "http://127.0.0.1:8080/mcp"
	other     = "http://127.0.0.1:8080/other"
	upstream  = "http://127.0.0.1:8081/mcp"
	callback  = "http://127.0.0.1:5000/callback"
	verifier  = "the-verifier-of-these-tests-0123456789-abcdef"
	challenge = "cpG-nXEaygbDW4JmvRnBoFW00cryBfwStcE7UiRsufk"
)

func testConfig(at string) Config {
	return Config{
		URL:       at,
		Resources: []string{resource, other},
		Scopes:    []Scope{{Name: "mcp", Means: "use the gateway"}, {Name: "admin"}},
		Users: []User{
			{Subject: "alice", Name: "Alice", Email: "alice@example.com", Groups: []string{"engineering"}, About: "deploys"},
			{Subject: "bob", Name: "Bob", Email: "bob@example.com", Groups: []string{"support"}, About: "reads"},
		},
		Clients: []Client{
			{ID: "gateway", Secret: "gateway-secret", Resource: resource, Exchange: []string{upstream}},
			{ID: "script", Secret: "a secret: with%/&", Groups: []string{"automation"}, Audiences: []string{resource}},
		},
	}
}

// server is a listening issuer together with a browser.
type server struct {
	*Issuer
	http   *httptest.Server
	client *http.Client
}

func start(t *testing.T, deps Deps) *server {
	t.Helper()
	h := httptest.NewUnstartedServer(nil)
	s, err := New(testConfig("http://"+h.Listener.Addr().String()), deps)
	if err != nil {
		t.Fatal(err)
	}
	h.Config.Handler = s
	h.Start()
	t.Cleanup(h.Close)
	return &server{Issuer: s, http: h, client: browserClient(t, h.Client())}
}

// browserClient keeps cookies and follows no redirects.
func browserClient(t *testing.T, client *http.Client) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	client.Jar = jar
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return client
}

// answer is a response with its body read.
type answer struct {
	*http.Response
	body string
}

func (s *server) do(t *testing.T, r *http.Request) answer {
	t.Helper()
	response, err := s.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{response, string(body)}
}

func (s *server) get(t *testing.T, path string) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.http.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s.do(t, r)
}

// post sends a form; each of headers is "Name: value".
func (s *server) post(t *testing.T, path string, form url.Values, headers ...string) answer {
	t.Helper()
	return s.postBody(t, path, form.Encode(), append([]string{"Content-Type: application/x-www-form-urlencoded"}, headers...)...)
}

func (s *server) postBody(t *testing.T, path, body string, headers ...string) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.http.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		r.Header.Set(name, value)
	}
	return s.do(t, r)
}

// clientID is the id of a client with these redirect URIs.
func clientID(t *testing.T, redirects ...string) string {
	t.Helper()
	id, ok := registeredID(client{name: "Test", redirects: redirects, refreshes: true})
	if !ok {
		t.Fatal("the id is too long")
	}
	return id
}

// query is a good authorization request, with changes: name, value, name, value. The value
// "-" removes a parameter.
func query(clientID string, changes ...string) url.Values {
	q := url.Values{
		"response_type": {"code"}, "client_id": {clientID}, "redirect_uri": {callback}, "state": {"s&=t"},
		"code_challenge": {challenge}, "code_challenge_method": {"S256"}, "resource": {resource}, "scope": {"mcp"},
	}
	return change(q, changes...)
}

func change(q url.Values, changes ...string) url.Values {
	for i := 0; i < len(changes); i += 2 {
		if changes[i+1] == "-" {
			q.Del(changes[i])
		} else {
			q.Set(changes[i], changes[i+1])
		}
	}
	return q
}

var csrfField = regexp.MustCompile(`name="csrf" value="([^"]*)"`)

// signIn opens the page, picks a user and returns the parameters that come back.
func (s *server) signIn(t *testing.T, user string, q url.Values) url.Values {
	t.Helper()
	path := authorizePath + "?" + q.Encode()
	page := s.get(t, path)
	field := csrfField.FindStringSubmatch(page.body)
	if page.StatusCode != http.StatusOK || field == nil {
		t.Fatalf("the page: %d %s\n%s", page.StatusCode, page.Header.Get("Location"), page.body)
	}
	back := s.post(t, path, url.Values{"csrf": {field[1]}, "user": {user}})
	if back.StatusCode != http.StatusSeeOther {
		t.Fatalf("the choice: %d\n%s", back.StatusCode, back.body)
	}
	return location(t, back, q.Get("redirect_uri"))
}

// location returns the parameters that a redirect to uri carries.
func location(t *testing.T, a answer, uri string) url.Values {
	t.Helper()
	to, params, _ := strings.Cut(a.Header.Get("Location"), "?")
	if to != uri {
		t.Fatalf("%d, sent to %q, want %q\n%s", a.StatusCode, to, uri, a.body)
	}
	values, err := url.ParseQuery(params)
	if err != nil {
		t.Fatal(err)
	}
	return values
}
