package mcptest

import (
	"encoding/json"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
)

// userHeader is how a browser of NewBrowser says who has signed in at an Issuer.
const userHeader = "Mcptest-User"

// LetSignIn has the issuer sign browsers in, each as its user, at once.
func (i *Issuer) LetSignIn() {
	i.SetMetadata("authorization_response_iss_parameter_supported", true)
	i.Handle("/authorize", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		answer := url.Values{"code": {"code-of-" + r.Header.Get(userHeader)}, "state": {q.Get("state")}, "iss": {i.URL}}
		http.Redirect(w, r, q.Get("redirect_uri")+"?"+answer.Encode(), http.StatusSeeOther)
	})
	i.Handle("/token", func(w http.ResponseWriter, r *http.Request) {
		user := strings.TrimPrefix(r.PostFormValue("code"), "code-of-")
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"access_token": i.Token(map[string]any{"sub": user}), "token_type": "Bearer", "expires_in": 300})
	})
}

// NewBrowser returns a browser of a user: it follows redirects and keeps cookies. Its idle
// connections have to be closed.
func NewBrowser(user string) *http.Client {
	jar, err := cookiejar.New(nil)
	if err != nil {
		panic(err) // it never fails
	}
	return &http.Client{Jar: jar, Transport: &browserTransport{Transport: http.Transport{}, user: user}}
}

type browserTransport struct {
	http.Transport
	user string
}

// RoundTrip makes a request as a browser.
func (t *browserTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set(userHeader, t.user)
	if r.Method == http.MethodPost && r.Header.Get("Sec-Fetch-Site") == "" {
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	return t.Transport.RoundTrip(r)
}
