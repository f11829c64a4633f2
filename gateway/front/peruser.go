package front

import (
	"hash/maphash"
	"sync"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// perUser counts what each user has at a time, over all sessions and clients. Without
// authentication there is one user, bounded only by the number of connections.
type perUser struct {
	most   int // for one user; 0 for no bound
	seed   maphash.Seed
	shards [32]struct { // so that different users rarely share a lock
		mu  sync.Mutex     // guards has
		has map[string]int // only users who have any
	}
}

func newPerUser(most int) *perUser {
	p := &perUser{most: most, seed: maphash.MakeSeed()}
	for i := range p.shards {
		p.shards[i].has = make(map[string]int)
	}
	return p
}

// take counts one in. It returns false if the user is at the bound.
func (p *perUser) take(c *mcp.Caller) bool { return p.count(c, 1, p.most) }

// takeMore is take for something that replaces another one, which still counts until it has
// ended. That may take a while, with a client that reads nothing, for all that a user has.
func (p *perUser) takeMore(c *mcp.Caller) bool { return p.count(c, 1, 2*p.most) }

func (p *perUser) give(c *mcp.Caller) { p.count(c, -1, 0) }

func (p *perUser) count(c *mcp.Caller, n, most int) bool {
	if p.most == 0 || c.Issuer == "" {
		return true
	}
	user := c.User()
	s := &p.shards[maphash.String(p.seed, user)%uint64(len(p.shards))]
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.has[user] + n
	if n > 0 && now > most {
		return false
	}
	s.has[user] = now
	if now == 0 {
		delete(s.has, user)
	}
	return true
}
