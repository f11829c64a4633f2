package auth

import (
	"context"
	"errors"
	"time"
)

// Errors of a lookup.
var (
	errUnknownKey   = errors.New("the issuer has no such key")
	errWaiting      = errors.New("too many requests wait for keys")
	errTooOld       = errors.New("keys were not fetched for too long")
	errNoFetch      = errors.New("keys are not fetched any more")
	errNoIntrospect = errors.New("the metadata do not say where tokens are introspected")
)

// staleError says that there are no valid keys.
type staleError struct {
	retry time.Duration
	cause error
}

func (e *staleError) Error() string { return "nothing to judge by: " + e.cause.Error() }
func (e *staleError) Unwrap() error { return e.cause }

// lookup returns the keys for a token's header and their generation. It returns none if the
// named key is not for the token's algorithm. errUnknownKey means that the token is wrong;
// other errors mean that the gateway cannot judge it.
func (k *keys) lookup(ctx context.Context, j jws) ([]key, uint64, error) {
	for attempt := 0; ; attempt++ {
		found, generation, wait, err := k.look(j, attempt)
		if wait == nil {
			return found, generation, err
		}
		err = k.wait(ctx, wait)
		if err != nil {
			return nil, 0, err
		}
	}
}

// look looks at the set once. If that does not decide, it returns a channel that is closed
// after a fetch that will.
func (k *keys) look(j jws, attempt int) (found []key, generation uint64, wait chan struct{}, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	usable := k.usable(now)
	if usable && (!j.hasKid || k.set.known(j.kid)) {
		return k.set.candidates(j), k.generation.Load(), nil, nil
	}
	if usable && attempt == 0 {
		k.count.UnknownKeys++
	}
	var named newKey
	if usable {
		if named = k.named(j, now); now.Before(named.until) {
			return nil, 0, nil, errUnknownKey
		}
	}
	switch {
	case k.ended:
		return nil, 0, nil, &staleError{retryMin, errNoFetch}
	case k.fetching != nil && attempt < maxAttempts:
		return nil, 0, k.fetching, nil
	case !usable:
		return nil, 0, nil, &staleError{max(time.Second, k.next.Sub(now)), k.trouble()}
	case now.Sub(k.lastDemand) >= named.every() && attempt < maxAttempts:
		k.lastDemand = now
		k.fetching = make(chan struct{})
		select {
		case k.demand <- struct{}{}:
		default: // wished for already
		}
		return nil, 0, k.fetching, nil
	}
	cause := k.failure
	if cause == nil {
		cause = errUnjudged
	}
	return nil, 0, nil, &staleError{max(time.Second, k.lastDemand.Add(named.every()).Sub(now)), cause}
}

// trouble says why there are no valid keys. The caller holds mu.
func (k *keys) trouble() error {
	if k.failure != nil {
		return k.failure
	}
	return errTooOld
}

// wait returns when a fetch has ended. It is bounded in case run does not run.
func (k *keys) wait(ctx context.Context, fetched chan struct{}) error {
	k.mu.Lock()
	if k.waiting >= maxWaiting {
		k.mu.Unlock()
		return &staleError{retryMin, errWaiting}
	}
	k.waiting++
	k.mu.Unlock()
	defer func() {
		k.mu.Lock()
		k.waiting--
		k.mu.Unlock()
	}()
	timer := time.NewTimer(2 * fetchTime)
	defer timer.Stop()
	select {
	case <-fetched:
		return nil
	case <-timer.C:
		return &staleError{retryMin, context.DeadlineExceeded}
	case <-ctx.Done():
		return ctx.Err()
	}
}

// introspection returns the introspection endpoint.
func (k *keys) introspection(ctx context.Context) (string, error) {
	for attempt := 0; ; attempt++ {
		k.mu.Lock()
		at, wait, failure := k.meta.introspect, k.fetching, k.failure
		retry := max(retryMin, time.Until(k.next))
		k.mu.Unlock()
		switch {
		case at != "":
			return at, nil
		case wait == nil || attempt > 0:
			if failure == nil {
				failure = errNoIntrospect
			}
			return "", &staleError{retry, failure}
		}
		if err := k.wait(ctx, wait); err != nil {
			return "", err
		}
	}
}
