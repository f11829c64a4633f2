package policy

import (
	"fmt"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// Crowds tells callers apart by sets of them, for whatever else is configured by who
// calls. It decides nothing about what they may do. Safe for concurrent use.
type Audiences struct {
	audiences []*audience
	hash      hasher
	known     *lru.Cache[uint64, *member]
}

// member is a caller and the first set that the caller belongs to, -1 for none.
type member struct {
	*subject
	of int
}

// NewCrowds makes the sets.
func NewAudiences(sets []Who) (*Audiences, error) {
	c := &Audiences{hash: newHasher()}
	for i, who := range sets {
		if err := who.validate(); err != nil {
			return nil, fmt.Errorf("[%d]: %w", i, err)
		}
		c.audiences = append(c.audiences, newAudience(who))
	}
	var err error
	c.known, err = lru.New[uint64, *member](maxSubjects)
	return c, err
}

// First returns the first set that the caller belongs to, -1 for none. Whoever's claims
// can be read in two ways belongs to none.
func (c *Audiences) First(caller *mcp.Caller) int {
	key := c.hash.of(caller)
	if known, ok := c.known.Get(key); ok && known.is(caller) {
		return known.of
	}
	m := &member{newSubject(*caller), -1}
	for i, audience := range c.audiences {
		if m.unclear == nil && audience.has(m.subject) {
			m.of = i
			break
		}
	}
	c.known.Add(key, m)
	return m.of
}

// Validate reports everything that is wrong with the set.
func (w Who) Validate() error { return w.validate() }

// CheckIssuers compares the issuers that the set names with those whose tokens are
// accepted.
func (w Who) CheckIssuers(accepted []string) error { return w.checkIssuers(accepted, false) }
