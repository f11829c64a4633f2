package outbound

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

const (
	grantExchange   = "urn:ietf:params:oauth:grant-type:token-exchange"
	tokenTypePrefix = "urn:ietf:params:oauth:token-type:"
)

// userKey names the user of a token, and the user's own token that it was exchanged for: the token
// itself and not a digest, which would cost each call more than all the rest, since its source
// keeps it as well. Upstream, resource, audience and scopes are the same for all of one
// Credentials.
type userKey struct {
	issuer, subject, token string
}

// sourceFor returns the source of a caller's token.
func (c *Credentials) sourceFor(caller mcp.Caller) (*source, error) {
	if c.machine != nil {
		return c.machine, nil
	}
	subject := string(caller.Token)
	switch {
	case subject == "":
		return nil, &Error{Why: "it is used in the name of each user, and this request comes without one"}
	case caller.Issuer != c.cfg.Issuer:
		// Only its issuer may see the token.
		return nil, &Error{Why: "your sign-in is from another issuer than the one whose users it is for"}
	}
	key := userKey{issuer: caller.Issuer, subject: caller.Subject, token: subject}
	c.mu.Lock()
	defer c.mu.Unlock()
	if src, ok := c.users.Get(key); ok {
		return src, nil
	}
	src := &source{owner: c, end: caller.Expires}
	src.ask = c.telling(Fetch{Issuer: caller.Issuer, User: caller.Subject},
		func(ctx context.Context) (answer, error) { return c.exchange(ctx, subject) })
	c.users.Add(key, src)
	return src, nil
}

// exchange gets a token for the upstream in exchange for the user's (RFC 8693 §2).
func (c *Credentials) exchange(ctx context.Context, subject string) (answer, error) {
	subjectType := c.cfg.SubjectTokenType
	if subjectType == "" {
		subjectType = typeAccessToken
	}
	form := url.Values{
		"grant_type":           {grantExchange},
		"subject_token":        {subject},
		"subject_token_type":   {tokenTypePrefix + subjectType},
		"requested_token_type": {tokenTypePrefix + typeAccessToken},
	}
	ask := func() (answer, error) { return c.ask(ctx, c.target(form)) }
	if c.granting != nil {
		ask = func() (answer, error) { return c.grant(ctx, form, subject) }
	}
	a, err := ask()
	if failure, ok := errors.AsType[*Error](err); ok && !failure.shared && failure.code != "" {
		own := *failure
		own.Why = "your token could not be exchanged for one (" + failure.code +
			"); sign in again, or ask the operator of the gateway whether you may use it"
		return a, &own
	}
	if err != nil {
		return a, err
	}
	if c.granting != nil {
		return a, nil // checked, and of another form
	}
	if err := c.checkExchanged(a, subject); err != nil {
		c.log.Warn("exchanged token not used", failure.TokenRefused.Attr(), "cause", err)
		return answer{}, unusable(err)
	}
	return a, nil
}

// checkExchanged makes sure that what came back is another token, and one for this
// upstream: else the exchange would only be a way to pass the user's token on.
func (c *Credentials) checkExchanged(a answer, subject string) error {
	if kind := strings.TrimPrefix(a.kind, tokenTypePrefix); kind == a.kind || kind != typeAccessToken && kind != typeJWT {
		return fmt.Errorf("issued_token_type %q: want %s%s", printable(a.kind, subject, a.token), tokenTypePrefix,
			typeAccessToken)
	}
	if a.token == subject {
		return errors.New("the issuer gave the user's own token back")
	}
	wanted := func(aud string) bool { return aud != "" && (aud == c.cfg.Audience || aud == c.resource) }
	if audiences, ok := audiencesOf(a.token); ok && !slices.ContainsFunc(audiences, wanted) {
		return fmt.Errorf("the token is for %q: want the audience %q or the resource %q",
			printable(strings.Join(audiences, " ")), c.cfg.Audience, c.resource)
	}
	return nil
}

// audiencesOf reads the audience of a token that is a JWT with one. Nothing is verified:
// it comes from its issuer.
func audiencesOf(token string) (audiences []string, ok bool) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return nil, false
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	claims := object(text)
	if err != nil || claims == nil {
		return nil, false
	}
	aud, ok := claims.Member("aud")
	if one, is := aud.StringValue(); is {
		return []string{one}, true
	}
	aud.Elements(func(v mcp.Raw) bool {
		audiences = append(audiences, v.Text())
		return true
	})
	return audiences, ok
}
