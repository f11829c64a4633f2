package upstream

import (
	"math/rand/v2"
	"sync/atomic"
)

// ids makes the ids of requests: each number from 1 to 2^30-1 once, in an order that cannot be
// guessed. What a server says unasked is then not taken for the answer to a later request. Some
// servers support no larger ids.
type ids struct {
	count atomic.Uint32
	keys  [4]uint64
}

const (
	idHalf = 15 // bits
	idMask = 1<<idHalf - 1
)

func (i *ids) init() {
	for n := range i.keys {
		i.keys[n] = rand.Uint64() | 1
	}
}

// next returns the next id. A Feistel network permutes the numbers.
func (i *ids) next() int64 {
	for {
		n := i.count.Add(1)
		left, right := uint64(n>>idHalf&idMask), uint64(n&idMask)
		for _, key := range i.keys {
			mixed := (right + key>>32) * key
			left, right = right, left^mixed>>40&idMask
		}
		if id := int64(left<<idHalf | right); id != 0 {
			return id
		}
	}
}
