package auth

import (
	"errors"
	"hash/maphash"
	"slices"
	"time"
)

const (
	// demandSoon takes the place of demandEvery for a key that severalTokens name: the issuer may
	// have a new one. Made-up tokens can cause that, too, and no more.
	demandSoon    = 5 * time.Second
	severalTokens = 3
)

// errUnjudged says that no fetch has begun since a token first named the key.
var errUnjudged = errors.New("the issuer was not asked since the token's key was first seen")

var tokenSeed = maphash.MakeSeed()

// newKey records a key that tokens name and the set does not have.
type newKey struct {
	since  int       // how many fetches had begun when a token first named it
	until  time.Time // for how long the issuer is known not to have it; zero for not
	tokens []uint64  // hashes of the first severalTokens that did
}

// named records that a token names a key that the set does not have. The caller holds mu.
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

// withdrawn records the keys that a fetch has removed: tokens with them need no fetch. The
// caller holds mu.
func (k *keys) withdrawn(before, now *keySet) {
	for _, old := range before.keys {
		if !now.known(old.id) {
			k.unknown.Add(old.id, newKey{since: k.asked - 1})
		}
	}
}

// every is the least time between two fetches for such a key.
func (n newKey) every() time.Duration {
	if len(n.tokens) >= severalTokens {
		return demandSoon
	}
	return demandEvery
}
