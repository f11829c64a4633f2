package session

import (
	"errors"

	"github.com/gatehouse-mcp/gatehouse/internal/seal"
)

// seals seal the values in Redis. Each kind has a key of its own and is bound to its place. Readers
// of Redis learn nothing that clients or servers have said. Writers can remove values or restore
// earlier ones at the same place, but cannot forge any. What scripts must read stands beside a
// value: times, positions, sizes, names of replicas.
type seals struct {
	records *seal.Key // user, id
	streams *seal.Key // user, id, stream
	events  *seal.Key // user, id, stream, position
	grants  *seal.Key // user, id, tool
	kept    *seal.Key // user, id, name
}

func newSeals(secret []byte, accepted [][]byte) (s seals, err error) {
	for purpose, key := range map[string]**seal.Key{
		"session record": &s.records, "stream": &s.streams, "event": &s.events, "grant": &s.grants, "kept": &s.kept,
	} {
		made, failed := seal.NewKey(secret, purpose, accepted...)
		*key, err = made, errors.Join(err, failed)
	}
	return s, err
}

// Secrets returns what keys are derived from: the secret of Key, nil for a random one, and the
// secrets of PreviousKeys, which only open.
func (c Config) Secrets() (secret []byte, accepted [][]byte) {
	if c.Key != "" {
		secret = []byte(string(c.Key))
	}
	for _, key := range c.PreviousKeys {
		accepted = append(accepted, []byte(string(key)))
	}
	return secret, accepted
}
