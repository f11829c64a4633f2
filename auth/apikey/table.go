package apikey

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"sync/atomic"
	"time"
)

const (
	hashBytes = sha256.Size
	// toldEvery is how often Found.Fresh reports that a key is in use.
	toldEvery = time.Minute
)

// Errors of Find, for the holder of the key.
var (
	// ErrUnknown is the error for a key that does not exist, or no longer does.
	ErrUnknown = errors.New("the key is not one of this gateway")
	ErrRevoked = errors.New("the key was revoked")
	ErrExpired = errors.New("the key has expired")
)

// Table finds entries by keys. It is safe for concurrent use.
type Table struct {
	rows map[string]*row // by id
}

type row struct {
	Entry
	hash       [hashBytes]byte
	ends, gone time.Time
	told       atomic.Int64 // Unix seconds
}

// NewTable makes a table of valid entries.
func NewTable(entries []Entry) *Table {
	t := &Table{rows: make(map[string]*row, len(entries))}
	for _, e := range entries {
		r := &row{Entry: e, ends: e.Ends(), gone: e.Gone()}
		hex.Decode(r.hash[:], []byte(e.Hash))
		t.rows[e.ID] = r
	}
	return t
}

// Found is the entry of a key that is good.
type Found struct {
	Entry
	Ends time.Time // zero for never
	row  *row
}

// Fresh reports whether the key was unused in the last minute, and notes that it is now in use.
func (f Found) Fresh(now time.Time) bool {
	told := f.row.told.Load()
	return now.Unix()-told >= int64(toldEvery/time.Second) && f.row.told.CompareAndSwap(told, now.Unix())
}

// Find returns the entry of a key. The error says why it is not good: ErrUnknown, ErrRevoked,
// ErrExpired, or that it is no whole key. Only the holder of the whole key learns more than ErrUnknown.
func (t *Table) Find(key string, now time.Time) (Found, error) {
	id, err := idOf(key)
	if err != nil {
		return Found{}, err
	}
	sum := sha256.Sum256([]byte(key))
	if r := t.rows[id]; r == nil || subtle.ConstantTimeCompare(sum[:], r.hash[:]) != 1 {
		return Found{}, ErrUnknown
	}
	return t.Again(id, now)
}

// Again is Find for a key that was found before, by its id.
func (t *Table) Again(id string, now time.Time) (Found, error) {
	r := t.rows[id]
	switch {
	case r == nil:
		return Found{}, ErrUnknown
	case !r.gone.IsZero(): // also in the future, which is surely a mistake
		return Found{Entry: r.Entry}, ErrRevoked
	case !r.ends.IsZero() && !now.Before(r.ends):
		return Found{Entry: r.Entry}, ErrExpired
	}
	return Found{Entry: r.Entry, Ends: r.ends, row: r}, nil
}
