package grants

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/auth/clientele"
	"github.com/gatehouse-mcp/gatehouse/auth/signin"
	"github.com/gatehouse-mcp/gatehouse/internal/expiring"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

const (
	// graceFor is how long the refresh token before the current one gives the current one again: a
	// client that lost the answer, or two of its windows at once, are no thieves.
	graceFor = 30 * time.Second
	// busyFor bounds a refresh: others of the same grant wait for it, so that the provider is asked
	// once.
	busyFor  = 20 * time.Second
	lookBusy = 100 * time.Millisecond
)

// byRefresh gives the tokens of a refresh token, and takes it out of use. One that was taken out of
// use ends the grant: it was stolen, or the one after it was.
func (s endpoint) byRefresh(r *http.Request, client clientele.Client) (map[string]any, error) {
	ctx := r.Context()
	id, secret, _ := strings.Cut(r.PostForm.Get("refresh_token"), ".")
	name := nameOf(id)
	if _, err := s.deps.State.grants.Get(ctx, name); errors.Is(err, expiring.ErrNone) { // no wait for what does not exist
		return nil, fail(codeInvalidGrant, "the refresh token is not good, or not any more")
	}
	free, err := s.busy(ctx, name)
	if err != nil {
		return nil, err
	}
	defer free()
	// Once the provider has been asked, its answer is kept, even if the client does not wait for it: the
	// refresh token there may be another one now.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), busyFor)
	defer cancel()
	r = r.WithContext(ctx)
	old, err := s.deps.State.grants.Get(ctx, name)
	if errors.Is(err, expiring.ErrNone) {
		return nil, fail(codeInvalidGrant, "the refresh token is not good, or not any more")
	}
	var g grant
	if err == nil {
		err = json.Unmarshal(old, &g)
	}
	if err != nil {
		return nil, err
	}
	scopes, err := s.mayRefresh(r, client, g)
	if err != nil {
		return nil, err
	}
	switch {
	case same(secret, g.Current):
	case same(secret, g.Previous) && time.Since(g.Rotated) < graceFor:
		return s.tokens(ctx, id, g, scopes)
	default:
		return nil, s.over(ctx, name, g, "a refresh token was used twice", nil)
	}
	before := g.Again
	if g, err = s.askAgain(r, name, g); err != nil {
		if text, bad := json.Marshal(g); bad == nil && g.Again != before {
			_, _ = s.deps.State.grants.Swap(ctx, name, old, text, s.life(g)) // else the user signs in again
		}
		return nil, err
	}
	scopes = slices.DeleteFunc(slices.Clone(scopes), func(scope string) bool { return !slices.Contains(g.Scopes, scope) })
	g.Current, g.Previous, g.Rotated = rand.Text()+rand.Text(), g.Current, time.Now()
	answer, err := s.tokens(ctx, id, g, scopes)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(g)
	if err != nil {
		return nil, err
	}
	switch swapped, err := s.deps.State.grants.Swap(ctx, name, old, text, s.life(g)); {
	case err != nil:
		return nil, err
	case !swapped: // it has ended since
		return nil, fail(codeInvalidGrant, "the refresh token is not good any more")
	}
	return answer, nil
}

// mayRefresh checks what has nothing to do with the token itself. It returns the scopes that are
// asked for.
func (s endpoint) mayRefresh(r *http.Request, client clientele.Client, g grant) ([]string, error) {
	_, there := (*s.resources.Load())[g.Resource]
	switch {
	case g.Client != client.ID:
		return nil, fail(codeInvalidGrant, "the refresh token is of another client")
	case !there:
		return nil, fail(codeInvalidGrant, "the endpoint that it was for is not there any more")
	case g.Provider != s.cfg.Provider || !time.Now().Before(g.Until):
		return nil, fail(codeInvalidGrant, "the user has to sign in again")
	}
	if err := sameTarget(r.PostForm, g); err != nil {
		return nil, err
	}
	asked := strings.Fields(r.PostForm.Get("scope"))
	if len(asked) == 0 {
		return g.Scopes, nil
	}
	scopes := slices.Clone(g.Scopes)
	return slices.DeleteFunc(scopes, func(scope string) bool {
		return !slices.Contains(asked, scope) && !slices.Contains(s.required, scope)
	}), nil
}

// askAgain asks the provider whether the user may continue, and what it says about them now.
func (s endpoint) askAgain(r *http.Request, name string, g grant) (grant, error) {
	if g.Again == "" {
		return g, nil
	}
	in, err := s.flow.Again(r, mcp.Secret(g.Again))
	if refused, no := errors.AsType[*signin.RefusedError](err); no {
		return g, s.over(r.Context(), name, g, refused.Why, nil)
	}
	if in.Refresh != "" {
		g.Again = string(in.Refresh)
	}
	if err != nil {
		return g, err
	}
	switch {
	case in.Caller.Subject == "": // yes, and nothing more
	case in.Caller.Subject != g.Subject || in.Caller.Issuer != g.Provider:
		return g, s.over(r.Context(), name, g, "the provider names another user", nil)
	default:
		g.Claims = in.Caller.Claims
		if !s.flow.IDToken {
			g.Scopes = slices.DeleteFunc(slices.Clone(g.Scopes),
				func(scope string) bool { return !slices.Contains(in.Caller.Scopes, scope) })
		}
	}
	return g, nil
}

// busy waits until no other request refreshes a grant, at any replica. free lets the next one go.
func (s endpoint) busy(ctx context.Context, name string) (free func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, busyFor/2)
	defer cancel()
	for {
		added, err := s.deps.State.busy.Add(ctx, "busy:"+name, []byte("1"), busyFor)
		if err != nil {
			return nil, err
		}
		if added {
			return func() {
				ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
				defer cancel()
				_ = s.deps.State.busy.Drop(ctx, "busy:"+name) // it ends by itself
			}, nil
		}
		wait := time.NewTimer(lookBusy)
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return nil, fail(codeUnavailable, "this grant is being refreshed: try again")
		}
	}
}

func same(a, b string) bool {
	return b != "" && subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1
}

// revoke ends what a token was given by (RFC 7009). Tokens that are not good are revoked already.
func (s endpoint) revoke(w http.ResponseWriter, r *http.Request) {
	client, err := s.who(w, r)
	if err == nil {
		err = s.revokeOf(r.Context(), client.ID, r.PostForm.Get("token"))
	}
	if err != nil {
		s.deps.Metrics.count(stepRevoke, s.refuse(w, r, err))
		return
	}
	s.deps.Metrics.count(stepRevoke, nil)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
}

func (s endpoint) revokeOf(ctx context.Context, client, token string) error {
	name, err := s.grantOf(ctx, token)
	if err != nil || name == "" {
		return err
	}
	text, err := s.deps.State.grants.Get(ctx, name)
	if errors.Is(err, expiring.ErrNone) {
		return nil
	}
	var g grant
	if err == nil {
		err = json.Unmarshal(text, &g)
	}
	if err != nil || g.Client != client {
		return err
	}
	if err := s.deps.State.end(ctx, name); err != nil {
		return err
	}
	s.deps.Recorded(ctx, Event{Name: "grant ended", Reason: "its client has revoked it", Caller: g.caller(),
		Client: client, View: s.view(g.Resource)})
	return nil
}
