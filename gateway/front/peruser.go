package front

import (
	"hash/maphash"
	"sync"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// perUser counts what each user has at a time, over all sessions and clients. Without
// authentication there is one user, whom only the number of connections bounds.
type perUser struct {
	most   int // of one user; 0 for no bound
	seed   maphash.Seed
	shards [32]usersShard // the locks of different users are mostly different
}

type usersShard struct {
	mu  sync.Mutex     // guards has
	has map[string]int // of users who have any
}

func newPerUser(most int) *perUser {
	p := &perUser{most: most, seed: maphash.MakeSeed()}
	for i := range p.shards {
		p.shards[i].has = make(map[string]int)
	}
	return p
}

// take counts one in; false when its user has as many as they may.
func (p *perUser) take(c *mcp.Caller) bool { return p.count(c, 1, p.most) }

// takeMore is take for what takes the place of another one that is about to end, and may still
// count: all of a user's may be, which takes a client that reads nothing a while.
func (p *perUser) takeMore(c *mcp.Caller) bool { return p.count(c, 1, 2*p.most) }

// give counts one out.
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
