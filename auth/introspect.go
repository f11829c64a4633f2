package auth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/singleflight"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

const (
	maxIntrospection = 64 << 10 // bytes of an answer
	maxAsking        = 32       // introspections at a time
	maxRefused       = 10_000   // cached refused tokens
	refusedFor       = 5 * time.Second
)

// introspector asks an issuer about opaque tokens (RFC 7662). It caches refused tokens;
// accepted ones are in the cache for verified JWTs.
type introspector struct {
	*issuer
	log     *slog.Logger
	slots   chan struct{}
	waiting chan struct{} // holds one for each request that waits for an answer
	flights singleflight.Group
	refused *lru.Cache[digest, finding]
	suspect *suspects
	failing atomic.Bool
}

func newIntrospector(iss *issuer, log *slog.Logger) (*introspector, error) {
	refused, err := lru.New[digest, finding](maxRefused)
	if err != nil {
		return nil, err
	}
	suspect, err := newSuspects()
	if err != nil {
		return nil, err
	}
	return &introspector{issuer: iss, log: log.With("issuer", iss.URL), slots: make(chan struct{}, maxAsking),
		waiting: make(chan struct{}, maxWaiting), refused: refused, suspect: suspect}, nil
}

// finding is the result of one introspection.
type finding struct {
	identity
	refused *refusal
	until   time.Time // while the issuer's refusal holds, else zero
}

// verify identifies the caller of a token from an address. It asks about each token once at a
// time.
func (in *introspector) verify(ctx context.Context, token string, d digest, remote string) (identity, *refusal) {
	if f, ok := in.refused.Get(d); ok && time.Now().Before(f.until) {
		return f.identity, f.refused
	}
	from := networkOf(remote)
	done, err := in.suspect.wait(ctx, from)
	if err != nil {
		return identity{}, unavailable(err)
	}
	defer done()
	select { // any stranger can make up tokens
	case in.waiting <- struct{}{}:
		defer func() { <-in.waiting }()
	default:
		return identity{}, unavailable(&staleError{retryMin, errWaiting})
	}
	// Others may wait for the same answer, so it does not end with this client. It has
	// bounds of its own: fetchTime for a slot and fetchTime for the exchange.
	found, _, _ := in.flights.Do(string(d[:]), func() (any, error) {
		f := in.ask(context.WithoutCancel(ctx), token)
		if !f.until.IsZero() {
			in.refused.Add(d, f)
		}
		return f, nil
	})
	f := found.(finding)
	switch {
	case f.refused == nil:
		in.suspect.good(from)
	case f.refused.code == codeInvalidToken:
		in.suspect.bad(from)
	}
	return f.identity, f.refused
}

// examine is verify for a token that came with no request: no address sent it, and what was found out
// about it before does not count.
func (in *introspector) examine(ctx context.Context, token string) (identity, *refusal) {
	f := in.ask(context.WithoutCancel(ctx), token)
	return f.identity, f.refused
}

func (in *introspector) ask(ctx context.Context, token string) finding {
	ctx, cancel := context.WithTimeout(ctx, 2*fetchTime)
	defer cancel()
	claims, err := in.exchange(ctx, token)
	if err != nil {
		if !in.failing.Swap(true) {
			in.log.Warn("tokens cannot be introspected", failure.IssuerDown.Attr(), "error", err)
		}
		return finding{refused: unavailable(err)}
	}
	if in.failing.Swap(false) {
		in.log.Info("tokens are introspected again")
	}
	id, ref := in.judge(claims)
	f := finding{identity: id, refused: ref}
	if ref != nil || id.forbidden != nil {
		f.until = time.Now().Add(refusedFor)
	}
	return f
}

// exchange returns the issuer's answer.
func (in *introspector) exchange(ctx context.Context, token string) (mcp.Raw, error) {
	select {
	case in.slots <- struct{}{}:
		defer func() { <-in.slots }()
	case <-ctx.Done():
		return nil, &staleError{retryMin, errors.New("too many introspections at a time")}
	}
	at := in.Introspection.URL
	if at == "" {
		var err error
		if at, err = in.keys.introspection(ctx); err != nil {
			return nil, err
		}
	}
	form := url.Values{"token": {token}, "token_type_hint": {"access_token"}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, errors.New("the introspection endpoint is not a URL")
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	// RFC 6749 §2.3.1: both are form-encoded before they go into Basic.
	req.SetBasicAuth(url.QueryEscape(in.Introspection.ClientID), url.QueryEscape(string(in.Introspection.ClientSecret)))
	resp, err := in.client.Do(req)
	switch {
	case err != nil:
		return nil, err
	case resp.Status == http.StatusUnauthorized || resp.Status == http.StatusForbidden:
		return nil, fmt.Errorf("the issuer does not accept our client_id and client_secret: %w", &statusError{resp.Status})
	case resp.Status != http.StatusOK:
		return nil, &statusError{resp.Status}
	case len(resp.Body) > maxIntrospection:
		return nil, fmt.Errorf("the answer has more than %d bytes", maxIntrospection)
	}
	claims, err := parseObject(resp.Body, in.exact...)
	if err != nil {
		return nil, fmt.Errorf("the answer cannot be read: %w", err)
	}
	if active, _ := claims.Member("active"); string(active) != "true" && string(active) != "false" {
		return nil, errors.New("the answer does not say whether the token is active")
	}
	return claims, nil
}

// judge checks an answer by the rules for tokens. It requires all claims of a JWT except iss,
// because the gateway knows whom it asked.
func (in *introspector) judge(claims mcp.Raw) (identity, *refusal) {
	if active, _ := claims.Member("active"); !active.IsTrue() {
		return identity{}, badToken("the token is not active", nil)
	}
	kind, has := claims.Member("token_type")
	bound := in.dpop && strings.EqualFold(kind.Text(), "dpop")
	if has && !bound && !strings.EqualFold(kind.Text(), "bearer") {
		return identity{}, badToken("the token is not a bearer token", nil)
	}
	if ref := in.checkKind(claims, true); ref != nil {
		return identity{}, ref
	}
	if _, has := claims.Member("iss"); !has {
		claims = claims.With("iss", mcp.String(in.URL))
	}
	id, ref := in.issuer.judge(claims, time.Now())
	if ref == nil && bound && id.bound == "" {
		return identity{}, badToken("the token is not a bearer token", errors.New("token_type is DPoP, and there is no cnf"))
	}
	return id, ref
}
