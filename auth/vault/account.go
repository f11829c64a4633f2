package vault

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/expiring"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

const (
	// fresh is how long this process uses what it knows without asking the store: for as long may
	// another replica use a token after a user has signed out, if the news (Changed) cannot reach it.
	fresh = 10 * time.Second
	// mostTries bounds attempts to change a value that others change at the same time.
	mostTries = 8
)

// errUnreadable is for a value that is not an account, or not the one that it should be.
var errUnreadable = errors.New("what is kept of the account cannot be opened: another key sealed it, or it is that of somebody else")

func secret(s string) mcp.Secret { return mcp.Secret(s) }

// known is an account as the store has it. It is immutable.
type known struct {
	raw   []byte
	stamp uint64 // tells its access token from others
	record
}

func newKnown(raw []byte, r record) *known {
	sum := sha256.Sum256([]byte(r.Grant.AccessToken))
	return &known{raw, binary.BigEndian.Uint64(sum[:]), r}
}

// account holds what this process knows of one account.
type account struct {
	place

	mu      sync.Mutex // guards the fields below; never held over I/O
	known   *known     // nil if nothing is known
	read    time.Time  // when it was
	changes uint64     // how often known was replaced
	unsaved bool       // the store could not take it yet
	refused uint64     // the stamp of the access token that the server has refused last
	noted   time.Time  // when its last use was written
	flight  *flight    // the refresh that is under way
}

// publish replaces what this process knows by k.
func (a *account) publish(k *known, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.known, a.read, a.unsaved = k, now, false
	a.changes++
}

// since returns what learn needs of the time before the store was asked.
func (a *account) since() (changes uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.changes
}

// learn takes over k from the store, unless this process has learnt something newer since the store
// was asked.
func (a *account) learn(since uint64, k *known, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.changes == since && !a.unsaved {
		a.known, a.read = k, now
		a.changes++
	}
}

// hold takes over k, although the store could not take it.
func (a *account) hold(k *known) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.known, a.unsaved = k, true
	a.changes++
}

func (a *account) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.drop()
}

// drop forgets what is known. The caller holds mu.
func (a *account) drop() {
	a.known, a.unsaved, a.refused = nil, false, 0
	a.changes++
}

// outdate has the store asked again. What it could not take yet stays, and the attempts to save it
// find out what has changed.
func (a *account) outdate() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.unsaved {
		a.drop()
	}
}

// now returns what is known, and whether it is good without asking the store.
func (a *account) now(at time.Time) (k *known, good bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.known, a.known != nil && (a.unsaved || at.Sub(a.read) < fresh)
}

// current returns an account, nil for none. While the store does not answer, it is what this
// process knows. The error is an *Error.
func (v *Vault) current(ctx context.Context, a *account, now time.Time) (*known, error) {
	before, good := a.now(now)
	if good {
		return before, nil
	}
	since := a.since()
	k, err := v.read(ctx, a)
	switch {
	case err == nil:
		if k == nil {
			a.forget()
		} else {
			a.learn(since, k, now)
		}
		return k, nil
	case before != nil:
		v.deps.Log.Debug("the account that is known is used, since the store has not answered", "upstream", a.server,
			"error", err)
		return before, nil
	case errors.Is(err, errUnreadable):
		v.warn(a.place, failure.TokenRefused, "an account cannot be opened: its user has to sign in again", err)
		return nil, nil
	}
	return nil, away(err)
}

// read returns what the store has of an account, nil for none.
func (v *Vault) read(ctx context.Context, a *account) (*known, error) {
	raw, err := v.grants.Get(ctx, a.name())
	if errors.Is(err, expiring.ErrNone) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if before, _ := a.now(time.Time{}); before != nil && bytes.Equal(before.raw, raw) {
		return before, nil
	}
	plain, err := v.sealer.open(ctx, a.place, raw)
	if err != nil {
		return nil, err
	}
	r, err := parseRecord(plain)
	if err != nil {
		return nil, err
	}
	return newKnown(raw, r), nil
}

func (v *Vault) seal(ctx context.Context, at place, r record) ([]byte, error) {
	plain, err := r.marshal()
	if err != nil {
		return nil, err
	}
	return v.sealer.seal(ctx, at, plain)
}

// change writes what f makes of an account. Others may change it at the same time: then f gets
// what they have made, as long as it is still the same sign-in with the same refresh token. Else,
// or if it is gone, nothing is changed, done is false, and what there is now is returned.
func (v *Vault) change(ctx context.Context, a *account, k *known, f func(*record)) (now *known, done bool, err error) {
	id, refresh := k.ID, k.Grant.RefreshToken
	for range mostTries {
		r := k.record
		f(&r)
		r.Written = time.Now()
		raw, err := v.seal(ctx, a.place, r)
		if err != nil {
			return k, false, err
		}
		swapped, err := v.grants.Swap(ctx, a.name(), k.raw, raw, r.life())
		if err != nil {
			return k, false, err
		}
		if swapped {
			next := newKnown(raw, r)
			a.publish(next, time.Now())
			return next, true, nil
		}
		if k, err = v.read(ctx, a); err != nil {
			return nil, false, err
		}
		switch {
		case k == nil:
			a.forget()
			return nil, false, nil
		case k.ID == id && k.Grant.AccessToken == r.Grant.AccessToken && k.Grant.RefreshToken == r.Grant.RefreshToken &&
			k.Grant.RefreshToken != refresh:
			a.publish(k, time.Now()) // it was written, and the answer was lost
			return k, true, nil
		case k.ID != id || k.Grant.RefreshToken != refresh:
			a.publish(k, time.Now())
			return k, false, nil
		}
	}
	return k, false, fmt.Errorf("others have changed the account %d times meanwhile", mostTries)
}
