package expiring

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"time"

	"go.etcd.io/bbolt"
)

// roomPrefix begins the buckets of values, with the room behind it. A value is its checksum (CRC-32C, 4 bytes),
// the time of its end (in milliseconds, 8 bytes), and what is kept. The bucket endsBucket has a key for each,
// by which what has ended is found: the time, room, 0 and name.
const roomPrefix = "room/"

const (
	sumSize  = 4
	timeSize = 8
)

func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

func encode(e entry) []byte {
	b := make([]byte, sumSize, sumSize+timeSize+len(e.value))
	b = binary.BigEndian.AppendUint64(b, uint64(e.until.UnixMilli()))
	b = append(b, e.value...)
	binary.BigEndian.PutUint32(b, checksum(b[sumSize:]))
	return b
}

// decode returns a value that is good until the transaction ends.
func decode(b []byte) (entry, error) {
	if len(b) < sumSize+timeSize || binary.BigEndian.Uint32(b) != checksum(b[sumSize:]) {
		return entry{}, errors.New("a value has another checksum")
	}
	return entry{b[sumSize+timeSize:], time.UnixMilli(int64(binary.BigEndian.Uint64(b[sumSize:])))}, nil
}

func endKey(room, name string, until time.Time) []byte {
	b := binary.BigEndian.AppendUint64(nil, uint64(until.UnixMilli()))
	b = append(append(b, room...), 0)
	return append(b, name...)
}

func roomOf(tx *bbolt.Tx, room string) *bbolt.Bucket { return tx.Bucket([]byte(roomPrefix + room)) }

// find returns a value that has not ended. It is good until the transaction ends.
func find(tx *bbolt.Tx, room, name string, at time.Time) (entry, bool) {
	b := roomOf(tx, room)
	if b == nil {
		return entry{}, false
	}
	e, err := decode(b.Get([]byte(name)))
	return e, err == nil && at.Before(e.until)
}

// write keeps a value, in place of the one that was there.
func write(tx *bbolt.Tx, room, name string, e entry) error {
	if err := remove(tx, room, name); err != nil {
		return err
	}
	b, err := tx.CreateBucketIfNotExists([]byte(roomPrefix + room))
	if err != nil {
		return err
	}
	ends, err := tx.CreateBucketIfNotExists([]byte(endsBucket))
	if err != nil {
		return err
	}
	return errors.Join(b.Put([]byte(name), encode(e)), ends.Put(endKey(room, name, e.until), nil))
}

// remove forgets a value, if there is one.
func remove(tx *bbolt.Tx, room, name string) error {
	b := roomOf(tx, room)
	if b == nil {
		return nil
	}
	e, err := decode(b.Get([]byte(name)))
	if err != nil {
		return b.Delete([]byte(name)) // nothing, as readAll found all whole
	}
	return errors.Join(tx.Bucket([]byte(endsBucket)).Delete(endKey(room, name, e.until)), b.Delete([]byte(name)))
}

// sweep removes up to most values that have ended; all for a negative number.
func sweep(tx *bbolt.Tx, now time.Time, most int) error {
	ends := tx.Bucket([]byte(endsBucket))
	if ends == nil {
		return nil
	}
	var over [][2]string
	c := ends.Cursor()
	for k, _ := c.First(); k != nil && len(over) != most; k, _ = c.Next() {
		if now.Before(time.UnixMilli(int64(binary.BigEndian.Uint64(k)))) {
			break
		}
		room, name, _ := strings.Cut(string(k[timeSize:]), "\x00")
		over = append(over, [2]string{room, name})
	}
	for _, one := range over {
		if err := remove(tx, one[0], one[1]); err != nil {
			return err
		}
	}
	return nil
}

// readAll returns what is wrong with the values.
func readAll(tx *bbolt.Tx) error {
	values, ends := 0, tx.Bucket([]byte(endsBucket))
	err := tx.ForEach(func(bucket []byte, b *bbolt.Bucket) error {
		room, isRoom := strings.CutPrefix(string(bucket), roomPrefix)
		if !isRoom {
			return nil
		}
		return b.ForEach(func(name, value []byte) error {
			e, err := decode(value)
			if err != nil {
				return err
			}
			values++
			if ends == nil || ends.Get(endKey(room, string(name), e.until)) == nil {
				return fmt.Errorf("a value of %s is not among those that end", room)
			}
			return nil
		})
	})
	if err != nil || ends == nil {
		return err
	}
	return ends.ForEach(func([]byte, []byte) error {
		if values--; values < 0 {
			return errors.New("a value is missing")
		}
		return nil
	})
}

// under returns the names in a room that begin with prefix, in their order.
func under(tx *bbolt.Tx, room, prefix string) (names []string) {
	b := roomOf(tx, room)
	if b == nil {
		return nil
	}
	c := b.Cursor()
	for k, _ := c.Seek([]byte(prefix)); bytes.HasPrefix(k, []byte(prefix)) && k != nil; k, _ = c.Next() {
		names = append(names, string(k))
	}
	return names
}
