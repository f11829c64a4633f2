package safehttp

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
)

// A library that has an http.Client of the RoundTripper gets whole answers, and neither redirects nor
// forbidden addresses.
func TestRoundTripper(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/away" {
			http.Redirect(w, r, "/", http.StatusFound)
			return
		}
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Seen", string(body))
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, "hello")
	})
	c := newClient(t, Options{Trust: []string{s.URL}, Route: trust(t, s)})
	library := &http.Client{Transport: RoundTripper(c.Do)}
	answer, err := library.Post(s.URL, "text/plain", strings.NewReader("a=b"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.Body.Close() != nil || string(text) != "hello" || answer.ContentLength != 5 ||
		answer.Status != "418 I'm a teapot" ||
		answer.StatusCode != http.StatusTeapot || answer.Header.Get("X-Seen") != "a=b" ||
		answer.Request.Method != http.MethodPost {
		t.Errorf("%v %q %+v", err, text, answer)
	}
	if _, err := library.Get(s.URL + "/away"); !errors.Is(err, ErrRedirect) {
		t.Errorf("a redirect: %v", err)
	}
	if _, err := library.Get("http://169.254.169.254/"); !errors.Is(err, ErrForbidden) {
		t.Errorf("a forbidden address: %v", err)
	}
}

// Lifetimes of tokens are read however servers write them.
func TestExpiresIn(t *testing.T) {
	for given, want := range map[string]string{
		`{"access_token":"a","expires_in":3600.0}`:   `{"access_token":"a","expires_in":3600}`,
		`{"access_token":"a","expires_in":"3600.5"}`: `{"access_token":"a","expires_in":3600}`,
		`{"access_token":"a","expires_in":3.6e3}`:    `{"access_token":"a","expires_in":3600}`,
		`{"access_token":"a","expires_in":1e300}`:    `{"access_token":"a","expires_in":2147483647}`,
		`{"access_token":"a","expires_in":"soon"}`:   `{"access_token":"a"}`,
		`{"access_token":"a","expires_in":-1.5}`:     `{"access_token":"a"}`,
		`{"access_token":"a","expires_in":null}`:     `{"access_token":"a"}`,
		`{ "expires_in": 3600 }`:                     `{ "expires_in": 3600 }`,
		`{ "expires_in": "3600" }`:                   `{ "expires_in": "3600" }`,
		`{ "access_token": "a" }`:                    `{ "access_token": "a" }`,
		`expires_in=3600.0`:                          `expires_in=3600.0`,
	} {
		do := RoundTripper(func(*http.Request) (*Response, error) { return &Response{Status: 200, Body: []byte(given)}, nil })
		answer, err := do.RoundTrip(&http.Request{})
		if err != nil {
			t.Fatal(err)
		}
		if text, _ := io.ReadAll(answer.Body); string(text) != want || answer.ContentLength != int64(len(want)) {
			t.Errorf("%s: %s", given, text)
		}
	}
}
