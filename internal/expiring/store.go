package expiring

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
)

// MaxValue bounds a value, in bytes.
const MaxValue = 64 << 10

// ErrNone is the error for a value that does not exist, or no longer does.
var ErrNone = errors.New("nothing is kept there")

// Store keeps values by name. A value is bound to its name and to the room: write access to Redis or
// the file is not enough to make one or to move one. Names are not readable there. A Store is safe for
// concurrent use.
type Store struct {
	room string
	key  *seal.Key // nil for values that are kept as they are
	base Base
	at   place
	of   shares
	each int // how many values one owner has
}

// Base is where stores keep values: in Redis, for all replicas; else in a file; else in memory.
type Base struct {
	Redis *redisdb.DB
	File  *File
}

// Brief is the base of what need not outlive a process without replicas: no file, unless others share it.
func (b Base) Brief() Base {
	if b.File != nil && b.File.db == nil {
		return b
	}
	return Base{Redis: b.Redis}
}

// share is the part of most that one owner may have.
const share = 50

// place is where a Store keeps what it has sealed, by the digests of names.
type place interface {
	put(ctx context.Context, name string, value []byte, life time.Duration) error
	add(ctx context.Context, name string, value []byte, life time.Duration) (bool, error)
	get(ctx context.Context, name string) ([]byte, error)
	take(ctx context.Context, name string) ([]byte, error)
	swap(ctx context.Context, name string, old, value []byte, life time.Duration) (bool, error)
	drop(ctx context.Context, name string) error
}

// shares know in which order values of an owner were kept.
type shares interface {
	// claim notes that an owner has a value. It returns the owner's oldest to drop, so that each are left with
	// the new one.
	claim(ctx context.Context, owner, name string, each int, life time.Duration) (gone []string, err error)
}

// New makes a Store in a base. The room tells its values from those of other stores. In memory it keeps most
// values; a further one replaces the one that was used least recently. In Redis and in a file it keeps all until
// they end. Without a key, values must be sealed already. Of one owner it keeps a share of most, wherever it is: see
// PutOf.
func New(base Base, key *seal.Key, room string, most int) *Store {
	s := &Store{room: room, key: key, base: base, each: max(1, most/share)}
	switch {
	case base.Redis != nil:
		r := replicated{db: base.Redis, prefix: room + ":"}
		s.at, s.of = r, r
	case base.File != nil:
		k := kept{base.File, room}
		s.at, s.of = k, k
	default:
		m := newMemory(most)
		s.at, s.of = m, m
	}
	return s
}

// Put keeps a value, in place of the one that was there. Errors are those of the base.
func (s *Store) Put(ctx context.Context, name string, value []byte, life time.Duration) error {
	id, sealed, err := s.seal(name, value)
	if err != nil {
		return err
	}
	return s.at.put(ctx, id, sealed, life)
}

// PutOf is Put for a value of an owner, such as a user. A further one replaces the owner's oldest, so that
// no owner takes the room of others.
func (s *Store) PutOf(ctx context.Context, owner, name string, value []byte, life time.Duration) error {
	if err := s.claim(ctx, owner, name, life); err != nil {
		return err
	}
	return s.Put(ctx, name, value, life)
}

// claim counts a value for its owner, and drops what is beyond the owner's share.
func (s *Store) claim(ctx context.Context, owner, name string, life time.Duration) error {
	gone, err := s.of.claim(ctx, s.id("of "+owner), s.id(name), s.each, life)
	for _, id := range gone {
		if err == nil {
			err = s.at.drop(ctx, id)
		}
	}
	return err
}

// Add keeps a value unless there is one. It reports whether there was none.
func (s *Store) Add(ctx context.Context, name string, value []byte, life time.Duration) (bool, error) {
	id, sealed, err := s.seal(name, value)
	if err != nil {
		return false, err
	}
	return s.at.add(ctx, id, sealed, life)
}

// AddOf is Add for a value of an owner. In memory, a further one replaces the owner's oldest; Redis and a file keep
// all until they end.
func (s *Store) AddOf(ctx context.Context, owner, name string, value []byte, life time.Duration) (bool, error) {
	added, err := s.Add(ctx, name, value, life)
	if added && err == nil && s.base == (Base{}) {
		err = s.claim(ctx, owner, name, life)
	}
	return added, err
}

// Get returns a value. The error is ErrNone, or that of the base.
func (s *Store) Get(ctx context.Context, name string) ([]byte, error) {
	id := s.id(name)
	sealed, err := s.at.get(ctx, id)
	if err != nil {
		return nil, err
	}
	return s.open(id, sealed)
}

// Take returns a value and forgets it in one step, so only one caller gets it. The error is
// ErrNone, or that of the base.
func (s *Store) Take(ctx context.Context, name string) ([]byte, error) {
	id := s.id(name)
	sealed, err := s.at.take(ctx, id)
	if err != nil {
		return nil, err
	}
	return s.open(id, sealed)
}

// Swap replaces old with value, and reports whether old was still there.
func (s *Store) Swap(ctx context.Context, name string, old, value []byte, life time.Duration) (bool, error) {
	id, sealed, err := s.seal(name, value)
	if err != nil {
		return false, err
	}
	before, err := s.at.get(ctx, id)
	if errors.Is(err, ErrNone) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	plain, err := s.open(id, bytes.Clone(before))
	if err != nil || !bytes.Equal(plain, old) {
		return false, nil
	}
	return s.at.swap(ctx, id, before, sealed, life)
}

// Drop forgets a value, if there is one.
func (s *Store) Drop(ctx context.Context, name string) error { return s.at.drop(ctx, s.id(name)) }

// id does not depend on the key, so that values outlive its rotation.
func (s *Store) id(name string) string {
	sum := sha256.Sum256([]byte(s.room + "\x00" + name))
	return hex.EncodeToString(sum[:])
}

func (s *Store) seal(name string, value []byte) (id string, sealed []byte, err error) {
	if len(value) > MaxValue {
		return "", nil, fmt.Errorf("a value of %d bytes is too large for %s: at most %d", len(value), s.room, MaxValue)
	}
	id = s.id(name)
	if s.key == nil {
		return id, bytes.Clone(value), nil
	}
	return id, s.key.SealBytes(value, s.room, id), nil
}

// open opens what was sealed, and overwrites it. What cannot be opened is as good as nothing:
// another key sealed it, or it was forged in Redis.
func (s *Store) open(id string, sealed []byte) ([]byte, error) {
	if s.key == nil {
		return sealed, nil
	}
	plain, err := s.key.OpenBytes(sealed, s.room, id)
	if err != nil {
		if s.base.Redis != nil {
			s.base.Redis.Unopened(s.room)
		}
		return nil, ErrNone
	}
	return plain, nil
}
