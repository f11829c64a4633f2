package grants

import (
	"cmp"
	"context"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/oauth2"

	"github.com/gatehouse-mcp/gatehouse/auth/clientele"
	"github.com/gatehouse-mcp/gatehouse/auth/signin"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// maxQuery bounds a request for authorization, in bytes: it has to fit into a cookie.
const maxQuery = 2600

// challengeS256 is the format of RFC 7636 §4.2: a SHA-256 in base64url.
var challengeS256 = regexp.MustCompile(`^[A-Za-z0-9_-]{43}$`)

// request is a request for authorization (OAuth 2.1 §4.1.1).
type request struct {
	client    clientele.Client
	redirect  string // "" while client and redirect URI are in doubt: then nothing may be sent there
	state     string
	challenge string
	resource  string
	scopes    []string
	prompt    []string
	query     string // all of it, to be read again
}

// read checks the parameters of a request. With an error, the request has a redirect only if the
// error may be sent there (OAuth 2.1 §4.1.2.1).
func (s *Server) read(ctx context.Context, raw string) (req request, err error) {
	if len(raw) > maxQuery {
		return req, fail(codeInvalidRequest, "The request is too long.")
	}
	query, err := url.ParseQuery(raw)
	if err != nil {
		return req, fail(codeInvalidRequest, "The request cannot be read.")
	}
	req.query = raw
	// without these there is nowhere to send an answer
	for _, name := range []string{"client_id", "redirect_uri", "state"} {
		if len(query[name]) > 1 {
			return req, fail(codeInvalidRequest, "The request has "+name+" more than once.")
		}
	}
	if query.Get("client_id") == "" {
		return req, fail(codeInvalidRequest, "The request does not say which client it is of.")
	}
	if req.client, err = s.find(ctx, query.Get("client_id")); err != nil {
		return req, err
	}
	redirect := query.Get("redirect_uri")
	if redirect == "" || !req.client.Allows(redirect) {
		return req, fail(codeInvalidRequest, "The request wants to send you to a place that does not belong to this client.")
	}
	req.redirect, req.state = redirect, query.Get("state")
	return req, s.readRest(&req, query)
}

// readRest checks what is not about the client.
func (s *Server) readRest(req *request, query url.Values) error {
	for name, values := range query {
		if len(values) > 1 && name != "resource" {
			return fail(codeInvalidRequest, "a parameter is there more than once")
		}
	}
	req.challenge = query.Get("code_challenge")
	req.scopes = strings.Fields(query.Get("scope"))
	req.prompt = strings.Fields(query.Get("prompt"))
	mode := query.Get("response_mode")
	switch {
	case query.Get("response_type") != "code":
		return fail(codeResponseType, "response_type: want code")
	case mode != "" && mode != "query":
		return fail(codeInvalidRequest, "response_mode: want query")
	case query.Has("request") || query.Has("request_uri"):
		return fail(codeInvalidRequest, "request objects are not supported")
	case req.challenge == "":
		return fail(codeInvalidRequest, "code_challenge is missing: PKCE is required")
	case query.Get("code_challenge_method") != "S256":
		return fail(codeInvalidRequest, "code_challenge_method: want S256")
	case !challengeS256.MatchString(req.challenge):
		return fail(codeInvalidRequest, "code_challenge: want 43 characters of base64url")
	case slices.Contains(req.prompt, "none"):
		return fail(codeLoginRequired, "users always see where they sign in")
	}
	var err error
	req.resource, err = s.target(query["resource"])
	return err
}

// target returns what a token is asked for (RFC 8707 §2): the gateway's endpoint if nothing is said,
// as clients of 2025-03-26 do, otherwise exactly one endpoint of the gateway.
func (s *Server) target(resources []string) (string, error) {
	switch {
	case len(resources) == 0:
		return s.deps.PublicURL, nil
	case len(resources) > 1:
		return "", fail(codeInvalidTarget, "resource: want one")
	}
	for at := range *s.resources.Load() {
		if mcp.SameIdentifier(at, resources[0]) {
			return at, nil
		}
	}
	return "", fail(codeInvalidTarget, "resource: this is no endpoint of the gateway")
}

// authorize sends the browser to the provider.
func (s *Server) authorize(w http.ResponseWriter, r *http.Request) {
	req, err := s.read(r.Context(), r.URL.RawQuery)
	if err == nil {
		var at string
		if at, err = s.begin(w, r, req); err == nil {
			s.deps.Metrics.count(stepAuthorize, nil)
			w.Header().Set("Cache-Control", "no-store")
			http.Redirect(w, r, at, http.StatusSeeOther)
			return
		}
	}
	s.deps.Metrics.count(stepAuthorize, err)
	s.turnBack(w, r, req, err)
}

// begin begins a sign-in at the provider. The request comes back with its answer.
func (s *Server) begin(w http.ResponseWriter, r *http.Request, req request) (string, error) {
	var more []oauth2.AuthCodeOption
	for _, prompt := range []string{"login", "select_account"} {
		if slices.Contains(req.prompt, prompt) {
			more = []oauth2.AuthCodeOption{oauth2.SetAuthURLParam("prompt", prompt)}
		}
	}
	at, err := s.flow.Begin(w, r, req.query, more...)
	if refused, ok := errors.AsType[*signin.RefusedError](err); ok {
		return "", fail(codeInvalidRequest, refused.Why)
	}
	if err != nil {
		s.outage.Warn(r.Context(), s.deps.Log, "authorization server: nobody can sign in", s.flow.Issuer, err)
		return "", fail(codeUnavailable, "The provider where users sign in does not answer as it should. Try again.")
	}
	return at, nil
}

// callback handles the provider's answer.
func (s *Server) callback(w http.ResponseWriter, r *http.Request) {
	in, err := s.flow.Finish(w, r)
	if err == nil && in.To == "" {
		err = errors.New("a sign-in without a request")
	}
	var req request
	var bad error
	if in.To != "" { // else it does not belong to what this browser has begun
		req, bad = s.read(r.Context(), in.To)
	}
	if err != nil {
		err = s.ofSignIn(r, err)
	} else if bad != nil { // the client, or the configuration, has changed since
		err = s.public(r, bad)
	}
	e := Event{Name: "signed in", Caller: in.Caller, Client: req.client.ID, Agent: req.client.Name,
		View: s.view(req.resource)}
	if err != nil {
		e.Name, e.Reason = "sign-in refused", err.Error()
	}
	s.deps.Metrics.count(stepSignIn, err)
	s.deps.Recorded(r.Context(), e)
	if err == nil {
		err = s.consent(w, r, req, in)
	}
	if err != nil {
		s.turnBack(w, r, req, err)
	}
}

// ofSignIn is the error of a sign-in, as clients and users may read it.
func (s *Server) ofSignIn(r *http.Request, err error) *oauthError {
	if refused, ok := errors.AsType[*signin.RefusedError](err); ok {
		return fail(codeAccessDenied, refused.Why)
	}
	s.outage.Warn(r.Context(), s.deps.Log, "authorization server: a sign-in failed", s.flow.Issuer, err)
	return fail(codeUnavailable, "The provider where users sign in does not answer as it should. Try again.")
}

// turnBack ends a request for authorization with an error: at the client, or on a page if the
// client's address is unknown, or if the user has to read it.
func (s *Server) turnBack(w http.ResponseWriter, r *http.Request, req request, err error) {
	e := s.public(r, err)
	status := http.StatusBadRequest
	switch e.code {
	case codeInvalidClient, codeAccessDenied:
		status = http.StatusForbidden
	case codeUnavailable:
		status = http.StatusServiceUnavailable
	}
	if req.redirect == "" {
		s.pages.Show(w, status, "problem", "", problem{Text: e.text})
		return
	}
	back := s.back(req, url.Values{"error": {e.code}, "error_description": {plain(e.text)}})
	if e.code == codeAccessDenied || e.code == codeUnavailable {
		s.pages.Show(w, status, "problem", "", problem{Text: e.text, Back: template.URL(back), Client: req.client.Name})
		return
	}
	s.send(w, r, back)
}

// back returns the redirect URI with an answer. It always names the issuer (RFC 9207).
func (s *Server) back(req request, answer url.Values) string {
	answer.Set("iss", s.cfg.Issuer)
	if req.state != "" {
		answer.Set("state", req.state)
	}
	separator := "?"
	if strings.Contains(req.redirect, "?") {
		separator = "&"
	}
	return req.redirect + separator + answer.Encode()
}

// send sends the browser back to the client.
func (s *Server) send(w http.ResponseWriter, _ *http.Request, to string) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Location", to) // as it is: http.Redirect would change the URIs of programs
	w.WriteHeader(http.StatusSeeOther)
}

// plain is the text of an error in the characters that error_description may have (RFC 6749 §4.1.2.1).
func plain(text string) string {
	return cmp.Or(strings.Map(func(c rune) rune {
		if c < ' ' || c > '~' || c == '"' || c == '\\' {
			return '.'
		}
		return c
	}, text), "refused")
}
