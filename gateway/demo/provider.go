package demo

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	_ "embed" // the page
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/gatehouse-mcp/gatehouse/internal/seal"
	"github.com/gatehouse-mcp/gatehouse/internal/webpage"
)

const (
	codeLifetime    = time.Minute
	idTokenLifetime = 5 * time.Minute
)

//go:embed text/users.html
var usersPage string

// provider stands in for an identity provider (OpenID Connect), with a page of users in place of passwords.
// The gateway is its only client, with a secret: the codes that others get here are of no use to them.
type provider struct {
	URL, ClientID string

	secret   string
	redirect string // of the gateway
	users    []user
	public   jose.JSONWebKey
	signer   jose.Signer
	codes    *seal.Key
	pages    *webpage.Pages
}

// code is the sealed content of an authorization code, bound to the challenge of PKCE.
type code struct {
	User  string    `json:"user"`
	Nonce string    `json:"nonce"`
	Until time.Time `json:"until"`
}

// newProvider makes a provider with new keys.
func newProvider(at, redirect string, users []user) (*provider, error) {
	p := &provider{URL: at, ClientID: "gateway", secret: rand.Text(), redirect: redirect, users: users}
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	p.public = jose.JSONWebKey{Key: private.Public(), KeyID: rand.Text(), Algorithm: string(jose.ES256), Use: "sig"}
	p.signer, err = jose.NewSigner(
		jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: private, KeyID: p.public.KeyID}}, nil)
	if err != nil {
		return nil, fmt.Errorf("making a signer: %w", err)
	}
	if p.codes, err = seal.NewRandom("demo codes"); err != nil {
		return nil, err
	}
	p.pages, err = webpage.New(usersPage)
	return p, err
}

// handler serves the endpoints.
func (p *provider) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", p.metadata)
	mux.HandleFunc("GET /jwks", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{p.public}})
	})
	mux.HandleFunc("GET /authorize", p.authorize)
	mux.HandleFunc("POST /authorize", p.signIn)
	mux.HandleFunc("POST /token", p.token)
	mux.HandleFunc("GET "+webpage.StylePath, webpage.Style)
	return mux
}

func (p *provider) metadata(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, map[string]any{
		"issuer":                                p.URL,
		"authorization_endpoint":                p.URL + "/authorize",
		"token_endpoint":                        p.URL + "/token",
		"jwks_uri":                              p.URL + "/jwks",
		"response_types_supported":              []string{"code"},
		"code_challenge_methods_supported":      []string{"S256"},
		"subject_types_supported":               []string{"public"},
		"id_token_signing_alg_values_supported": []string{string(jose.ES256)},
		"token_endpoint_auth_methods_supported": []string{"client_secret_basic"},

		"authorization_response_iss_parameter_supported": true,
	})
}

// authorize shows the page of users.
func (p *provider) authorize(w http.ResponseWriter, r *http.Request) {
	if p.sent(w, r.URL.Query()) {
		p.pages.Show(w, http.StatusOK, "users", p.redirect, p.users)
	}
}

// signIn sends the browser back to the gateway with a code for the user who was picked.
func (p *provider) signIn(w http.ResponseWriter, r *http.Request) {
	asked := r.URL.Query()
	if !p.sent(w, asked) {
		return
	}
	picked := r.PostFormValue("user")
	known := slices.ContainsFunc(p.users, func(u user) bool { return u.Subject == picked })
	plain, err := json.Marshal(code{User: picked, Nonce: asked.Get("nonce"), Until: time.Now().Add(codeLifetime)})
	if !known || err != nil || !webpage.SameSite(r) {
		http.Error(w, "pick one of the users on the page", http.StatusBadRequest)
		return
	}
	back := url.Values{
		"code": {p.codes.Seal(plain, asked.Get("code_challenge"))}, "state": {asked.Get("state")}, "iss": {p.URL},
	}
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, p.redirect+"?"+back.Encode(), http.StatusSeeOther)
}

// sent reports whether the gateway sent the browser here, and tells its user if not.
func (p *provider) sent(w http.ResponseWriter, asked url.Values) bool {
	ok := asked.Get("client_id") == p.ClientID && asked.Get("redirect_uri") == p.redirect &&
		asked.Get("response_type") == "code" && asked.Get("code_challenge_method") == "S256"
	if !ok {
		http.Error(w, "this page signs in those whom the demo's gateway sends", http.StatusBadRequest)
	}
	return ok
}

// token gives the gateway an ID token for a code.
func (p *provider) token(w http.ResponseWriter, r *http.Request) {
	id, secret, _ := r.BasicAuth()
	if id != p.ClientID || subtle.ConstantTimeCompare([]byte(secret), []byte(p.secret)) != 1 {
		answer(w, http.StatusUnauthorized, map[string]string{"error": "invalid_client"})
		return
	}
	verifier := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	plain, err := p.codes.Open(r.PostFormValue("code"), base64.RawURLEncoding.EncodeToString(verifier[:]))
	var c code
	if err != nil || json.Unmarshal(plain, &c) != nil || time.Now().After(c.Until) {
		answer(w, http.StatusBadRequest, map[string]string{"error": "invalid_grant"})
		return
	}
	token, err := p.idToken(c)
	if err != nil {
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	answer(w, http.StatusOK, map[string]any{
		"id_token": token, "token_type": "Bearer", "expires_in": int(idTokenLifetime.Seconds()),
		"access_token": rand.Text(), // required, and without any use
	})
}

// idToken returns an ID token for the user who has signed in (OpenID Connect Core §2).
func (p *provider) idToken(c code) (string, error) {
	u := p.users[slices.IndexFunc(p.users, func(u user) bool { return u.Subject == c.User })]
	now := time.Now()
	return jwt.Signed(p.signer).Claims(map[string]any{
		"iss": p.URL, "sub": u.Subject, "aud": p.ClientID, "nonce": c.Nonce,
		"iat": now.Unix(), "exp": now.Add(idTokenLifetime).Unix(),
		"name": u.Name, "email": u.Subject + "@example.com", "email_verified": true, "groups": u.Groups,
	}).Serialize()
}

// answer writes a document that must not be cached: all of it changes with each start.
func answer(w http.ResponseWriter, status int, document any) {
	body, err := json.Marshal(document)
	if err != nil {
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	w.Write(body)
}
