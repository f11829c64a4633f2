package grants

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/url"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/expiring"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

const (
	codeLife = time.Minute
	// codeKnown is how long a used code is remembered, in case it is used again.
	codeKnown = 10 * time.Minute
	// unaskedLife bounds a grant where the provider cannot be asked whether the user may go on.
	unaskedLife = 24 * time.Hour
)

// code is the meaning of an authorization code.
type code struct {
	ID        string `json:"id"` // of the grant
	Redirect  string `json:"redirect"`
	Challenge string `json:"challenge"`
	Grant     grant  `json:"grant"`
}

// redeem returns the grant of a code. A code that is used twice ends what it gave: one of the two
// who had it has stolen it.
func (s endpoint) redeem(ctx context.Context, client string, form url.Values) (id string, g grant, err error) {
	value := form.Get("code")
	text, err := s.deps.State.codes.Take(ctx, "code:"+value)
	if errors.Is(err, expiring.ErrNone) {
		return "", g, s.usedAgain(ctx, value)
	}
	var c code
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err != nil {
		return "", g, err
	}
	sum := sha256.Sum256([]byte(form.Get("code_verifier")))
	proof := base64.RawURLEncoding.EncodeToString(sum[:])
	_, named := form["redirect_uri"]
	switch {
	case c.Grant.Client != client:
		return "", g, fail(codeInvalidGrant, "the code is of another client")
	case named && form.Get("redirect_uri") != c.Redirect:
		return "", g, fail(codeInvalidGrant, "redirect_uri is not that of the request for authorization")
	case subtle.ConstantTimeCompare([]byte(proof), []byte(c.Challenge)) != 1:
		return "", g, fail(codeInvalidGrant, "code_verifier does not belong to the code")
	}
	return c.ID, c.Grant, sameTarget(form, c.Grant)
}

// sameTarget refuses a token for something else than the user has consented to. Clients may leave out
// what it is for.
func sameTarget(form url.Values, g grant) error {
	for _, resource := range form["resource"] {
		if !mcp.SameIdentifier(resource, g.Resource) {
			return fail(codeInvalidTarget, "resource is not that of the request for authorization")
		}
	}
	return nil
}

// usedAgain ends what a code gave.
func (s endpoint) usedAgain(ctx context.Context, value string) error {
	bad := fail(codeInvalidGrant, "the code is not good, or not any more")
	name, err := s.deps.State.codes.Get(ctx, "of:"+value)
	if errors.Is(err, expiring.ErrNone) {
		return bad
	}
	if err == nil { // it may be given just now: see byCode
		err = errors.Join(s.deps.State.codes.Put(ctx, "twice:"+string(name), nil, codeKnown),
			s.deps.State.end(ctx, string(name)))
	}
	if err != nil {
		return err
	}
	s.deps.Recorded(ctx, Event{Name: "grant ended", Reason: "its code was used twice, or too late"})
	return bad
}
