package grants

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/auth/clientele"
	"github.com/gatehouse-mcp/gatehouse/internal/expiring"
)

// endpoint serves clients themselves: tokens and their revocation.
type endpoint struct{ *Server }

// token serves the token endpoint (OAuth 2.1 §3.2).
func (s endpoint) token(w http.ResponseWriter, r *http.Request) {
	client, err := s.who(w, r)
	if err != nil {
		s.deps.Metrics.count(stepCode, s.refuse(w, r, err))
		return
	}
	var answer map[string]any
	step := stepCode
	switch r.PostForm.Get("grant_type") {
	case grantCode:
		answer, err = s.byCode(r, client)
	case grantRefresh:
		step = stepRefresh
		answer, err = s.byRefresh(r, client)
	case grantAssertion:
		step = stepAssertion
		answer, err = s.byAssertion(r, client)
	default:
		err = fail(codeGrantType, "grant_type: want authorization_code or refresh_token")
	}
	if err != nil {
		e := s.refuse(w, r, err)
		s.deps.Metrics.count(step, e)
		return
	}
	s.deps.Metrics.count(step, nil)
	s.answer(w, http.StatusOK, answer)
}

// who authenticates the client of a request, and parses its form. The error is an *oauthError, or
// not for the client.
func (s endpoint) who(w http.ResponseWriter, r *http.Request) (client clientele.Client, err error) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		return client, fail(codeInvalidRequest, "the form cannot be read")
	}
	for name, values := range r.PostForm {
		if len(values) > 1 && name != "resource" {
			return client, fail(codeInvalidRequest, "a parameter is there more than once")
		}
	}
	id, secret := r.PostForm.Get("client_id"), r.PostForm.Get("client_secret")
	if r.Header.Get("Authorization") != "" {
		user, password, ok := r.BasicAuth()
		name, err1 := url.QueryUnescape(user) // RFC 6749 §2.3.1
		given, err2 := url.QueryUnescape(password)
		switch {
		case !ok || err1 != nil || err2 != nil:
			return client, fail(codeInvalidClient, "the header Authorization cannot be read: want Basic")
		case secret != "" || id != "" && id != name:
			return client, fail(codeInvalidRequest, "the client says twice who it is")
		}
		id, secret = name, given
	}
	if id == "" {
		return client, fail(codeInvalidClient, "client_id is missing")
	}
	if client, err = s.find(r.Context(), id); err != nil {
		return client, err
	}
	if !client.Public() && !client.Knows(secret) || client.Public() && secret != "" {
		return client, fail(codeInvalidClient, "the client does not prove who it is")
	}
	return client, nil
}

// byCode gives the tokens of a code.
func (s endpoint) byCode(r *http.Request, client clientele.Client) (map[string]any, error) {
	ctx := r.Context()
	id, g, err := s.redeem(ctx, client.ID, r.PostForm)
	if err != nil {
		return nil, err
	}
	name := nameOf(id)
	g.Current, g.Rotated = rand.Text()+rand.Text(), time.Now()
	answer, err := s.tokens(ctx, id, g, g.Scopes)
	if err != nil {
		return nil, err
	}
	if err := s.keep(ctx, name, g); err != nil {
		return nil, err
	}
	// The code may have been used again since it was taken.
	if _, err := s.deps.State.codes.Get(ctx, "twice:"+name); !errors.Is(err, expiring.ErrNone) {
		return nil, s.over(ctx, name, g, "its code was used twice", err)
	}
	s.deps.Recorded(ctx, Event{Name: "token given", Caller: g.caller(), Client: client.ID, Agent: client.Name,
		View: s.view(g.Resource)})
	return answer, nil
}

// keep keeps a grant: its tokens are good as long as it is there.
func (s endpoint) keep(ctx context.Context, name string, g grant) error {
	text, err := json.Marshal(g)
	if err != nil {
		return err
	}
	return s.deps.State.grants.PutOf(ctx, g.caller().User(), name, text, s.life(g))
}

// life is how long a grant is kept: no shorter than an access token that it gives now.
func (s endpoint) life(g grant) time.Duration {
	return max(time.Until(g.Until), s.cfg.AccessTokenLife)
}

// tokens is the answer with an access token and the current refresh token.
func (s endpoint) tokens(ctx context.Context, id string, g grant, scopes []string) (map[string]any, error) {
	token, err := s.access(ctx, g, nameOf(id), scopes)
	if err != nil {
		return nil, err
	}
	return map[string]any{
		"access_token": token, "token_type": "Bearer", "expires_in": int(s.cfg.AccessTokenLife.Seconds()),
		"refresh_token": id + "." + g.Current, "scope": strings.Join(scopes, " "),
	}, nil
}

// over ends a grant, and returns the reason as an error for its client.
func (s endpoint) over(ctx context.Context, name string, g grant, why string, err error) error {
	if err != nil {
		return err
	}
	if err := s.deps.State.end(ctx, name); err != nil {
		return err
	}
	s.deps.Recorded(ctx, Event{Name: "grant ended", Reason: why, Caller: g.caller(), Client: g.Client,
		View: s.view(g.Resource)})
	return fail(codeInvalidGrant, "the user has to sign in again: "+why)
}
