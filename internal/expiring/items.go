package expiring

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/bbolt"

	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
)

// Item is a value of a room as its base has it, sealed and by the digest of its name; or it says that an owner has
// the value of this name since At (PutOf).
type Item struct {
	Room, Name string
	Until      time.Time
	Value      []byte
	Owner      string // the digest; "" for a value
	At         time.Time
}

// Opens reports whether a key opens the value of an item.
func (i Item) Opens(key *seal.Key) bool {
	_, err := key.OpenBytes(append([]byte(nil), i.Value...), i.Room, i.Name)
	return err == nil
}

// digestSize is the length of a name's digest.
const digestSize = 64

// Items returns what a room has, in no order. In Redis, what is changed meanwhile is there as it was or as it is.
// There are none in memory. Errors are those of the base.
func (b Base) Items(ctx context.Context, room string) (all []Item, err error) {
	switch {
	case b.Redis != nil:
		return replicated{b.Redis, room + ":"}.items(ctx, room)
	case b.File != nil:
		return kept{b.File, room}.items()
	}
	return nil, nil
}

// Replace forgets everything in these rooms, and keeps the items, each of one of the rooms. With a file this is one
// step. Errors are those of the base.
func (b Base) Replace(ctx context.Context, rooms []string, items []Item) error {
	switch {
	case b.File != nil:
		return b.File.replace(rooms, items)
	case b.Redis == nil:
		return errors.New("expiring: memory has no items")
	}
	for _, room := range rooms {
		r := replicated{b.Redis, room + ":"}
		err := b.Redis.Scan(ctx, room+":", func(key string) error { return r.drop(ctx, strings.TrimPrefix(key, room+":")) })
		if err != nil {
			return err
		}
	}
	for _, i := range items {
		life := time.Until(i.Until)
		if life <= 0 {
			continue
		}
		r := replicated{b.Redis, i.Room + ":"}
		var err error
		if i.Owner == "" {
			err = r.put(ctx, i.Name, i.Value, life)
		} else {
			_, err = r.run(ctx, ownScript, "of:"+i.Owner, i.Name, i.At.UnixMicro(), millis(life))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

var (
	// readScript returns a value and the rest of its life; nothing for none.
	readScript = redisdb.NewScript(`#!lua flags=no-writes,allow-oom
return {redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1])}`)
	// ownersScript returns the names of an owner's values, each followed by its time, and the rest of their life.
	ownersScript = redisdb.NewScript(`#!lua flags=no-writes,allow-oom
return {redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES'), redis.call('PTTL', KEYS[1])}`)
	ownScript = redisdb.NewScript(`#!lua
redis.call('ZADD', KEYS[1], ARGV[2], ARGV[1])
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[3]) then redis.call('PEXPIRE', KEYS[1], ARGV[3]) end`)
)

func (s replicated) items(ctx context.Context, room string) (all []Item, err error) {
	err = s.db.Scan(ctx, s.prefix, func(key string) error {
		name := strings.TrimPrefix(key, s.prefix)
		owner, owns := strings.CutPrefix(name, "of:")
		script := readScript
		if owns {
			script = ownersScript
		}
		got, err := s.run(ctx, script, name)
		if err != nil {
			return err
		}
		list, _ := got.([]any)
		if len(list) != 2 {
			return nil
		}
		left, _ := list[1].(int64)
		until := time.Now().Add(time.Duration(left) * time.Millisecond)
		if value, ok := list[0].(string); ok && left > 0 && !owns {
			all = append(all, Item{Room: room, Name: name, Until: until, Value: []byte(value)})
		}
		scores, _ := list[0].([]any)
		for i := 0; i+1 < len(scores) && left > 0; i += 2 {
			name, _ := scores[i].(string)
			score, _ := scores[i+1].(string)
			if at, err := strconv.ParseFloat(score, 64); err == nil {
				all = append(all, Item{Room: room, Name: name, Until: until, Owner: owner, At: time.UnixMicro(int64(at))})
			}
		}
		return nil
	})
	return all, err
}

func (k kept) items() (all []Item, err error) {
	now := time.Now()
	err = k.file.step((*bbolt.DB).View, func(tx *bbolt.Tx) error {
		for name, e := range each(tx, k.room, now) {
			all = append(all, Item{Room: k.room, Name: name, Until: e.until, Value: append([]byte{}, e.value...)})
		}
		for name, e := range each(tx, ownersPrefix+k.room, now) {
			if len(name) == 2*digestSize && len(e.value) == timeSize {
				at := time.Unix(0, int64(binary.BigEndian.Uint64(e.value)))
				all = append(all, Item{Room: k.room, Name: name[digestSize:], Until: e.until, Owner: name[:digestSize], At: at})
			}
		}
		return nil
	})
	return all, k.file.unread(err)
}

// each returns the values of a room that have not ended.
func each(tx *bbolt.Tx, room string, now time.Time) iter.Seq2[string, entry] {
	return func(yield func(string, entry) bool) {
		for _, name := range under(tx, room, "") {
			if e, there := find(tx, room, name, now); there && !yield(name, e) {
				return
			}
		}
	}
}

func (f *File) replace(rooms []string, items []Item) error {
	err := f.step((*bbolt.DB).Update, func(tx *bbolt.Tx) error {
		for _, room := range rooms {
			for _, r := range []string{room, ownersPrefix + room} {
				for _, name := range under(tx, r, "") {
					if err := remove(tx, r, name); err != nil {
						return err
					}
				}
			}
		}
		now := time.Now()
		for _, i := range items {
			room, name, e := i.Room, i.Name, entry{i.Value, i.Until}
			if i.Owner != "" {
				room, name = ownersPrefix+room, i.Owner+name
				e.value = binary.BigEndian.AppendUint64(nil, uint64(i.At.UnixNano()))
			}
			if !now.Before(i.Until) {
				continue
			}
			if err := write(tx, room, name, e); err != nil {
				return err
			}
		}
		return f.fits(tx)
	})
	if err != nil {
		return fmt.Errorf("the state file %s cannot be written: %w", f.path, err)
	}
	return nil
}
