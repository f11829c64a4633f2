package issuer

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

const (
	maxQuery = 16 << 10
	// csrfCookie identifies the browser that a page was made for. Its name lacks the prefix
	// __Host-, which requires https.
	csrfCookie = "gatehouse_dev_issuer"
)

// challengeS256 is the format of RFC 7636 §4.2: a SHA-256 in base64url.
var challengeS256 = regexp.MustCompile(`^[A-Za-z0-9_-]{43}$`)

// request is a valid authorization request (OAuth 2.1 §4.1.1).
type request struct {
	client    client
	redirect  string
	state     url.Values // state, or nothing
	challenge string
	resource  string
	scopes    []string
	canonical string // all parameters, in canonical form
}

// authorize shows the page on which the user picks one of the users.
func (s *Issuer) authorize(w http.ResponseWriter, r *http.Request) {
	req, err := s.read(r)
	if err != nil {
		s.refuse(w, r, req, err)
		return
	}
	cookie := browser(r)
	if cookie == "" {
		cookie = rand.Text()
		http.SetCookie(w, &http.Cookie{
			Name: csrfCookie, Value: cookie, Path: authorizePath, HttpOnly: true, SameSite: http.SameSiteStrictMode,
		})
	}
	s.pages.show(w, http.StatusOK, formAction(req.redirect), "signin", signIn{
		Issuer: s.cfg.URL, Client: req.client.name, Document: documentOf(req.client),
		Resource: req.resource, Destination: destination(req.redirect), Local: isLocal(req.redirect),
		Scopes: s.meanings(req.scopes), Users: s.shown(), CSRF: s.csrf(cookie, req),
	})
}

// decide handles the choice, and sends the browser back with a code.
func (s *Issuer) decide(w http.ResponseWriter, r *http.Request) {
	req, err := s.read(r)
	if err != nil {
		s.refuse(w, r, req, err)
		return
	}
	if err := r.ParseForm(); err != nil {
		s.showProblem(w, http.StatusBadRequest, "The form cannot be read.", "")
		return
	}
	cookie := browser(r)
	fromPage := hmac.Equal([]byte(r.PostForm.Get("csrf")), []byte(s.csrf(cookie, req)))
	if new(http.CrossOriginProtection).Check(r) != nil || cookie == "" || !fromPage {
		s.showProblem(w, http.StatusForbidden,
			"This form does not come from the page that this browser was shown. Start again at your client; cookies have to be allowed.", "")
		return
	}
	if r.PostForm.Has("cancel") {
		s.log.Info("development issuer: sign-in cancelled", "client", req.client.name)
		s.send(w, r, req, http.StatusSeeOther, fail(errAccessDenied, "nobody signed in"))
		return
	}
	user, ok := s.user(r.PostForm.Get("user"))
	if !ok {
		s.showProblem(w, http.StatusBadRequest, "There is no such user.", "")
		return
	}
	code := s.grants.code(grant{
		user: user.Subject, client: req.client.id, resource: req.resource, scopes: req.scopes, refreshes: req.client.refreshes,
	}, req.redirect, req.challenge)
	s.log.Info("development issuer: signed in", "user", user.Subject, "client", req.client.name)
	s.back(w, r, req, http.StatusSeeOther, url.Values{"code": {code}})
}

// read checks the parameters of an authorization request. With an error, the request has a
// redirect only if the error may be sent there: not while the client and its redirect URI
// are in doubt (OAuth 2.1 §4.1.2.1).
func (s *Issuer) read(r *http.Request) (req request, err error) {
	if len(r.URL.RawQuery) > maxQuery {
		return req, fail(errInvalidRequest, "the request is too long")
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return req, fail(errInvalidRequest, "the query cannot be read")
	}
	for _, name := range []string{"client_id", "redirect_uri", "state"} { // without these there is nowhere to send an answer
		if len(query[name]) > 1 {
			return req, fail(errInvalidRequest, name+" is there more than once")
		}
	}
	req.canonical = query.Encode()
	if query.Get("client_id") == "" {
		return req, fail(errInvalidRequest, "client_id is missing")
	}
	if req.client, err = s.find(r.Context(), query.Get("client_id")); err != nil {
		return req, fail(errInvalidClient, err.Error())
	}
	redirect := query.Get("redirect_uri")
	if redirect == "" {
		return req, fail(errInvalidRequest, "redirect_uri is missing")
	}
	if !req.client.mayReturnTo(redirect) {
		return req, fail(errInvalidRequest, "redirect_uri is none of those that this client registered")
	}
	req.redirect = redirect
	req.state = url.Values{}
	if query.Has("state") {
		req.state.Set("state", query.Get("state"))
	}
	return req, s.readRest(&req, query)
}

func (s *Issuer) readRest(req *request, query url.Values) error {
	for name, values := range query {
		if len(values) > 1 && name != "resource" {
			return fail(errInvalidRequest, "a parameter is there more than once")
		}
	}
	mode, challenge, resources := query.Get("response_mode"), query.Get("code_challenge"), query["resource"]
	switch {
	case query.Get("response_type") != "code":
		return fail(errResponseType, "response_type: want code")
	case mode != "" && mode != "query":
		return fail(errInvalidRequest, "response_mode: want query")
	case query.Has("request") || query.Has("request_uri"):
		return fail(errInvalidRequest, "request objects are not supported")
	case challenge == "":
		return fail(errInvalidRequest, "code_challenge is missing: PKCE is required")
	case query.Get("code_challenge_method") != "S256":
		return fail(errInvalidRequest, "code_challenge_method: want S256")
	case !challengeS256.MatchString(challenge):
		return fail(errInvalidRequest, "code_challenge: want 43 characters of base64url")
	case len(resources) == 0:
		return fail(errInvalidTarget, "resource is missing: tokens are for one resource each (RFC 8707)")
	case len(resources) > 1:
		return fail(errInvalidTarget, "resource: one at a time")
	case !slices.Contains(s.cfg.Resources, resources[0]):
		return fail(errInvalidTarget, "resource: this issuer makes no tokens for it")
	}
	scopes, ok := s.cfg.granted(query.Get("scope"))
	if !ok {
		return fail(errInvalidScope, "scope: none of these can be had; there are: "+strings.Join(s.cfg.scopeNames(), " "))
	}
	req.challenge, req.resource, req.scopes = challenge, resources[0], scopes
	return nil
}

// refuse tells the client what is wrong with its request. If the client is in doubt or not
// on this machine, it tells the person at the browser instead: otherwise any link could use
// this issuer to send browsers anywhere (RFC 9700 §4.11.2).
func (s *Issuer) refuse(w http.ResponseWriter, r *http.Request, req request, err error) {
	s.log.Warn("development issuer: authorization refused", "client", req.client.name, "error", err)
	if req.redirect != "" && isLocal(req.redirect) {
		s.send(w, r, req, http.StatusFound, err)
		return
	}
	text, next := err.Error(), ""
	if p, ok := errors.AsType[*problem](err); ok {
		text = p.Text
		if req.redirect != "" {
			next = s.answer(req, url.Values{"error": {p.Code}, "error_description": {p.Text}})
		}
	}
	s.showProblem(w, http.StatusBadRequest, "The client's request was refused: "+text+".", next)
}

func (s *Issuer) send(w http.ResponseWriter, r *http.Request, req request, status int, err error) {
	p, ok := errors.AsType[*problem](err)
	if !ok {
		p = &problem{Code: "server_error", Text: "internal error"}
	}
	s.back(w, r, req, status, url.Values{"error": {p.Code}, "error_description": {p.Text}})
}

func (s *Issuer) back(w http.ResponseWriter, r *http.Request, req request, status int, params url.Values) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer")
	http.Redirect(w, r, s.answer(req, params), status)
}

// answer returns the URL that takes an answer to the client: with the client's state and,
// against mix-up attacks, the issuer (RFC 9207).
func (s *Issuer) answer(req request, params url.Values) string {
	params.Set("iss", s.cfg.URL)
	for name, values := range req.state {
		params[name] = values
	}
	return withParams(req.redirect, params)
}

// csrf proves that a page with this request was made for this browser.
func (s *Issuer) csrf(cookie string, req request) string {
	mac := hmac.New(sha256.New, s.csrfKey)
	mac.Write([]byte(cookie))
	mac.Write([]byte{0})
	mac.Write([]byte(req.canonical))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// browser returns the value of our cookie, "" without a valid one.
func browser(r *http.Request) string {
	cookie, err := r.Cookie(csrfCookie)
	if err != nil || len(cookie.Value) != len(rand.Text()) {
		return ""
	}
	return cookie.Value
}

// meanings returns the named scopes with their meanings.
func (s *Issuer) meanings(names []string) []Scope {
	var scopes []Scope
	for _, scope := range s.cfg.Scopes {
		if slices.Contains(names, scope.Name) {
			scopes = append(scopes, scope)
		}
	}
	return scopes
}

// documentOf returns the host of a client's metadata document, "" for a client that
// registered.
func documentOf(c client) string {
	if strings.HasPrefix(c.id, registeredPrefix) {
		return ""
	}
	return destination(c.id)
}
