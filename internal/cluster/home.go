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
	// maxHeld bounds the homes of one replica. maxElsewhere bounds the homes of other replicas
	// whose owners it remembers.
	maxHeld      = 250_000
	maxElsewhere = 100_000
	// evictable is how long a home without a record is unused before it makes room for another one.
	evictable = time.Minute
	// findTime bounds the search for an owner.
	findTime = 3 * time.Second
	// ownTries bounds how often an owner is looked up while other replicas change it.
	ownTries = 4
	// leavers is how many homes are given up at a time.
	leavers = 16
	// nobody is a token that no replica has.
	nobody = "-"
)

var (
	// ErrNoHome means that the record that the home needs does not exist (Home.Record). The
	// home is not here any more.
	ErrNoHome = errors.New("cluster: the session does not exist")
	// ErrTooMany means that the user has as many homes without records as one user may have here
	// (Deps.Most), all of them in use. The client may try again.
	ErrTooMany = errors.New("cluster: the user has too many homes")
	// ErrUnavailable means that the owner cannot be determined now. The client may try again.
	ErrUnavailable = errors.New("cluster: nobody can tell now where the session is")
)

// Home identifies what has one owner.
type Home struct {
	// User is the user of the home. All homes and sessions of one user are on one node of a
	// Redis Cluster.
	User string
	// ID distinguishes the homes of one user. It contains no colon.
	ID string
	// Record returns a key in Redis for Key, as DB.Key makes it, on the same node. Without a
	// value at this key there is no home. If it returns "", or is nil, the home needs no record.
	Record func(key string) string
}

// Key is the home's name in other methods: "user:id".
func (h Home) Key() string { return h.User + ":" + h.ID }

// RecordKey is the key in Redis of the record that the home needs, "" for none.
func (h Home) RecordKey() string {
	if h.Record == nil {
		return ""
	}
	return h.Record(h.Key())
}

func readKey(key string) Home {
	at := max(strings.LastIndexByte(key, ':'), 0)
	return Home{User: key[:at], ID: key[min(at+1, len(key)):]}
}

// Owner is the replica that owns a home.
type Owner struct {
	// Replica is the name of the replica.
	Replica string
	// Epoch changes each time the home gets an owner. "" without Redis.
	Epoch string
	// Fresh says that the home has come to this replica. Of all calls that find it here, the
	// first has Fresh set.
	Fresh bool

	home string
	here bool
}

// Here reports whether this replica is the owner.
func (o Owner) Here() bool { return o.here }

// homes are the homes of this replica, and the known owners of other homes.
type homes struct {
	self    string
	db      *redisdb.DB
	scripts scripts
	members *members // nil for a gateway alone
	idle    time.Duration
	start   time.Time
	onLost  func(home string)
	inUse   func(home string) bool
	most    func(user string) int
	count   *Metrics
	tokens  atomic.Uint64
	asking  singleflight.Group         // by the home's key: ask and leave
	others  *lru.Cache[string, string] // the owner's token by the home's key

	mu     sync.Mutex // guards the fields below; not held over I/O
	held   map[string]*held
	guests map[string]map[*held]struct{} // those without records, by user
}

// held is a home of this replica.
type held struct {
	user, key, redisKey string

	token      string
	record     bool          // whether the home needs a record
	fresh      bool          // no caller has been told yet
	generation uint64        // the generation in which Redis confirmed the home; 0 for in doubt
	used       time.Duration // when the last request came for it
	kept       time.Duration // when Redis was last told of a use
}

func newHomes(self string, deps Deps, s scripts, m *members) *homes {
	others, _ := lru.New[string, string](maxElsewhere) // it fails only for a bad size
	return &homes{
		self: self, db: deps.DB, scripts: s, members: m, idle: deps.Idle, start: time.Now(), onLost: deps.OnLost, inUse: deps.InUse,
		most: deps.Most, count: deps.Metrics, others: others, held: make(map[string]*held), guests: make(map[string]map[*held]struct{}),
	}
}

func (s *homes) now() time.Duration { return time.Since(s.start) }

// certain returns the current generation, and whether it is certain that no other replica can
// have taken over a home of that generation.
func (s *homes) certain() (generation uint64, sure bool) {
	if s.members == nil {
		return 1, true
	}
	until := s.members.sure.Load()
	return s.members.generation.Load(), s.members.now() < time.Duration(until)
}

// own finds a home's owner, or makes this replica its owner.
func (s *homes) own(ctx context.Context, h Home) (Owner, error) {
	if o, ok := s.here(h, s.idle/2); ok {
		return o, nil
	}
	key := h.Key()
	if token, ok := s.others.Get(key); ok && s.members != nil && s.members.peer(replicaOf(token)) != nil {
		return Owner{Replica: replicaOf(token), Epoch: token, home: key}, nil
	}
	if o, err := s.ask(ctx, h, key); err != nil || !o.here {
		return o, err
	}
	if o, ok := s.here(h, math.MaxInt64); ok {
		return o, nil
	}
	return Owner{}, ErrUnavailable // it was lost again in the meantime
}

// exists is Cluster.Exists.
func (s *homes) exists(ctx context.Context, h Home) bool {
	key := h.Key()
	s.mu.Lock()
	here := s.held[key] != nil
	s.mu.Unlock()
	if here || s.others.Contains(key) {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, findTime)
	defer cancel()
	got, err := s.db.Run(ctx, s.scripts.exists, []string{homeKey(s.db, h)})
	return err == nil && got == int64(1)
}

// given is the result of leave for callers of ask that waited for it.
type given struct{}

// ask is find, once for all callers that want to know, and never while the home is given up:
// it would find the token that is about to be deleted.
func (s *homes) ask(ctx context.Context, h Home, key string) (Owner, error) {
	for {
		found, err, _ := s.asking.Do(key, func() (any, error) {
			// Several callers wait for the answer, so it must not depend on one that leaves.
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), findTime)
			defer cancel()
			return s.find(ctx, h, key)
		})
		if o, ok := found.(Owner); ok {
			return o, err
		}
	}
}

// here finds a home of this replica that no other replica can have taken over and that was
// used within the given time. Redis may have dropped one that was unused for longer.
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
	o := Owner{Replica: s.self, Epoch: x.token, Fresh: x.fresh, home: x.key, here: true}
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
	if err := s.makeRoom(ctx, h, key); err != nil {
		return Owner{}, err
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

// away finds a home here without asking Redis, provided that no other replica can have taken
// it over and that Redis cannot have dropped it.
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

// claim returns the token of the owner. If there was none, or it was the stale one, that is a
// new token of this replica. It returns "" if there is no home.
func (s *homes) claim(ctx context.Context, h Home, stale string) (string, error) {
	keys := []string{homeKey(s.db, h)}
	if record := h.RecordKey(); record != "" {
		keys = append(keys, record)
	}
	token := s.self + "." + strconv.FormatUint(s.tokens.Add(1), 36)
	got, err := s.db.Run(ctx, s.scripts.own, keys, token, stale, s.idle.Milliseconds(), s.self+".")
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	token, _ = got.(string)
	return token, nil
}

// replicaOf returns the replica that made a token.
func replicaOf(token string) string {
	name, _, _ := strings.Cut(token, ".")
	return name
}

// hold records that a home is here. If it was here with another token, Redis had dropped it.
// In that case a home with a record is made again from the record, since another replica may
// have owned it in between; any other home continues.
func (s *homes) hold(h Home, key, token, former string, generation uint64) {
	now, record := s.now(), h.RecordKey() != ""
	s.mu.Lock()
	x := s.held[key]
	if x != nil && x.token != token && record {
		s.mu.Unlock()
		s.lose(key)
		s.mu.Lock()
		x = s.held[key]
	}
	defer s.mu.Unlock()
	if x == nil {
		x = &held{user: h.User, key: key, redisKey: homeKey(s.db, h), record: record, fresh: true}
		s.held[key] = x
		if !record {
			if s.guests[x.user] == nil {
				s.guests[x.user] = make(map[*held]struct{})
			}
			s.guests[x.user][x] = struct{}{}
		}
		s.others.Remove(key)
		s.count.homes.Set(float64(len(s.held)))
		if former != "" {
			s.count.takeovers.Inc()
		}
	}
	x.token, x.generation, x.used, x.kept = token, generation, now, now
}

// makeRoom finds room for a home that is not here. A user at the bound gets it from a home of
// the same user that is hardly in use any more.
func (s *homes) makeRoom(ctx context.Context, h Home, key string) error {
	s.mu.Lock()
	here, all, own := s.held[key] != nil, len(s.held), len(s.guests[h.User])
	s.mu.Unlock()
	switch {
	case here:
		return nil
	case all >= maxHeld:
		return fmt.Errorf("%w: this replica has %d of them", ErrUnavailable, maxHeld)
	case h.RecordKey() != "", own < s.most(h.User), s.exists(ctx, h): // the store counts records; another replica has room
		return nil
	}
	unused := s.leastUsed(h.User)
	if unused == "" {
		return ErrTooMany
	}
	_ = s.leave(ctx, unused) // without Redis, it ends there by itself
	s.onLost(unused)
	return nil
}

// leastUsed returns the home without a record that a user can best do without, "" for none.
func (s *homes) leastUsed(user string) string {
	s.mu.Lock()
	unused := make(map[time.Duration]string)
	for x := range s.guests[user] {
		if x.used <= s.now()-evictable {
			unused[x.used] = x.key
		}
	}
	s.mu.Unlock()
	for _, used := range slices.Sorted(maps.Keys(unused)) {
		if !s.inUse(unused[used]) {
			return unused[used]
		}
	}
	return ""
}

// drop forgets a home and reports whether it was here.
func (s *homes) drop(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.held[key]
	s.remove(x)
	return x != nil
}

// remove forgets a home that is here, nil for none. The caller holds mu.
func (s *homes) remove(x *held) {
	if x == nil {
		return
	}
	delete(s.held, x.key)
	if delete(s.guests[x.user], x); len(s.guests[x.user]) == 0 {
		delete(s.guests, x.user)
	}
	s.count.homes.Set(float64(len(s.held)))
}

// lose forgets a home that another replica owns, and calls OnLost.
func (s *homes) lose(key string) {
	if s.drop(key) {
		s.count.lost.Inc()
		s.onLost(key)
	}
}

// leave gives a home up. Of several calls and those of ask, one runs at a time.
func (s *homes) leave(ctx context.Context, key string) error {
	for {
		mine := false
		_, err, _ := s.asking.Do(key, func() (any, error) {
			mine = true
			return given{}, s.give(ctx, key)
		})
		if mine {
			return err
		}
	}
}

// give gives a home up, if it is here.
func (s *homes) give(ctx context.Context, key string) error {
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

// leaveAll gives up all homes, until ctx ends.
func (s *homes) leaveAll(ctx context.Context) {
	s.mu.Lock()
	keys := slices.Collect(maps.Keys(s.held))
	s.mu.Unlock()
	var all sync.WaitGroup
	for i := range leavers {
		all.Go(func() {
			for ; i < len(keys) && ctx.Err() == nil; i += leavers {
				if s.leave(ctx, keys[i]) != nil {
					return // Redis is away or slow: the homes are taken over when the lease ends
				}
			}
		})
	}
	all.Wait()
}

// fence is Cluster.Fence.
func (s *homes) fence(key string) (redisKey, token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x := s.held[key]; x != nil {
		return x.redisKey, x.token
	}
	return homeKey(s.db, readKey(key)), nobody
}

// doubt is Cluster.Doubt. A home that has another token by now is left alone.
func (s *homes) doubt(key, token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x := s.held[key]; x != nil && x.token == token {
		x.generation = 0
	}
}

// moved forgets the owner of a home, after that replica has answered that it does not own it.
func (s *homes) moved(o Owner) {
	if token, ok := s.others.Peek(o.home); ok && token == o.Epoch {
		s.others.Remove(o.home)
	}
}
