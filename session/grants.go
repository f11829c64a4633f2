package session

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/gatehouse-mcp/gatehouse/internal/home"
)

// Bounds of Grants. Beyond them, the least recently used entries are forgotten. The client
// then has to look again at what it was shown.
const (
	maxGrants        = 500_000 // in all
	maxGrantsPerKey  = 2000
	maxGrantsPerUser = 20_000
)

// Grants remembers which tool definitions a session, or a client without one, was shown
// (gateway/feature/disclosure explains why). It is in the memory of this process and ends with it;
// replicas share RedisGrants. It is safe for concurrent use and starts no goroutine.
type Grants struct {
	homes                *home.Table // nil for none
	perKey, perUser, all int         // the bounds above

	mu      sync.Mutex // guards the fields below
	holders *recent[*holder]
	users   map[string]*userGrants
	count   int
}

// recent is an LRU cache.
type recent[V any] = simplelru.LRU[string, V]

// holder is a session, or what stands for it with a client without sessions.
type holder struct {
	key    string
	user   *userGrants
	grants *recent[grant] // by tool, in the order in which they were shown
}

type userGrants struct {
	name    string
	holders *recent[*holder]
	count   int
}

type grant struct {
	digest string
	until  time.Time // zero: until the session ends
}

// NewGrants returns empty Grants. What was shown in a session is forgotten with its home; homes may be
// nil.
func NewGrants(homes *home.Table) *Grants {
	return newGrants(homes, maxGrantsPerKey, maxGrantsPerUser, maxGrants)
}

func newGrants(homes *home.Table, perKey, perUser, all int) *Grants {
	return &Grants{
		homes: homes, perKey: perKey, perUser: perUser, all: all,
		holders: newRecent[*holder](all + 1), users: make(map[string]*userGrants),
	}
}

func newRecent[V any](most int) *recent[V] {
	r, _ := simplelru.NewLRU[string, V](most, nil) // it fails only for a bad size
	return r
}

// Grant records that definitions were shown to the session of a key; shown has their digests
// by tool, at least one. They are valid for ttl, or as long as the session if ttl is 0. The error is always nil.
func (g *Grants) Grant(_ context.Context, key string, shown map[string]string, ttl time.Duration) error {
	var until time.Time
	if ttl > 0 {
		until = time.Now().Add(ttl)
	}
	g.grant(key, shown, until)
	if g.homes == nil {
		return nil
	}
	if h := g.homes.Known(home.ParseKey(key)); h != nil {
		if _, made := home.Ensure(h, func() *granted { return &granted{} }); made {
			h.Attach(func(home.Why) { g.end(key) })
		}
	}
	return nil
}

// granted is the part of a home in which definitions were shown.
type granted struct{}

// grant records what was shown.
func (g *Grants) grant(key string, shown map[string]string, until time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	h := g.holder(key)
	for tool, digest := range shown {
		if !h.grants.Contains(tool) && h.grants.Len() < g.perKey {
			g.add(h, 1)
		}
		h.grants.Add(strings.Clone(tool), grant{strings.Clone(digest), until})
	}
	for h.user.count > g.perUser && h.user.holders.Len() > 1 {
		_, oldest, _ := h.user.holders.GetOldest()
		g.forget(oldest)
	}
	for g.count > g.all && g.holders.Len() > 1 {
		_, oldest, _ := g.holders.GetOldest()
		g.forget(oldest)
	}
}

// Granted reports whether this definition of the tool was shown. The error is always nil.
func (g *Grants) Granted(_ context.Context, key, tool, digest string) (bool, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	h, ok := g.holders.Peek(key)
	if !ok {
		return false, nil
	}
	one, ok := h.grants.Peek(tool)
	switch {
	case !ok:
		return false, nil
	case one.digest != digest, !one.until.IsZero() && !time.Now().Before(one.until):
		h.grants.Remove(tool)
		g.add(h, -1)
		if h.grants.Len() == 0 {
			g.forget(h)
		}
		return false, nil
	}
	g.touch(h)
	return true, nil
}

// end forgets what was shown in a session.
func (g *Grants) end(key string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if h, ok := g.holders.Peek(key); ok {
		g.forget(h)
	}
}

// holder returns the holder of a key and marks it as just used. The caller holds mu.
func (g *Grants) holder(key string) *holder {
	h, ok := g.holders.Peek(key)
	if !ok {
		name := home.ParseKey(key).User
		user := g.users[name]
		if user == nil {
			user = &userGrants{name: name, holders: newRecent[*holder](g.all + 1)}
			g.users[name] = user
		}
		h = &holder{key: key, user: user, grants: newRecent[grant](g.perKey)}
	}
	g.touch(h)
	return h
}

func (g *Grants) touch(h *holder) {
	g.holders.Add(h.key, h)
	h.user.holders.Add(h.key, h)
}

func (g *Grants) add(h *holder, n int) {
	h.user.count += n
	g.count += n
}

func (g *Grants) forget(h *holder) {
	g.holders.Remove(h.key)
	h.user.holders.Remove(h.key)
	g.add(h, -h.grants.Len())
	if h.user.holders.Len() == 0 {
		delete(g.users, h.user.name)
	}
}
