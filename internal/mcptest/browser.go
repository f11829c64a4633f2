package mcptest

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
)

// userHeader is how a browser of NewBrowser says who has signed in at an Issuer.
const userHeader = "Mcptest-User"

// LetSignIn has the issuer sign browsers in at once, each as its user, one that is not of NewBrowser as
// alice. Their tokens have these claims, too.
func (i *Issuer) LetSignIn(claims map[string]any) {
	i.SetMetadata("authorization_response_iss_parameter_supported", true)
	i.Handle("/authorize", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		user := cmp.Or(r.Header.Get(userHeader), "alice")
		answer := url.Values{"code": {"code-of-" + user}, "state": {q.Get("state")}, "iss": {i.URL}}
		http.Redirect(w, r, q.Get("redirect_uri")+"?"+answer.Encode(), http.StatusSeeOther)
	})
	i.Handle("/token", func(w http.ResponseWriter, r *http.Request) {
		all := map[string]any{"sub": strings.TrimPrefix(r.PostFormValue("code"), "code-of-")}
		maps.Copy(all, claims)
		w.Header().Set("Content-Type", "application/json")
		answer := map[string]any{"access_token": i.Token(all), "token_type": "Bearer", "expires_in": 300}
		_ = json.NewEncoder(w).Encode(answer)
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
