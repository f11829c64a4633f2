package session

import (
	"errors"

	"github.com/gatehouse-mcp/gatehouse/internal/seal"
)

// seals seal what stands in Redis, each kind of value with a key of its own and bound to its
// place. Whoever can read there learns nothing that clients or servers have said; who can
// write there can take values away, or put back what stood at the same place before, and make
// none. What scripts have to look into stands beside a value: times, positions, sizes, names
// of replicas.
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

// Secrets are what keys are derived from: the secret of Key, nil for a random one, and those
// of PreviousKeys, with which is opened and nothing sealed.
func (c Config) Secrets() (secret []byte, accepted [][]byte) {
	if c.Key != "" {
		secret = []byte(string(c.Key))
	}
	for _, key := range c.PreviousKeys {
		accepted = append(accepted, []byte(string(key)))
	}
	return secret, accepted
}
