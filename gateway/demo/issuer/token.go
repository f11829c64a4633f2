package issuer

import (
	"crypto/sha256"
	"crypto/subtle"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Values of grant_type.
const (
	grantCode     = "authorization_code"
	grantRefresh  = "refresh_token"
	grantClient   = "client_credentials"
	grantExchange = "urn:ietf:params:oauth:grant-type:token-exchange"
)

// verifierFormat is the format of RFC 7636 §4.1.
var verifierFormat = regexp.MustCompile(`^[A-Za-z0-9._~-]{43,128}$`)

// tokenResponse is the response of RFC 6749 §5.1, with the additions of RFC 8693 §2.2.1.
type tokenResponse struct {
	AccessToken  string `json:"access_token"`
	TokenType    string `json:"token_type"`
	ExpiresIn    int64  `json:"expires_in"`
	RefreshToken string `json:"refresh_token,omitempty"`
	Scope        string `json:"scope,omitempty"`
	IssuedType   string `json:"issued_token_type,omitempty"`
}

// requester is the client that sends a request to an endpoint for programs.
type requester struct {
	id   string
	with *Client // nil for a client without a secret
}

func (s *Issuer) token(w http.ResponseWriter, r *http.Request) {
	form, err := readForm(r)
	if err != nil {
		writeError(w, err)
		return
	}
	from, err := s.authenticate(r, form)
	if err != nil {
		s.log.Warn("development issuer: client refused", "error", err)
		writeError(w, err)
		return
	}
	response, err := s.grant(from, form)
	if err != nil {
		s.log.Warn("development issuer: token refused", "error", err)
		writeError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, response)
}

func (s *Issuer) grant(from requester, form url.Values) (tokenResponse, error) {
	switch form.Get("grant_type") {
	case grantCode:
		return s.byCode(from, form)
	case grantRefresh:
		return s.byRefresh(from, form)
	case grantClient:
		return s.byClient(from, form)
	case grantExchange:
		return s.byExchange(from, form)
	case "":
		return tokenResponse{}, fail(errInvalidRequest, "grant_type is missing")
	}
	return tokenResponse{}, fail(errUnsupported, "grant_type: there is no such grant here")
}

// readForm takes parameters from the body only, each once (RFC 6749 §3.2).
func readForm(r *http.Request) (url.Values, error) {
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/x-www-form-urlencoded" {
		return nil, fail(errInvalidRequest, "want Content-Type application/x-www-form-urlencoded")
	}
	if r.URL.RawQuery != "" {
		return nil, fail(errInvalidRequest, "parameters belong into the body, not the URL")
	}
	if err := r.ParseForm(); err != nil {
		return nil, fail(errInvalidRequest, "the body cannot be read")
	}
	for _, values := range r.PostForm {
		if len(values) > 1 {
			return nil, fail(errInvalidRequest, "a parameter is there more than once")
		}
	}
	return r.PostForm, nil
}

// authenticate finds out which client sends the request. A client with a secret has to send
// it; one without a secret sends only its id.
func (s *Issuer) authenticate(r *http.Request, form url.Values) (requester, error) {
	id, secret := form.Get("client_id"), form.Get("client_secret")
	refused := &problem{Code: errInvalidClient, Text: "the client is unknown, or its secret is wrong"}
	if len(r.Header.Values("Authorization")) > 0 {
		refused.basic = true
		user, password, ok := r.BasicAuth()
		basicID, err1 := url.QueryUnescape(user) // RFC 6749 §2.3.1
		basicSecret, err2 := url.QueryUnescape(password)
		if !ok || err1 != nil || err2 != nil {
			return requester{}, refused
		}
		if secret != "" || id != "" && id != basicID {
			return requester{}, fail(errInvalidRequest, "the client authenticates in more than one way")
		}
		id, secret = basicID, basicSecret
	}
	if id == "" {
		return requester{}, fail(errInvalidClient, "client_id is missing")
	}
	for i := range s.cfg.Clients {
		c := &s.cfg.Clients[i]
		if c.ID != id {
			continue
		}
		given, want := sha256.Sum256([]byte(secret)), sha256.Sum256([]byte(c.Secret))
		if subtle.ConstantTimeCompare(given[:], want[:]) != 1 {
			return requester{}, refused
		}
		return requester{id: id, with: c}, nil
	}
	if secret != "" {
		return requester{}, refused
	}
	if _, err := registered(id); err != nil && checkDocumentURL(id) != nil {
		return requester{}, refused
	}
	return requester{id: id}, nil
}

func (s *Issuer) byCode(from requester, form url.Values) (tokenResponse, error) {
	if form.Get("code") == "" {
		return tokenResponse{}, fail(errInvalidRequest, "code is missing")
	}
	if !verifierFormat.MatchString(form.Get("code_verifier")) {
		return tokenResponse{}, fail(errInvalidRequest, "code_verifier: want 43 to 128 characters of A-Z a-z 0-9 - . _ ~")
	}
	given, refresh, err := s.grants.redeem(form.Get("code"), from.id, form.Get("redirect_uri"), form.Get("code_verifier"))
	if err != nil {
		return tokenResponse{}, err
	}
	if err := checkResource(form, given); err != nil {
		return tokenResponse{}, err
	}
	return s.respond(given, refresh)
}

func (s *Issuer) byRefresh(from requester, form url.Values) (tokenResponse, error) {
	if form.Get("refresh_token") == "" {
		return tokenResponse{}, fail(errInvalidRequest, "refresh_token is missing")
	}
	asked := strings.Fields(form.Get("scope"))
	given, next, err := s.grants.refresh(form.Get("refresh_token"), from.id, func(g grant) error {
		if !within(asked, g.scopes) {
			return fail(errInvalidScope, "scope: more than was granted")
		}
		return checkResource(form, g)
	})
	if err != nil {
		return tokenResponse{}, err
	}
	if len(asked) > 0 {
		given.scopes = asked
	}
	return s.respond(given, next)
}

// checkResource requires the resource of the sign-in, if the request names one (RFC 8707
// §2.2).
func checkResource(form url.Values, given grant) error {
	if form.Has("resource") && form.Get("resource") != given.resource {
		return fail(errInvalidTarget, "resource: not the one that was signed in to")
	}
	return nil
}

// within reports whether had contains everything in asked.
func within(asked, had []string) bool {
	return !slices.ContainsFunc(asked, func(name string) bool { return !slices.Contains(had, name) })
}

// respond makes the tokens for a sign-in.
func (s *Issuer) respond(given grant, refresh string) (tokenResponse, error) {
	user, ok := s.user(given.user)
	if !ok {
		return tokenResponse{}, fail(errInvalidGrant, "the user is gone")
	}
	token, err := s.sign(s.userClaims(user, given), s.cfg.Lifetime)
	if err != nil {
		return tokenResponse{}, err
	}
	return s.bearer(token, given.scopes, refresh), nil
}

// byClient handles a client with a secret, which gets a token with itself as the user.
func (s *Issuer) byClient(from requester, form url.Values) (tokenResponse, error) {
	if from.with == nil {
		return tokenResponse{}, fail(errUnauthorized, "client_credentials is for clients with a secret")
	}
	resource := form.Get("resource")
	if !slices.Contains(from.with.Audiences, resource) {
		return tokenResponse{}, fail(errInvalidTarget, "resource: missing, or not one for which this client gets tokens")
	}
	scopes, ok := s.cfg.granted(form.Get("scope"))
	if !ok {
		return tokenResponse{}, fail(errInvalidScope, "scope: none of these can be had")
	}
	token, err := s.sign(claims{
		Subject: from.id, Audience: resource, ClientID: from.id,
		Scope: strings.Join(scopes, " "), Groups: from.with.Groups,
	}, s.cfg.Lifetime)
	if err != nil {
		return tokenResponse{}, err
	}
	return s.bearer(token, scopes, ""), nil
}

func (s *Issuer) bearer(token string, scopes []string, refresh string) tokenResponse {
	return tokenResponse{
		AccessToken: token, TokenType: "Bearer", ExpiresIn: int64(s.cfg.Lifetime.Seconds()),
		RefreshToken: refresh, Scope: strings.Join(scopes, " "),
	}
}
