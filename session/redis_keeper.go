package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/gatehouse-mcp/gatehouse/internal/home"
)

// Bounds of what is kept for one session.
const (
	maxKept      = 256      // names
	maxKeptBytes = 64 << 10 // for each name
)

// Keeper keeps in Redis what the next owner of a session needs to continue the session's own
// sessions at servers. It lasts as long as the session. A client without a session has no record:
// its values last until they are forgotten, and for an idle time after its home is over. Keeper is
// safe for concurrent use.
type Keeper struct{ s *Redis }

// keptPart is the part of a home for which something is kept.
type keptPart struct{}

// Load returns what is kept for a session (home.Key) under a name; nil for none. Errors:
// ErrUnavailable.
func (k Keeper) Load(ctx context.Context, session, name string) ([]byte, error) {
	key, seal := home.ParseKey(session), k.s.seals.kept
	got, err := k.s.step(ctx, recallScript, key, "", seal.Name(key.User, key.ID, name))
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	value, ok := k.s.unseal(seal, "kept", got, key.User, key.ID, name)
	if err != nil || !ok {
		return nil, err
	}
	if h := k.s.homes.Known(key); h != nil {
		home.Ensure(h, newKept)
	}
	return value, nil
}

func newKept() *keptPart { return &keptPart{} }

// Save keeps a value for a session under a name; a nil value removes it. Errors: ErrNotFound
// if the session has ended, ErrMoved, ErrTooMany, ErrTooLarge, ErrUnavailable.
func (k Keeper) Save(ctx context.Context, session, name string, value []byte) error {
	if len(value) > maxKeptBytes {
		return fmt.Errorf("%w: %d bytes for %s", ErrTooLarge, len(value), name)
	}
	key, seal := home.ParseKey(session), k.s.seals.kept
	field, token := seal.Name(key.User, key.ID, name), unowned
	h := k.s.homes.Known(key)
	if h != nil {
		token = h.Fence()
	}
	var got any
	var err error
	if value != nil {
		got, err = k.s.step(ctx, keepScript, key, token, !key.Derived(), maxKept, field,
			seal.SealBytes(value, key.User, key.ID, name))
	} else if got, err = k.s.step(ctx, unkeepScript, key, token, field); errors.Is(err, ErrNotFound) {
		return nil
	}
	switch {
	case errors.Is(err, ErrMoved) && h != nil:
		h.Refused()
	case err == nil && got == tooMany:
		return ErrTooMany
	case err == nil && h != nil:
		home.Ensure(h, newKept)
	}
	return err
}
