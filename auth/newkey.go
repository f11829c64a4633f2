package auth

import (
	"errors"
	"hash/maphash"
	"slices"
	"time"
)

const (
	// demandSoon takes the place of demandEvery for a key that severalTokens name: the
	// issuer may have a new one. Who makes up tokens can have that, too, and no more.
	demandSoon    = 5 * time.Second
	severalTokens = 3
)

// errUnjudged: no fetch has begun since the key was first named.
var errUnjudged = errors.New("the issuer was not asked since the token's key was first seen")

var tokenSeed = maphash.MakeSeed()

// newKey is what is known of a key that the set does not have.
type newKey struct {
	since  int       // how many fetches had begun when a token first named it
	until  time.Time // for how long the issuer is known not to have it; zero for not
	tokens []uint64  // hashes of the first severalTokens that did
}

// named notes that a token names a key that the set does not have. mu is held.
func (k *keys) named(j jws, now time.Time) newKey {
	n, ok := k.unknown.Get(j.kid)
	if !ok || !n.until.IsZero() && !now.Before(n.until) {
		n = newKey{since: k.count.Fetches}
	}
	token := maphash.Bytes(tokenSeed, j.claims)
	if len(n.tokens) < severalTokens && !slices.Contains(n.tokens, token) {
		n.tokens = append(slices.Clip(n.tokens), token)
	}
	if n.until.IsZero() && k.asked > n.since { // there was a good fetch since, and it is not there
		n.until = now.Add(unknownFor)
	}
	k.unknown.Add(j.kid, n)
	return n
}

// withdrawn notes which keys a fetch has not brought any more: the issuer need not be asked
// for them. mu is held.
func (k *keys) withdrawn(before, now *keySet) {
	for _, old := range before.keys {
		if !now.known(old.id) {
			k.unknown.Add(old.id, newKey{since: k.asked - 1})
		}
	}
}

// every is what is left between two fetches for the sake of such a key.
func (n newKey) every() time.Duration {
	if len(n.tokens) >= severalTokens {
		return demandSoon
	}
	return demandEvery
}
