package issuer

import (
	"net/url"
	"slices"
	"strings"
	"time"
)

const accessTokenType = "urn:ietf:params:oauth:token-type:access_token"

// byExchange implements RFC 8693 §2.1: a client that serves a resource exchanges a user's
// token for one with which it acts for that user at another resource. Actor tokens are not
// supported; the client itself is the actor.
func (s *Issuer) byExchange(from requester, form url.Values) (tokenResponse, error) {
	if from.with == nil || from.with.Resource == "" {
		return tokenResponse{}, fail(errUnauthorized, "token exchange is for clients that serve a resource")
	}
	target, err := exchangeTarget(form)
	if err != nil {
		return tokenResponse{}, err
	}
	requested := form.Get("requested_token_type")
	switch {
	case form.Get("subject_token") == "":
		return tokenResponse{}, fail(errInvalidRequest, "subject_token is missing")
	case form.Get("subject_token_type") != accessTokenType:
		return tokenResponse{}, fail(errInvalidRequest, "subject_token_type: want "+accessTokenType)
	case requested != "" && requested != accessTokenType:
		return tokenResponse{}, fail(errInvalidRequest, "requested_token_type: want "+accessTokenType)
	case form.Has("actor_token") || form.Has("actor_token_type"):
		return tokenResponse{}, fail(errInvalidRequest, "actor tokens are not supported")
	case !slices.Contains(from.with.Exchange, target):
		return tokenResponse{}, fail(errInvalidTarget, "this client cannot exchange tokens for that resource")
	}
	c, err := s.verify(form.Get("subject_token"), from.with.Resource)
	if err != nil { // RFC 8693 §2.2.2
		return tokenResponse{}, fail(errInvalidRequest, "subject_token: not a valid token for the resource that this client serves")
	}
	if asked := strings.Fields(form.Get("scope")); len(asked) > 0 {
		if !within(asked, strings.Fields(c.Scope)) {
			return tokenResponse{}, fail(errInvalidScope, "scope: more than the subject token has")
		}
		c.Scope = strings.Join(asked, " ")
	}
	c.Audience, c.ClientID, c.Actor = target, from.id, &actor{Subject: from.id, Actor: c.Actor}
	lifetime := min(s.cfg.Lifetime, time.Until(time.Unix(c.Expires, 0))) // never longer than the original token
	token, err := s.sign(c, lifetime)
	if err != nil {
		return tokenResponse{}, err
	}
	response := s.bearer(token, strings.Fields(c.Scope), "")
	response.ExpiresIn, response.IssuedType = int64(lifetime.Seconds()), accessTokenType
	return response, nil
}

// exchangeTarget returns the target of the new token: resource or audience, which are the
// same here.
func exchangeTarget(form url.Values) (string, error) {
	resource, audience := form.Get("resource"), form.Get("audience")
	switch {
	case resource == "" && audience == "":
		return "", fail(errInvalidTarget, "resource or audience: one of them is needed")
	case resource != "" && audience != "" && resource != audience:
		return "", fail(errInvalidTarget, "resource and audience differ")
	case resource != "":
		return resource, nil
	}
	return audience, nil
}
