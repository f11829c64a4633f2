package vault

import (
	"context"
	"crypto/rand"
	"errors"
	mathrand "math/rand/v2"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
)

const (
	// askTime bounds a request to an authorization server.
	askTime = 10 * time.Second
	// storeTime bounds what one goroutine does at the store.
	storeTime = 10 * time.Second
	// lockLife is how long a replica has the right to refresh: longer than a request and what is
	// written after it may take.
	lockLife = 30 * time.Second
	// askUntil is how long after it has got that right a replica waits for the authorization server.
	askUntil = lockLife - askTime
	// mostAtOnce bounds the requests for tokens that one endpoint gets at a time from a replica.
	mostAtOnce = 16
	// flightTime bounds a refresh, with the wait for another replica that ended in the midst of one.
	flightTime = 2 * lockLife
	// Those who wait for another replica look at the store after firstLook, then less often.
	firstLook = 20 * time.Millisecond
	mostLook  = 500 * time.Millisecond
	// mostSave is the longest pause between attempts to save what the store could not take.
	mostSave = 5 * time.Second
)

// flight is a refresh that several calls wait for.
type flight struct {
	done  chan struct{}
	known *known
	err   error
}

// refresh joins the refresh that is under way here, or begins one.
func (v *Vault) refresh(a *account) *flight {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.flight != nil {
		return a.flight
	}
	f := &flight{done: make(chan struct{})}
	run := func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, flightTime)
		defer cancel()
		k, err := v.renew(ctx, a)
		a.mu.Lock()
		a.flight, f.known, f.err = nil, k, err
		a.mu.Unlock()
		close(f.done)
	}
	if !v.spawn(run) {
		f.err = &Error{Why: "the gateway is being stopped; try again"}
		close(f.done)
		return f
	}
	a.flight = f
	return f
}

// renew refreshes a token, or waits for the replica that does. The error is a *SignInError or an
// *Error.
func (v *Vault) renew(ctx context.Context, a *account) (*known, error) {
	me := []byte(rand.Text())
	for look := firstLook; ; look = min(2*look, mostLook) {
		began := time.Now()
		mine, err := v.locks.Add(ctx, a.name(), me, lockLife)
		if err != nil {
			return nil, away(err)
		}
		k, err := v.read(ctx, a)
		if done, err := v.over(a, k, err); done {
			if mine {
				v.unlock(ctx, a, began)
			}
			return k, err
		}
		if mine {
			defer v.unlock(ctx, a, began)
			bounded, cancel := context.WithDeadline(ctx, began.Add(askUntil))
			defer cancel()
			return v.ask(bounded, a, k)
		}
		select {
		case <-time.After(look + mathrand.N(look)):
		case <-ctx.Done():
			return nil, &Error{Why: "another replica of the gateway is getting a new token; try again",
				cause: context.Cause(ctx)}
		}
	}
}

// over reports whether there is nothing to refresh (any more), and publishes what there is.
func (v *Vault) over(a *account, k *known, err error) (bool, error) {
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.unsaved && a.known != nil:
		// what is in the store is worth nothing
		return true, &Error{Why: "a new token could not be saved yet; try again later"}
	case errors.Is(err, errUnreadable), err == nil && k == nil:
		a.known = nil
		return true, &SignInError{State: StateNeedsSignIn}
	case err != nil:
		return true, away(err)
	case k.End != "":
		a.known, a.read = k, now
		return true, &SignInError{State: k.End, Scopes: k.Wanted}
	case k.Grant.RefreshToken == "":
		a.known, a.read = k, now
		return true, nil
	case k.Trouble != nil && now.Before(k.Trouble.Until):
		a.known, a.read = k, now
		return true, &Error{Why: k.Trouble.Why}
	case k.stamp != a.refused && !k.due(now) && !k.dead(now):
		a.known, a.read = k, now
		return true, nil
	}
	return false, nil
}

// unlock lets others refresh, unless the lock has ended and may be theirs, or the refresh token has
// been used up: then they get it when it ends.
func (v *Vault) unlock(ctx context.Context, a *account, began time.Time) {
	a.mu.Lock()
	usedUp := a.unsaved
	a.mu.Unlock()
	if !usedUp && time.Since(began) < lockLife/2 {
		_ = v.locks.Drop(context.WithoutCancel(ctx), a.name()) // it ends by itself
	}
}

// ask gets a new token and writes it before its first use. This replica alone may do so.
func (v *Vault) ask(ctx context.Context, a *account, k *known) (*known, error) {
	a.mu.Lock()
	forced := a.refused == k.stamp
	a.mu.Unlock()
	got, bad := v.grant(ctx, a.place, k.record)
	now := time.Now()
	if bad == nil {
		v.metrics.refreshed.Inc()
		v.tell(a.place, Refreshed, nil)
		after, err := v.save(ctx, a, k, func(r *record) {
			r.Grant.AccessToken, r.Grant.RefreshToken, r.Grant.Expires, r.Grant.Scope = got.AccessToken, got.RefreshToken,
				got.Expires, got.Scope
			if r.issued(now); forced {
				r.Forced = now
			}
		})
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.refused == k.stamp { // some give the same token again: else each call would refresh it
			a.refused = 0
		}
		return after, err
	}
	if ctx.Err() != nil && v.base.Err() != nil {
		return nil, &Error{Why: "the gateway is being stopped; try again"}
	}
	v.tell(a.place, Refused, bad)
	v.warn(a.place, failure.TokenRefused, "no new token for a user's account", bad)
	if bad.revoked {
		v.metrics.revoked.Inc()
		after, done, err := v.change(context.WithoutCancel(ctx), a, k, func(r *record) {
			r.ended(StateRevoked, "the authorization server does not accept the sign-in any more")
			r.Unknown = bad.unknown
		})
		switch {
		case err != nil:
			return nil, away(err)
		case done || after == nil:
			return nil, &SignInError{State: StateRevoked, Scopes: k.Wanted}
		}
		return after, nil // the user has signed in again
	}
	v.metrics.failed.Inc()
	after, _, err := v.change(context.WithoutCancel(ctx), a, k, func(r *record) { r.failed(now, bad.why, bad.after) })
	if err != nil {
		v.deps.Log.Debug("a refresh that failed was not noted", "upstream", a.server, "error", err)
	}
	if after != nil && after.Grant.AccessToken != k.Grant.AccessToken {
		return after, nil
	}
	return nil, &Error{Why: bad.why, cause: bad}
}

// save writes what a refresh has brought. The refresh token that it replaces may be worth nothing
// any more: so if the store cannot take the new one, this replica uses it from memory and goes on
// until the store has it. The store has just taken the lock, so that is rare.
func (v *Vault) save(ctx context.Context, a *account, k *known, f func(*record)) (*known, error) {
	after, done, err := v.change(context.WithoutCancel(ctx), a, k, f)
	if err == nil {
		return v.saved(a, k, after, done, f)
	}
	v.warn(a.place, failure.StoreDown, "a new token of a user could not be saved: this replica tries until it is", err)
	r := k.record
	f(&r)
	held := newKnown(k.raw, r)
	a.hold(held)
	v.spawn(func(ctx context.Context) { v.keepSaving(ctx, a, k, f) })
	return held, nil
}

// saved returns what there is after a refresh. If the user has signed out since, what the refresh has
// brought is not needed; after another sign-in, that one holds.
func (v *Vault) saved(a *account, k, after *known, done bool, f func(*record)) (*known, error) {
	if done || after != nil {
		return after, nil
	}
	unwanted := k.record
	f(&unwanted)
	v.spawn(func(ctx context.Context) { v.revoke(ctx, a.place, unwanted) })
	return nil, &SignInError{State: StateNeedsSignIn}
}

// keepSaving saves what the store could not take. When the gateway stops, it tries once more.
func (v *Vault) keepSaving(ctx context.Context, a *account, k *known, f func(*record)) {
	for pause := firstLook; ; pause = min(2*pause, mostSave) {
		last := false
		select {
		case <-time.After(pause + mathrand.N(pause)):
		case <-ctx.Done():
			last = true
		}
		if now, _ := a.now(time.Time{}); now == nil || now.ID != k.ID {
			return // signed out here, or signed in again
		}
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTime)
		after, done, err := v.change(bounded, a, k, f)
		if err == nil {
			_, _ = v.saved(a, k, after, done, f)
		}
		cancel()
		if err == nil || last {
			return
		}
	}
}
