package session

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// Defaults of ResultsConfig.
const (
	DefaultMaxResultsPerUser  = 500
	DefaultMaxResults         = 10_000
	DefaultMaxUserResultBytes = 32 << 20
	DefaultMaxResultBytes     = 256 << 20
)

// ResultsConfig bounds the results that are kept because clients were sent only a part of
// them. A result for which there is no room is sent whole.
type ResultsConfig struct {
	// MaxPerUser is how many results of one user are kept. Default 500. Without
	// authentication there is one user, who may have as many as Max.
	MaxPerUser int `yaml:"max_per_user"`
	// Max is how many are kept in all; with Redis, by all replicas together. Default 10000.
	Max int `yaml:"max"`
	// MaxUserBytes is how many bytes those of one user may have. Default 32 MiB. Without
	// authentication, the one user may have MaxBytes.
	MaxUserBytes int64 `yaml:"max_user_bytes"`
	// MaxBytes is how many bytes all of them may have; with Redis, those of all replicas
	// together. Default 256 MiB.
	MaxBytes int64 `yaml:"max_bytes"`
}

func (c ResultsConfig) withDefaults() ResultsConfig {
	c.Max = cmp.Or(c.Max, DefaultMaxResults)
	c.MaxBytes = cmp.Or(c.MaxBytes, DefaultMaxResultBytes)
	return c
}

// of returns the bounds for a user.
func (c ResultsConfig) of(user string) usage {
	if user == (mcp.Caller{}).User() { // without authentication
		return usage{cmp.Or(c.MaxPerUser, c.Max), cmp.Or(c.MaxUserBytes, c.MaxBytes)}
	}
	return usage{cmp.Or(c.MaxPerUser, DefaultMaxResultsPerUser), cmp.Or(c.MaxUserBytes, DefaultMaxUserResultBytes)}
}

// usage is a number of results and their bytes.
type usage struct {
	count int
	bytes int64
}

func (u usage) plus(count int, bytes int64) usage { return usage{u.count + count, u.bytes + bytes} }

func (u usage) within(most usage) bool { return u.count <= most.count && u.bytes <= most.bytes }

// Results keeps large results in the memory of this process; replicas share RedisResults. A
// result belongs to its user, and to no session. It is safe for concurrent use.
type Results struct {
	cfg ResultsConfig // with defaults

	mu     sync.Mutex // guards the fields below
	kept   map[name]*keptResult
	users  map[string]usage
	all    usage
	closed bool
}

type keptResult struct {
	value  []byte
	until  time.Time
	expiry *time.Timer
}

// NewResults returns empty Results.
func NewResults(cfg ResultsConfig) *Results {
	return &Results{cfg: cfg.withDefaults(), kept: make(map[name]*keptResult), users: make(map[string]usage)}
}

// Keep keeps a result of a user for ttl, in place of the one with the same id. The caller does
// not change value any more. kept is false if there is no room. The error is always nil.
func (r *Results) Keep(_ context.Context, user, id string, value []byte, ttl time.Duration) (kept bool, err error) {
	n := name{user, id}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false, nil
	}
	was, size := r.kept[n], int64(len(value))
	count := 1
	if was != nil {
		count, size = 0, size-int64(len(was.value))
	}
	if !r.users[user].plus(count, size).within(r.cfg.of(user)) || !r.all.plus(count, size).within(usage{r.cfg.Max, r.cfg.MaxBytes}) {
		return false, nil
	}
	if was != nil {
		r.remove(n, was)
	}
	one := &keptResult{value: value, until: time.Now().Add(ttl)}
	one.expiry = time.AfterFunc(ttl, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.kept[n] == one {
			r.remove(n, one)
		}
	})
	r.kept[n] = one
	r.users[user] = r.users[user].plus(1, int64(len(value)))
	r.all = r.all.plus(1, int64(len(value)))
	return true, nil
}

// Load returns a result of a user, not to be modified; nil for none. The error is always nil.
func (r *Results) Load(_ context.Context, user, id string) ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	one := r.kept[name{user, id}]
	if one == nil || !time.Now().Before(one.until) {
		return nil, nil
	}
	return one.value, nil
}

// remove forgets a result. The caller holds mu.
func (r *Results) remove(n name, one *keptResult) {
	one.expiry.Stop()
	delete(r.kept, n)
	r.all = r.all.plus(-1, -int64(len(one.value)))
	left := r.users[n.user].plus(-1, -int64(len(one.value)))
	if r.users[n.user] = left; left.count == 0 {
		delete(r.users, n.user)
	}
}

// close forgets everything.
func (r *Results) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for n, one := range r.kept {
		r.remove(n, one)
	}
}
