package vault

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/gatehouse-mcp/gatehouse/internal/seal"
)

// mostDataKeys bounds the data keys in memory.
const mostDataKeys = 10_000

// sealer seals the values of each user with a data key of that user. A value is the wrapped data
// key, a line break, and what it sealed, bound to user and server: as the value of another user or
// server it cannot be opened.
type sealer struct {
	wrappers []wrapper // the first one makes data keys
	life     time.Duration

	mu      sync.Mutex // guards the fields below
	opened  *simplelru.LRU[string, *dataKey]
	current *simplelru.LRU[Owner, *dataKey] // with which a user's values are sealed
}

// dataKey is a data key that has been opened.
type dataKey struct {
	key     *seal.Key
	wrapped string
	until   time.Time
}

func newSealer(cfg Config) (*sealer, error) {
	s := &sealer{life: cfg.Transit.withDefaults().Cache}
	if cfg.Transit != (Transit{}) {
		t, err := newTransit(cfg.Transit)
		if err != nil {
			return nil, fmt.Errorf("transit: %w", err)
		}
		s.wrappers = append(s.wrappers, t)
	}
	for _, k := range cfg.Keys {
		local, err := newLocalKey(k)
		if err != nil {
			return nil, err
		}
		s.wrappers = append(s.wrappers, local)
	}
	if len(s.wrappers) == 0 {
		random, err := newRandomKey()
		if err != nil {
			return nil, err
		}
		s.wrappers = append(s.wrappers, random)
	}
	var err error
	if s.opened, err = simplelru.NewLRU[string, *dataKey](mostDataKeys, nil); err != nil {
		return nil, err
	}
	s.current, err = simplelru.NewLRU[Owner, *dataKey](mostDataKeys, nil)
	return s, err
}

func (s *sealer) close() {
	for _, w := range s.wrappers {
		w.close()
	}
}

// bound is what a value is bound to.
func bound(at place) []string {
	return []string{"account", at.owner.Issuer, at.owner.User, at.server}
}

// seal seals a value of an account.
func (s *sealer) seal(ctx context.Context, at place, plain []byte) ([]byte, error) {
	k, err := s.keyFor(ctx, at.owner)
	if err != nil {
		return nil, err
	}
	return slices.Concat([]byte(k.wrapped), []byte{'\n'}, k.key.SealBytes(plain, bound(at)...)), nil
}

// open opens a value of an account. The error is errUnreadable, or that of a wrapper.
func (s *sealer) open(ctx context.Context, at place, value []byte) ([]byte, error) {
	wrapped, sealed, found := bytes.Cut(value, []byte{'\n'})
	if !found {
		return nil, errUnreadable
	}
	k, err := s.unwrap(ctx, string(wrapped))
	if err != nil {
		return nil, err
	}
	plain, err := k.key.OpenBytes(bytes.Clone(sealed), bound(at)...)
	if err != nil {
		return nil, errUnreadable
	}
	if !s.stale(k.wrapped) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.current.Add(at.owner, k) // one data key for all values of a user
	}
	return plain, nil
}

// old reports whether a value should be sealed again, since there is a newer key.
func (s *sealer) old(value []byte) bool {
	wrapped, _, _ := bytes.Cut(value, []byte{'\n'})
	return s.stale(string(wrapped))
}

func (s *sealer) stale(wrapped string) bool {
	return !s.wrappers[0].owns(wrapped) || s.wrappers[0].old(wrapped)
}

// keyFor returns the data key with which the values of a user are sealed.
func (s *sealer) keyFor(ctx context.Context, owner Owner) (*dataKey, error) {
	s.mu.Lock()
	k, ok := s.current.Get(owner)
	s.mu.Unlock()
	if ok && time.Now().Before(k.until) && !s.stale(k.wrapped) {
		return k, nil
	}
	clear, wrapped, err := s.wrappers[0].makes(ctx)
	if err != nil {
		return nil, err
	}
	if k, err = s.remember(clear, wrapped); err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.current.Add(owner, k)
	}
	return k, err
}

// unwrap returns the data key that was wrapped so.
func (s *sealer) unwrap(ctx context.Context, wrapped string) (*dataKey, error) {
	s.mu.Lock()
	k, ok := s.opened.Get(wrapped)
	s.mu.Unlock()
	if ok && time.Now().Before(k.until) {
		return k, nil
	}
	for _, w := range s.wrappers {
		if w.owns(wrapped) {
			clear, err := w.opens(ctx, wrapped)
			if err != nil {
				return nil, err
			}
			return s.remember(clear, wrapped)
		}
	}
	return nil, errUnreadable
}

func (s *sealer) remember(clear []byte, wrapped string) (*dataKey, error) {
	key, err := seal.NewKey(clear, "vault value")
	if err != nil {
		return nil, fmt.Errorf("a data key is of no use: %w", err)
	}
	k := &dataKey{key, wrapped, time.Now().Add(s.life)}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opened.Add(wrapped, k)
	return k, nil
}
