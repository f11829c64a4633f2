package cluster

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"github.com/gatehouse-mcp/gatehouse/internal/seal"
)

const (
	// maxLease bounds a lease in Redis, in bytes.
	maxLease = 4 << 10
	// nameSize is the length of a replica's name.
	nameSize = 12
)

// lease is what a replica tells the others about itself.
type lease struct {
	Address  string `json:"address"`           // of its link, host:port
	Digest   []byte `json:"digest"`            // of its certificate
	Revision string `json:"revision"`          // of its configuration
	Version  string `json:"version,omitempty"` // of its program; releases before wrote none
	Leaving  bool   `json:"leaving,omitempty"`
	// Left says that the replica has given up its homes, Gone that another one has found it gone. No
	// replica needs to wait for such a lease to end.
	Left bool `json:"left,omitempty"`
	Gone bool `json:"gone,omitempty"`
}

// leaseSeal seals leases and binds each to the name of its replica. Write access to Redis is
// therefore not enough to redirect forwards.
type leaseSeal struct{ key *seal.Key }

func newLeaseSeal(secret []byte, accepted [][]byte) (leaseSeal, error) {
	key, err := seal.NewKey(secret, "replica lease", accepted...)
	return leaseSeal{key}, err
}

func (s leaseSeal) write(name string, l lease) (string, error) {
	plain, err := json.Marshal(l)
	if err != nil {
		return "", fmt.Errorf("cluster: writing a lease: %w", err)
	}
	return string(s.key.SealBytes(plain, name)), nil
}

// read returns an error unless a replica with the same key wrote the value for this name.
func (s leaseSeal) read(name, value string) (lease, error) {
	if !validName(name) || len(value) > maxLease {
		return lease{}, seal.ErrInvalid
	}
	plain, err := s.key.OpenBytes([]byte(value), name)
	if err != nil {
		return lease{}, err
	}
	return parseLease(plain)
}

func parseLease(plain []byte) (l lease, err error) {
	if err := json.Unmarshal(plain, &l); err != nil {
		return lease{}, fmt.Errorf("cluster: reading a lease: %w", err)
	}
	host, port, err := splitAddress(l.Address)
	if err != nil || !oneHost(host) || port == 0 {
		return lease{}, fmt.Errorf("cluster: reading a lease: no address: %q", l.Address)
	}
	if len(l.Digest) != sha256.Size {
		return lease{}, fmt.Errorf("cluster: reading a lease: a digest of %d bytes", len(l.Digest))
	}
	return l, nil
}

// validName reports whether a name has the form of a replica's name.
func validName(name string) bool {
	if len(name) != nameSize {
		return false
	}
	for _, c := range []byte(name) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}
