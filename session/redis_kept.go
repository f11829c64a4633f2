package session

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"
)

// Bounds of what is kept for one session.
const (
	maxKept      = 256      // names
	maxKeptBytes = 64 << 10 // for each name
)

// Kept is what the owner of a session keeps of the session's own sessions at servers, so that
// the next owner can continue them. It lasts as long as the session. A derived id has no
// record: its values last until they are forgotten, and for an idle time after their owner is
// gone. Kept is safe for concurrent use.
type Kept struct {
	s *Redis

	mu      sync.Mutex             // guards the field below
	derived map[name]time.Duration // the sessions without records, and when Redis was last told of each
}

// Load returns what is kept for a session's key under a name; nil for none. Errors: ErrUnavailable.
func (k *Kept) Load(ctx context.Context, session, name string) ([]byte, error) {
	n, seal := nameOf(session), k.s.seals.kept
	got, err := k.s.step(ctx, recallScript, n, seal.Name(n.user, n.id, name))
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	value, ok := k.s.open(seal, "kept", got, n.user, n.id, name)
	if err != nil || !ok {
		return nil, err
	}
	k.hold(n, 0)
	return value, nil
}

// Save keeps a value for a session under a name; a nil value removes it. Errors: ErrNotFound
// if the session has ended, ErrMoved, ErrTooMany, ErrTooLarge, ErrUnavailable.
func (k *Kept) Save(ctx context.Context, session, name string, value []byte) error {
	n, seal := nameOf(session), k.s.seals.kept
	field := seal.Name(n.user, n.id, name)
	if value == nil {
		if _, err := k.s.step(ctx, unkeepScript, n, field); !errors.Is(err, ErrNotFound) {
			return err
		}
		return nil
	}
	if len(value) > maxKeptBytes {
		return fmt.Errorf("%w: %d bytes for %s", ErrTooLarge, len(value), name)
	}
	got, err := k.s.step(ctx, keepScript, n, ValidID(n.id), maxKept, field, seal.SealBytes(value, n.user, n.id, name))
	if err == nil && got == tooMany {
		err = ErrTooMany
	}
	if err == nil {
		k.hold(n, k.s.clock())
	}
	return err
}

// hold records that something is kept for a session without a record, and when Redis was told.
// Beyond the bound, such values last for one idle time.
func (k *Kept) hold(n name, told time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, known := k.derived[n]; !ValidID(n.id) && (known || len(k.derived) < k.s.cfg.Max) {
		k.derived[n] = max(told, k.derived[n])
	}
}

func (k *Kept) drop(n name) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.derived, n)
}

// sweep prolongs in Redis what is kept here, so that all else expires.
func (k *Kept) sweep(ctx context.Context) {
	k.mu.Lock()
	derived := maps.Clone(k.derived)
	k.mu.Unlock()
	for n, told := range derived {
		if k.s.clock()-told < k.s.cfg.IdleTimeout/10 {
			continue
		}
		switch _, err := k.s.step(ctx, unkeepScript, n, ""); {
		case err == nil:
			k.hold(n, k.s.clock())
		case !errors.Is(err, ErrUnavailable):
			k.drop(n)
		}
	}
}
