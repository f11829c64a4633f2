package vault

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
)

// useEvery is how often the last use of an account is written.
const useEvery = time.Minute

// ErrNeedsSignIn is for an account that its user has to sign in to first. It comes as a
// *SignInError.
var ErrNeedsSignIn = errors.New("the user has to sign in")

// SignInError says that a user has to sign in at a server.
type SignInError struct {
	// State is StateNeedsSignIn, StateExpired or StateRevoked.
	State string
	// Scopes are those that the server has asked for, beyond those of the grant.
	Scopes []string
	// Refused says that the server has refused the token.
	Refused bool
}

// Error says so.
func (e *SignInError) Error() string { return ErrNeedsSignIn.Error() + " (" + e.State + ")" }

// Is reports whether target is ErrNeedsSignIn.
func (e *SignInError) Is(target error) bool { return target == ErrNeedsSignIn }

// Error says why there is no token now although the user has signed in.
type Error struct {
	// Why is for the user, without secrets and addresses.
	Why   string
	cause error
}

// Error returns the reason.
func (e *Error) Error() string { return "no token: " + e.Why }

// Unwrap returns what was behind it.
func (e *Error) Unwrap() error { return e.cause }

func away(err error) *Error {
	return &Error{Why: "the store of users' accounts does not answer; try again later", cause: err}
}

// Token returns the access token of a user at a server with the endpoint url, and a stamp for
// Refused. The error is a *SignInError or an *Error.
func (v *Vault) Token(ctx context.Context, owner Owner, server, url string) (token string, stamp uint64, err error) {
	a, now := v.account(place{owner, server}), time.Now()
	k, err := v.current(ctx, a, now)
	if err != nil {
		return "", 0, err
	}
	if err := k.usable(url, now); err != nil {
		return "", 0, err
	}
	a.mu.Lock()
	refused := a.refused == k.stamp
	a.mu.Unlock()
	if !refused && !k.due(now) && !k.dead(now) {
		v.note(a, k, now)
		return k.Grant.AccessToken, k.stamp, nil
	}
	good := !refused && !k.dead(now)
	if good && k.Trouble != nil && now.Before(k.Trouble.Until) {
		v.note(a, k, now)
		return k.Grant.AccessToken, k.stamp, nil
	}
	f := v.refresh(a)
	if good { // the new one is for the next call
		v.note(a, k, now)
		return k.Grant.AccessToken, k.stamp, nil
	}
	select {
	case <-f.done:
	case <-ctx.Done():
		return "", 0, &Error{Why: "the authorization server of this server does not answer; try again later",
			cause: context.Cause(ctx)}
	}
	if f.err != nil {
		return "", 0, f.err
	}
	if err := f.known.usable(url, time.Now()); err != nil {
		return "", 0, err
	}
	v.note(a, f.known, now)
	return f.known.Grant.AccessToken, f.known.stamp, nil
}

// usable returns why a user has no token at an endpoint, nil if they have one.
func (k *known) usable(url string, now time.Time) error {
	switch {
	case k == nil || k.Grant.URL != url:
		return &SignInError{State: StateNeedsSignIn}
	case k.End != "":
		return &SignInError{State: k.End, Scopes: k.Wanted, Refused: k.End == StateNeedsSignIn}
	case k.Grant.RefreshToken == "" && k.dead(now):
		return &SignInError{State: StateExpired, Scopes: k.Wanted}
	}
	return nil
}

// Refused notes that a server has refused (401) the access token with this stamp. It reports whether there may be
// another one; if not, the error is a *SignInError, and so is that of Token from now on.
func (v *Vault) Refused(ctx context.Context, owner Owner, server string, stamp uint64) (again bool, err error) {
	a := v.account(place{owner, server})
	k, err := v.current(ctx, a, time.Now())
	switch {
	case err != nil:
		return false, err
	case k == nil:
		return false, &SignInError{State: StateNeedsSignIn}
	case k.stamp != stamp:
		return true, nil // replaced since
	case k.Grant.RefreshToken != "" && time.Since(k.Forced) >= afterRefusal:
		a.mu.Lock()
		a.refused = stamp
		a.mu.Unlock()
		return true, nil
	}
	now, done, err := v.change(ctx, a, k, func(r *record) {
		if r.Grant.AccessToken == k.Grant.AccessToken {
			r.ended(StateNeedsSignIn, "the server refused the token")
		}
	})
	switch {
	case err != nil:
		return false, away(err)
	case !done && now != nil && now.End == "":
		return true, nil // the user has signed in again
	}
	v.tell(a.place, Ended, nil)
	return false, &SignInError{State: StateNeedsSignIn, Scopes: k.Wanted, Refused: true}
}

// Hide returns a text of a server without the access token of a user there.
func (v *Vault) Hide(owner Owner, server, text string) string {
	if a, ok := v.known.Peek(place{owner, server}); ok {
		if k, _ := a.now(time.Time{}); k != nil && k.Grant.AccessToken != "" {
			return strings.ReplaceAll(text, k.Grant.AccessToken, "<secret>")
		}
	}
	return text
}

// Wants notes that a server has asked for scopes (403, insufficient_scope): the next sign-in asks
// for them. The error is a *SignInError with all of them.
func (v *Vault) Wants(ctx context.Context, owner Owner, server string, scopes []string) error {
	a := v.account(place{owner, server})
	k, err := v.current(ctx, a, time.Now())
	if err != nil {
		return err
	}
	if k == nil {
		return &SignInError{State: StateNeedsSignIn, Scopes: scopes}
	}
	all := union(k.Wanted, scopes)
	if len(all) > len(k.Wanted) {
		if _, _, err = v.change(ctx, a, k, func(r *record) { r.Wanted = union(r.Wanted, scopes) }); err != nil {
			v.warn(a.place, failure.StoreDown, "the scopes that a server asks for were not kept", err)
		}
	}
	return &SignInError{State: StateNeedsSignIn, Scopes: all}
}

// mostWanted bounds the scopes that are kept of what servers ask for, mostScope each of them.
const (
	mostWanted = 50
	mostScope  = 200
)

func union(a, b []string) []string {
	all := slices.Clone(a)
	for _, scope := range b {
		if scope != "" && len(scope) <= mostScope && len(all) < mostWanted && !slices.Contains(all, scope) {
			all = append(all, scope)
		}
	}
	return all
}

// note writes the last use of an account now and then. It also rewrites what another key has sealed
// or what would otherwise end. No call waits for it.
func (v *Vault) note(a *account, k *known, now time.Time) {
	a.mu.Lock()
	due := now.Sub(a.noted) >= useEvery && !a.unsaved
	if due {
		a.noted = now
	}
	a.mu.Unlock()
	if !due {
		return
	}
	v.spawn(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, storeTime)
		defer cancel()
		err := v.uses.Put(ctx, a.name(), strconv.AppendInt(nil, now.Unix(), 10), unused)
		if err == nil && (now.Sub(k.Written) >= rewrite || v.sealer.old(k.raw)) {
			_, _, err = v.change(ctx, a, k, func(*record) {})
		}
		if err != nil {
			v.deps.Log.Debug("the last use of an account was not written", "upstream", a.server, "error", err)
		}
	})
}

// used returns when an account was last used; zero for never.
func (v *Vault) used(ctx context.Context, at place) time.Time {
	text, err := v.uses.Get(ctx, at.name())
	if err != nil {
		return time.Time{}
	}
	seconds, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.Unix(seconds, 0)
}
