package session

import (
	"container/list"
	"context"
	"math"
	"strings"
	"sync"
	"time"
)

// Bounds of Grants. What is over them is forgotten, the one used longest ago first:
// whoever comes back for it has to look again at what they were shown.
const (
	maxGrants        = 500_000 // in all
	maxGrantsPerKey  = 2000
	maxGrantsPerUser = 20_000
)

// Grants remembers which definitions of tools were shown in a session, or to a client
// that has none (gateway/feature/disclosure says what for). It is in the memory of this
// process, and ends with it; RedisGrants are shared with other replicas. Safe for concurrent
// use; it runs nothing.
type Grants struct {
	perKey, perUser, all int // the bounds above

	mu      sync.Mutex // guards the fields below
	holders map[string]*holder
	used    *list.List // of *holder, the one used longest ago first
	users   map[string]*userGrants
	count   int
	turn    uint64
}

// holder is a session, or what a client without sessions has in its place.
type holder struct {
	key    string
	user   *userGrants
	grants map[string]grant // by tool
	inAll  *list.Element    // in Grants.used
	own    *list.Element    // in user.used
}

type userGrants struct {
	name  string
	used  *list.List // of *holder, likewise
	count int
}

type grant struct {
	digest string
	until  time.Time // zero for as long as the session
	turn   uint64    // grows
}

// NewGrants makes an empty one.
func NewGrants() *Grants {
	return newGrants(maxGrantsPerKey, maxGrantsPerUser, maxGrants)
}

func newGrants(perKey, perUser, all int) *Grants {
	return &Grants{
		perKey: perKey, perUser: perUser, all: all,
		holders: make(map[string]*holder), used: list.New(), users: make(map[string]*userGrants),
	}
}

// Grant notes that definitions, digests by tool, were shown to the session of a key. They
// are good for ttl, or, if that is 0, until End.
func (g *Grants) Grant(_ context.Context, key string, shown map[string]string, ttl time.Duration) error {
	if len(shown) == 0 {
		return nil
	}
	var until time.Time
	if ttl > 0 {
		until = time.Now().Add(ttl)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	h := g.holder(key)
	for tool, digest := range shown {
		if _, known := h.grants[tool]; !known {
			if len(h.grants) >= g.perKey {
				g.forgetOldest(h)
			}
			g.add(h, 1)
		}
		g.turn++
		h.grants[strings.Clone(tool)] = grant{strings.Clone(digest), until, g.turn}
	}
	for h.user.count > g.perUser && h.user.used.Len() > 1 {
		g.end(h.user.used.Front().Value.(*holder))
	}
	for g.count > g.all && g.used.Len() > 1 {
		g.end(g.used.Front().Value.(*holder))
	}
	return nil
}

// Granted reports whether this definition of the tool was shown.
func (g *Grants) Granted(_ context.Context, key, tool, digest string) (bool, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	h := g.holders[key]
	if h == nil {
		return false, nil
	}
	one, ok := h.grants[tool]
	switch {
	case !ok:
		return false, nil
	case one.digest != digest, !one.until.IsZero() && !time.Now().Before(one.until):
		delete(h.grants, tool)
		g.add(h, -1)
		if len(h.grants) == 0 {
			g.end(h)
		}
		return false, nil
	}
	g.touch(h)
	return true, nil
}

// End forgets what was shown in a session that is over.
func (g *Grants) End(key string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if h := g.holders[key]; h != nil {
		g.end(h)
	}
}

// holder returns the holder of a key as the one used last. What follows is called with mu
// held.
func (g *Grants) holder(key string) *holder {
	if h := g.holders[key]; h != nil {
		g.touch(h)
		return h
	}
	name, _ := splitKey(key)
	user := g.users[name]
	if user == nil {
		user = &userGrants{name: name, used: list.New()}
		g.users[name] = user
	}
	h := &holder{key: key, user: user, grants: make(map[string]grant)}
	h.inAll, h.own = g.used.PushBack(h), user.used.PushBack(h)
	g.holders[key] = h
	return h
}

func (g *Grants) touch(h *holder) {
	g.used.MoveToBack(h.inAll)
	h.user.used.MoveToBack(h.own)
}

func (g *Grants) add(h *holder, n int) {
	h.user.count += n
	g.count += n
}

func (g *Grants) forgetOldest(h *holder) {
	oldest, turn := "", uint64(math.MaxUint64)
	for tool, one := range h.grants {
		if one.turn < turn {
			oldest, turn = tool, one.turn
		}
	}
	delete(h.grants, oldest)
	g.add(h, -1)
}

func (g *Grants) end(h *holder) {
	delete(g.holders, h.key)
	g.used.Remove(h.inAll)
	h.user.used.Remove(h.own)
	g.add(h, -len(h.grants))
	if h.user.used.Len() == 0 {
		delete(g.users, h.user.name)
	}
}
