package policy

import (
	"fmt"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// Audiences sorts callers into sets, for configuration other than rules that depends on the
// caller. It decides nothing about permissions. Safe for concurrent use.
type Audiences struct {
	audiences []*audience
	hash      hasher
	known     *lru.Cache[uint64, *member]
}

// member is a caller with the index of the first audience that has the caller, -1 for none.
type member struct {
	*subject
	of int
}

// NewAudiences makes an Audiences of the sets. An error has the index of the bad set in
// front.
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

// First returns the index of the first set that has the caller, -1 for none. A caller whose
// claims are ambiguous belongs to no set.
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

// Validate reports all mistakes in the set.
func (w Who) Validate() error { return w.validate() }

// CheckIssuers reports issuers of the set that are not accepted.
func (w Who) CheckIssuers(accepted []string) error { return w.checkIssuers(accepted, false) }
