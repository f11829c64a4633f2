package expiring

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/bbolt"
)

// kept is the place of one room in a File.
type kept struct {
	file *File
	room string
}

func (k kept) get(_ context.Context, name string) (value []byte, err error) {
	err = k.file.step((*bbolt.DB).View, func(tx *bbolt.Tx) error {
		e, ok := find(tx, k.room, name, time.Now())
		if !ok {
			return ErrNone
		}
		value = append([]byte{}, e.value...)
		return nil
	})
	return value, k.file.unread(err)
}

// there reports whether there is a value: what changes nothing is not written.
func (k kept) there(ctx context.Context, name string) bool {
	_, err := k.get(ctx, name)
	return err == nil
}

// write keeps a value. The caller is in change.
func (k kept) write(tx *bbolt.Tx, name string, value []byte, life time.Duration) error {
	now := time.Now()
	if _, there := find(tx, k.room, name, now); !there {
		if err := k.file.fits(tx); err != nil {
			return err
		}
	}
	return write(tx, k.room, name, entry{value, now.Add(life)})
}

func (k kept) put(_ context.Context, name string, value []byte, life time.Duration) error {
	return k.file.change(func(tx *bbolt.Tx) error { return k.write(tx, name, value, life) })
}

func (k kept) add(ctx context.Context, name string, value []byte, life time.Duration) (added bool, err error) {
	if k.there(ctx, name) {
		return false, nil
	}
	err = k.file.change(func(tx *bbolt.Tx) error {
		_, there := find(tx, k.room, name, time.Now())
		if added = !there; there {
			return nil
		}
		return k.write(tx, name, value, life)
	})
	return added && err == nil, err
}

func (k kept) take(ctx context.Context, name string) (value []byte, err error) {
	if !k.there(ctx, name) {
		return nil, ErrNone
	}
	found := false
	err = k.file.change(func(tx *bbolt.Tx) error {
		var e entry
		if e, found = find(tx, k.room, name, time.Now()); !found {
			return nil
		}
		value = append([]byte{}, e.value...)
		return remove(tx, k.room, name)
	})
	if err == nil && !found {
		err = ErrNone
	}
	return value, err
}

func (k kept) swap(ctx context.Context, name string, old, value []byte, life time.Duration) (swapped bool, err error) {
	if now, err := k.get(ctx, name); err != nil || !bytes.Equal(now, old) {
		return false, nil
	}
	err = k.file.change(func(tx *bbolt.Tx) error {
		e, there := find(tx, k.room, name, time.Now())
		if swapped = there && bytes.Equal(e.value, old); !swapped {
			return nil
		}
		return k.write(tx, name, value, life)
	})
	return swapped && err == nil, err
}

func (k kept) drop(ctx context.Context, name string) error {
	if !k.there(ctx, name) {
		return nil
	}
	return k.file.change(func(tx *bbolt.Tx) error { return remove(tx, k.room, name) })
}

// claim keeps the values of an owner in a room beside this one: by the owner and the name, and as their value the
// time at which they were kept, in nanoseconds.
func (k kept) claim(_ context.Context, owner, name string, each int, life time.Duration) (gone []string, err error) {
	room := ownersPrefix + k.room
	err = k.file.change(func(tx *bbolt.Tx) error {
		gone = nil
		now := time.Now()
		mine := kept{k.file, room}
		if err := mine.write(tx, owner+name, binary.BigEndian.AppendUint64(nil, uint64(now.UnixNano())), life); err != nil {
			return err
		}
		left := make(map[string]uint64)
		for _, one := range under(tx, room, owner) {
			e, there := find(tx, room, one, now)
			_, valued := find(tx, k.room, one[len(owner):], now)
			whole := there && len(e.value) == timeSize
			if !whole || !valued && now.UnixNano()-int64(binary.BigEndian.Uint64(e.value)) > int64(settled) {
				if err := remove(tx, room, one); err != nil {
					return err
				}
				continue
			}
			left[one] = binary.BigEndian.Uint64(e.value)
		}
		for len(left) > each {
			oldest := owner + name
			for one, at := range left {
				if at < left[oldest] {
					oldest = one
				}
			}
			delete(left, oldest)
			gone = append(gone, oldest[len(owner):])
			if err := remove(tx, room, oldest); err != nil {
				return err
			}
		}
		return nil
	})
	return gone, err
}

// settled is the age at which a claim has its value, or never gets one.
const settled = time.Minute

// ownersPrefix begins the name of the room that says which values owners have in another.
const ownersPrefix = "of:"

// unread adds the file to what went wrong in reading it.
func (f *File) unread(err error) error {
	if err == nil || errors.Is(err, ErrNone) {
		return err
	}
	return fmt.Errorf("the state file %s cannot be read: %w", f.path, err)
}
