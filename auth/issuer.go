package auth

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/sync/singleflight"

	"github.com/gatehouse-mcp/gatehouse/internal/safehttp"
)

// issuer is an authorization server that tokens are accepted from.
type issuer struct {
	rules
	client Client
	keys   *keys

	provider atomic.Pointer[knownProvider] // nil before the first sign-in
	asking   singleflight.Group            // for its metadata
	codes    *suspects                     // by the codes that it does not know
}

func newIssuer(cfg Config, iss Issuer, deps Deps) (*issuer, error) {
	trust := []string{iss.URL}
	if iss.JWKSURL != "" {
		trust = append(trust, iss.JWKSURL)
	}
	if iss.Introspection != nil && iss.Introspection.URL != "" {
		trust = append(trust, iss.Introspection.URL)
	}
	var client Client
	var err error
	if deps.NewClient != nil {
		client, err = deps.NewClient(trust)
	} else {
		client, err = safehttp.New(safehttp.Options{Trust: trust, Timeout: fetchTime, Route: iss.Route()})
	}
	if err != nil {
		return nil, err
	}
	k, err := newKeys(cfg, iss, client, deps.Log)
	if err != nil {
		return nil, err
	}
	codes, err := newSuspects()
	if err != nil {
		return nil, err
	}
	return &issuer{rules: newRules(cfg, iss, deps.at), client: client, keys: k, codes: codes}, nil
}

// verify identifies the caller of a token, and returns the generation of keys that verified
// it. It first finds mistakes that do not depend on the signature, without asking for keys.
func (iss *issuer) verify(ctx context.Context, token string, j jws, now time.Time) (identity, uint64, *refusal) {
	if !slices.Contains(iss.Algorithms, j.alg) {
		return identity{}, 0, badToken("the token's algorithm is not accepted", nil)
	}
	if ref := iss.checkTyp(j); ref != nil {
		return identity{}, 0, ref
	}
	id, ref := iss.judge(j.claims, now)
	if ref != nil {
		return identity{}, 0, ref
	}
	generation, ref := iss.checkSignature(ctx, token, j)
	return id, generation, ref
}

// checkSignature returns the generation of keys that verified a token.
func (iss *issuer) checkSignature(ctx context.Context, token string, j jws) (uint64, *refusal) {
	found, generation, err := iss.keys.lookup(ctx, j)
	if err != nil {
		return 0, lookupRefusal(err)
	}
	verifier := oidc.NewVerifier("", signedBy{found, j.alg}, &oidc.Config{
		SupportedSigningAlgs: []string{j.alg},
		SkipIssuerCheck:      true, // without regard to a path "/": see rules
		SkipClientIDCheck:    true, // there may be several audiences: see rules
		SkipExpiryCheck:      true, // without leeway, and with too much for nbf: see rules
	})
	if _, err := verifier.Verify(ctx, token); err != nil {
		return 0, badToken("the token's signature cannot be verified", err)
	}
	return generation, nil
}

// lookupRefusal distinguishes a token with an unknown key from a gateway without keys.
func lookupRefusal(err error) *refusal {
	if errors.Is(err, errUnknownKey) {
		return badToken("the token's signature cannot be verified", err)
	}
	return unavailable(err)
}

// unavailable is the refusal if the issuer cannot be asked.
func unavailable(err error) *refusal {
	retry := retryMin
	if stale, ok := errors.AsType[*staleError](err); ok {
		retry = stale.retry
	}
	if errors.Is(err, errQueued) {
		return noJudgement("too many tokens from this address were no good: try again", retry, err)
	}
	if errors.Is(err, errUnjudged) {
		return noJudgement("the key of this access token is not known yet: try again", retry, err)
	}
	return noJudgement("access tokens cannot be verified now, since their issuer does not answer: try again", retry, err)
}
