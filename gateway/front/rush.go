package front

import (
	"hash/maphash"
	"sync"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// rush counts the requests that are under way by user, each of which holds a connection: a
// user whose calls take long, at however many upstreams, leaves connections to others.
// Without authentication there is one user, whom only the number of connections bounds.
type rush struct {
	most   int // of one user; 0 for no bound
	seed   maphash.Seed
	shards [rushShards]rushShard
}

// rushShards is how many locks there are: those of different users are mostly different.
const rushShards = 32

type rushShard struct {
	mu sync.Mutex     // guards of
	of map[string]int // of users who have any
}

func (r *rush) init(most int) {
	r.most, r.seed = most, maphash.MakeSeed()
	for i := range r.shards {
		r.shards[i].of = make(map[string]int)
	}
}

// begin counts a request in; false when its user has as many as they may.
func (r *rush) begin(c *mcp.Caller) bool {
	if r.most == 0 || c.Issuer == "" {
		return true
	}
	user := c.User()
	s := r.shard(user)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of[user] >= r.most {
		return false
	}
	s.of[user]++
	return true
}

// end counts a request out.
func (r *rush) end(c *mcp.Caller) {
	if r.most == 0 || c.Issuer == "" {
		return
	}
	user := c.User()
	s := r.shard(user)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of[user]--; s.of[user] == 0 {
		delete(s.of, user)
	}
}

func (r *rush) shard(user string) *rushShard {
	return &r.shards[maphash.String(r.seed, user)%rushShards]
}
