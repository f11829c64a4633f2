package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/singleflight"

	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
)

const (
	// maxHeld bounds the homes of one replica, and maxElsewhere those of which it remembers
	// that another one has them.
	maxHeld      = 250_000
	maxElsewhere = 100_000
	// findTime bounds how long it may take to find an owner.
	findTime = 3 * time.Second
	// ownTries is how often an owner is looked for while others change it.
	ownTries = 4
	// leavers is how many homes are given up at a time.
	leavers = 16
	// nobody is a token that nobody has.
	nobody = "-"
)

// What a home can be told to be.
var (
	// ErrNoHome: what the home needs does not exist (Home.Record). It is not here any more.
	ErrNoHome = errors.New("cluster: the session does not exist")
	// ErrUnavailable: nobody can tell now whose the home is. The client may come again.
	ErrUnavailable = errors.New("cluster: nobody can tell now where the session is")
)

// Home is what has one owner.
type Home struct {
	// User is whose it is: all homes of one user, and the user's sessions, are on one node of
	// a Redis Cluster.
	User string
	// ID tells the homes of one user apart. There is no colon in it.
	ID string
	// Record is a key in Redis, as DB.Key makes it, on the same node, without which there is
	// no home; "" for none.
	Record string
}

// Key is the home as other methods name it, "user:id".
func (h Home) Key() string { return h.User + ":" + h.ID }

func readKey(key string) Home {
	at := max(strings.LastIndexByte(key, ':'), 0)
	return Home{User: key[:at], ID: key[min(at+1, len(key)):]}
}

// Owner is the replica that has a home.
type Owner struct {
	// Replica is its name.
	Replica string
	// Epoch is another one each time that the home gets an owner. "" without Redis.
	Epoch string
	// Fresh says that this call has made this replica the owner, as far as it knows: of all
	// calls that find the same Epoch here, one is told.
	Fresh bool
	// Former is the replica from which this one has taken the home over, "" for none.
	Former string

	home string
	here bool
}

// Here reports whether this replica is the owner.
func (o Owner) Here() bool { return o.here }

// homes are those that this replica has, and whose others are.
type homes struct {
	self    string
	db      *redisdb.DB
	scripts scripts
	members *members // nil for one alone
	idle    time.Duration
	start   time.Time
	onLost  func(home string)
	inUse   func(home string) bool
	count   *Metrics
	tokens  atomic.Uint64
	asking  singleflight.Group         // by the home's key
	others  *lru.Cache[string, string] // the owner's token by the home's key

	mu   sync.Mutex // guards held; not held over I/O
	held map[string]*held
}

// held is a home of this replica.
type held struct {
	key, redisKey string
	token         string
	former        string
	record        bool          // without which there is no home
	fresh         bool          // nobody was told yet
	generation    uint64        // in which Redis said that it is ours; 0 for in doubt
	used          time.Duration // when a request last came for it
	kept          time.Duration // when Redis last heard of that
}

func newHomes(self string, deps Deps, s scripts, m *members) *homes {
	others, _ := lru.New[string, string](maxElsewhere) // its error is about the size
	return &homes{
		self: self, db: deps.DB, scripts: s, members: m, idle: deps.Idle, start: time.Now(), onLost: deps.OnLost, inUse: deps.InUse,
		count: deps.Metrics, others: others, held: make(map[string]*held),
	}
}

func (s *homes) now() time.Duration { return time.Since(s.start) }

// certain reports in which generation homes here are, and whether nobody else can have
// taken them over.
func (s *homes) certain() (generation uint64, sure bool) {
	if s.members == nil {
		return 1, true
	}
	until := s.members.sure.Load()
	return s.members.generation.Load(), s.members.now() < time.Duration(until)
}

// own finds a home's owner, or makes this replica that.
func (s *homes) own(ctx context.Context, h Home) (Owner, error) {
	if o, ok := s.here(h, s.idle/2); ok {
		return o, nil
	}
	key := h.Key()
	if token, ok := s.others.Get(key); ok && s.members != nil && s.members.peer(replicaOf(token)) != nil {
		return Owner{Replica: replicaOf(token), Epoch: token, home: key}, nil
	}
	found, err, _ := s.asking.Do(key, func() (any, error) {
		// Several wait for the answer: it must not depend on one who leaves.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), findTime)
		defer cancel()
		return s.find(ctx, h, key)
	})
	if err != nil {
		return Owner{}, err
	}
	if o := found.(Owner); !o.here {
		return o, nil
	}
	if o, ok := s.here(h, math.MaxInt64); ok {
		return o, nil
	}
	return Owner{}, ErrUnavailable // it was lost again meanwhile
}

// here finds a home of this replica that nobody else can have taken over. Redis may have
// dropped one that was not used for so long.
func (s *homes) here(h Home, unused time.Duration) (Owner, bool) {
	generation, sure := s.certain()
	if !sure {
		return Owner{}, false
	}
	var buf [128]byte
	key := append(append(append(buf[:0], h.User...), ':'), h.ID...)
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.held[string(key)]
	if x == nil || x.generation != generation || now-x.used > unused {
		return Owner{}, false
	}
	x.used = now
	o := Owner{Replica: s.self, Epoch: x.token, Fresh: x.fresh, Former: x.former, home: x.key, here: true}
	x.fresh = false
	return o, true
}

// find asks Redis for the owner.
func (s *homes) find(ctx context.Context, h Home, key string) (Owner, error) {
	if s.members != nil && !s.members.holds(ctx) {
		if o, ok := s.away(key); ok {
			return o, nil
		}
		return Owner{}, ErrUnavailable
	}
	if !s.room(key) {
		return Owner{}, fmt.Errorf("%w: this replica has %d of them", ErrUnavailable, maxHeld)
	}
	stale := ""
	for range ownTries {
		generation, _ := s.certain()
		token, err := s.claim(ctx, h, stale)
		if err != nil {
			if o, ok := s.away(key); ok {
				return o, nil
			}
			return Owner{}, err
		}
		if token == "" {
			s.drop(key)
			return Owner{}, ErrNoHome
		}
		owner := replicaOf(token)
		if owner == s.self {
			s.hold(h, key, token, replicaOf(stale), generation)
			return Owner{here: true}, nil
		}
		s.lose(key)
		if s.members == nil {
			stale = token
			continue
		}
		p, gone := s.members.whereabouts(ctx, owner, s.members.now())
		switch {
		case p != nil:
			s.others.Add(key, token)
			return Owner{Replica: owner, Epoch: token, home: key}, nil
		case !gone:
			return Owner{}, fmt.Errorf("%w: nothing is known of replica %s", ErrUnavailable, owner)
		}
		stale = token
	}
	return Owner{}, fmt.Errorf("%w: its owner changes all the time", ErrUnavailable)
}

// away finds a home here without Redis, if nobody else can have taken it over, and Redis not
// have dropped it.
func (s *homes) away(key string) (Owner, bool) {
	generation, sure := s.certain()
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.held[key]
	if x == nil || !sure || x.generation != generation || s.now()-max(x.used, x.kept) >= s.idle {
		return Owner{}, false
	}
	return Owner{here: true}, true
}

// claim returns the token of the owner, this replica's where there was none, or the stale
// one; "" where there is no home.
func (s *homes) claim(ctx context.Context, h Home, stale string) (string, error) {
	keys := []string{homeKey(s.db, h)}
	if h.Record != "" {
		keys = append(keys, h.Record)
	}
	token := s.self + "." + strconv.FormatUint(s.tokens.Add(1), 36)
	got, err := s.db.Run(ctx, s.scripts.own, keys, token, stale, s.idle.Milliseconds(), s.self+".")
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	token, _ = got.(string)
	return token, nil
}

// replicaOf is the replica that has made a token.
func replicaOf(token string) string {
	name, _, _ := strings.Cut(token, ".")
	return name
}

// hold notes that a home is here. One that was here before, and has another token now, was
// not in Redis any more: what has a record is made again from that, for somebody else may
// have had it meanwhile; all else goes on.
func (s *homes) hold(h Home, key, token, former string, generation uint64) {
	now := s.now()
	s.mu.Lock()
	x := s.held[key]
	if x != nil && x.token != token && h.Record != "" {
		s.mu.Unlock()
		s.lose(key)
		s.mu.Lock()
		x = s.held[key]
	}
	defer s.mu.Unlock()
	if x == nil {
		x = &held{key: key, redisKey: homeKey(s.db, h), former: former, record: h.Record != "", fresh: true}
		s.held[key] = x
		s.others.Remove(key)
		s.count.homes.Set(float64(len(s.held)))
		if former != "" {
			s.count.takeovers.Inc()
		}
	}
	x.token, x.generation, x.used, x.kept = token, generation, now, now
}

// room reports whether a home is here, or could be.
func (s *homes) room(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held[key] != nil || len(s.held) < maxHeld
}

// drop forgets a home, and reports whether it was here.
func (s *homes) drop(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.held[key]
	delete(s.held, key)
	s.count.homes.Set(float64(len(s.held)))
	return ok
}

// lose forgets a home that another replica has, and tells whoever holds something for it.
func (s *homes) lose(key string) {
	if s.drop(key) {
		s.count.lost.Inc()
		s.onLost(key)
	}
}

// leave gives a home up.
func (s *homes) leave(ctx context.Context, key string) error {
	s.mu.Lock()
	x := s.held[key]
	s.mu.Unlock()
	if x == nil {
		return nil
	}
	s.drop(key)
	if _, err := s.db.Run(ctx, s.scripts.give, []string{x.redisKey}, x.token); err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return nil
}

// leaveAll gives up all homes, until ctx is over.
func (s *homes) leaveAll(ctx context.Context) {
	s.mu.Lock()
	keys := slices.Collect(maps.Keys(s.held))
	s.mu.Unlock()
	var all sync.WaitGroup
	for i := range leavers {
		all.Go(func() {
			for ; i < len(keys) && ctx.Err() == nil; i += leavers {
				if s.leave(ctx, keys[i]) != nil {
					return // Redis is away, or slow: their leases end
				}
			}
		})
	}
	all.Wait()
}

// fence is what a write for a home compares.
func (s *homes) fence(key string) (redisKey, token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x := s.held[key]; x != nil {
		return x.redisKey, x.token
	}
	return homeKey(s.db, readKey(key)), nobody
}

// moved forgets what was known of a home that its owner does not have.
func (s *homes) moved(o Owner) {
	if token, ok := s.others.Peek(o.home); ok && token == o.Epoch {
		s.others.Remove(o.home)
	}
}
