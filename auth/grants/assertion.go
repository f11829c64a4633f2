package grants

import (
	"crypto/rand"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/auth/clientele"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// byAssertion gives an access token for an identity assertion (ID-JAG): the provider says that its
// user may be served through this client, so there is no consent page here
// (enterprise-managed-authorization §5). There is no refresh token: the client gets another assertion,
// and the provider decides again.
func (s endpoint) byAssertion(r *http.Request, client clientele.Client) (map[string]any, error) {
	switch {
	case !s.cfg.IDJAG:
		return nil, fail(codeGrantType, "identity assertions are not accepted here")
	case client.Public():
		return nil, fail(codeUnauthorizedClient, "identity assertions are for clients that prove who they are")
	}
	ctx := r.Context()
	said, err := s.deps.Auth.IdentifyAssertion(ctx, s.cfg.Provider, r.PostForm.Get("assertion"), client.ID, s.cfg.Issuer)
	if refused, ok := errors.AsType[*auth.RefusedError](err); ok && refused.Status >= http.StatusInternalServerError {
		return nil, fail(codeUnavailable, refused.Text)
	} else if ok {
		return nil, fail(codeInvalidGrant, refused.Text)
	} else if err != nil {
		return nil, err
	}
	g := grant{Client: client.ID, Provider: s.cfg.Provider, Subject: said.Caller.Subject, Claims: said.Caller.Claims}
	if g.Resource, err = s.targetOf(r.PostForm["resource"], said.Resource); err != nil {
		return nil, err
	}
	fresh, err := s.deps.State.codes.AddOf(ctx, g.caller().User(), "assertion:"+said.ID, []byte("1"),
		time.Until(said.Until))
	if err != nil {
		return nil, err
	}
	if !fresh {
		return nil, fail(codeInvalidGrant, "the assertion was used before")
	}
	asked, has := strings.Fields(r.PostForm.Get("scope")), said.Caller.Scopes
	if !said.Scoped { // the provider leaves it to us
		has = union(s.required, s.supported)
	}
	g.Scopes = s.of(asked, has)
	name := nameOf(rand.Text())
	token, err := s.access(ctx, g, name, g.Scopes)
	if err == nil {
		err = s.keep(ctx, name, g)
	}
	if err != nil {
		return nil, err
	}
	s.deps.Recorded(ctx, Event{Name: "token given", Reason: "for an identity assertion", Caller: g.caller(),
		Client: client.ID, Agent: client.Name, View: s.view(g.Resource)})
	return map[string]any{
		"access_token": token, "token_type": "Bearer", "expires_in": int(s.cfg.AccessTokenLife.Seconds()),
		"scope": strings.Join(g.Scopes, " "),
	}, nil
}

// targetOf returns what a token is for: what the assertion says, or else the request, or else the
// gateway. Both may only name one of ours, and must agree.
func (s endpoint) targetOf(asked []string, said string) (string, error) {
	if said == "" {
		return s.target(asked)
	}
	target, err := s.target([]string{said})
	for _, one := range asked {
		if err == nil && !mcp.SameIdentifier(one, target) {
			err = fail(codeInvalidTarget, "resource is not that of the assertion")
		}
	}
	return target, err
}
