package policy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
)

// keyPart turns any text into a part of a key with a bounded length and plain letters.
func keyPart(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

// RedisApprovals are Approvals that replicas share. Each value is sealed together with its user,
// its key and, by Redis's clock, its end. So write access to Redis is not enough to make an
// approval, extend it or use it for anything else.
type RedisApprovals struct {
	db                         *redisdb.DB
	key                        *seal.Key
	prefix                     string
	clock, put, take, existing *redisdb.Script
}

// NewRedisApprovals returns Approvals in a Redis. Values of different kinds are separate.
func NewRedisApprovals(db *redisdb.DB, key *seal.Key, kind string) *RedisApprovals {
	const now = `
local t = redis.call('TIME')
local now = string.format('%.0f', t[1] * 1000 + math.floor(t[2] / 1000))
`
	return &RedisApprovals{
		db:     db,
		key:    key,
		prefix: kind,
		// KEYS: the value. Returns now, in milliseconds.
		clock: redisdb.NewScript("#!lua flags=no-writes,allow-oom\n" + now + `return now`),
		// KEYS: the value, the user's index by expiry. ARGV: value, ttl, most, the value's
		// name in the index, what stands before names in keys.
		put: redisdb.NewScript("#!lua\n" + now + `
local ttl = tonumber(ARGV[2])
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
while redis.call('ZCARD', KEYS[2]) >= tonumber(ARGV[3]) do
  local first = redis.call('ZRANGE', KEYS[2], 0, 0)[1]
  redis.call('ZREM', KEYS[2], first)
  redis.call('DEL', ARGV[5] .. first)
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ttl)
redis.call('ZADD', KEYS[2], string.format('%.0f', now + ttl), ARGV[4])
if redis.call('PTTL', KEYS[2]) < ttl then redis.call('PEXPIRE', KEYS[2], ttl) end
return 1`),
		// KEYS as above. ARGV: the value's name. Returns value and now.
		take: redisdb.NewScript("#!lua flags=allow-oom\n" + now + `
local value = redis.call('GET', KEYS[1])
if not value then return false end
redis.call('DEL', KEYS[1])
redis.call('ZREM', KEYS[2], ARGV[1])
return {value, now}`),
		// KEYS: the value. Returns value and now.
		existing: redisdb.NewScript("#!lua flags=no-writes,allow-oom\n" + now + `
local value = redis.call('GET', KEYS[1])
return value and {value, now}`),
	}
}

// keys returns the keys of a value and of its user's index, and the value's name in the
// index.
func (r *RedisApprovals) keys(user, key string) (keys []string, before, name string) {
	tag := "{" + keyPart(user) + "}"
	before = r.db.Key("a:" + tag + ":" + r.prefix + ":")
	name = r.key.Name(r.prefix, user, key)
	return []string{before + name, r.db.Key("ai:" + tag + ":" + r.prefix)}, before, name
}

// Put stores a value for ttl. If the user has too many values, it drops the one that expires
// first.
func (r *RedisApprovals) Put(ctx context.Context, user, key, value string, ttl time.Duration) error {
	keys, before, name := r.keys(user, key)
	got, err := r.db.Run(ctx, r.clock, keys[:1])
	if err != nil {
		return r.wrap(err)
	}
	now, _ := got.(string)
	at, err := strconv.ParseInt(now, 10, 64)
	if err != nil {
		return fmt.Errorf("approvals: reading the time: %w", err)
	}
	plain := strconv.FormatInt(at+ttl.Milliseconds(), 10) + " " + value
	_, err = r.db.Run(ctx, r.put, keys, r.key.SealBytes([]byte(plain), r.prefix, user, key), ttl.Milliseconds(),
		maxPerUser, name, before)
	return r.wrap(err)
}

// Take returns a value and deletes it.
func (r *RedisApprovals) Take(ctx context.Context, user, key string) (string, bool, error) {
	keys, _, name := r.keys(user, key)
	got, err := r.db.Run(ctx, r.take, keys, name)
	if err != nil {
		return "", false, r.wrap(err)
	}
	value, ok := r.open(user, key, got)
	return value, ok, nil
}

// Has reports whether there is a value.
func (r *RedisApprovals) Has(ctx context.Context, user, key string) (bool, error) {
	keys, _, _ := r.keys(user, key)
	got, err := r.db.Run(ctx, r.existing, keys[:1])
	if err != nil {
		return false, r.wrap(err)
	}
	_, ok := r.open(user, key, got)
	return ok, nil
}

// open opens a value that a script has found. A malformed or expired value counts as missing.
func (r *RedisApprovals) open(user, key string, found any) (value string, ok bool) {
	pair, _ := found.([]any)
	if len(pair) != 2 {
		return "", false
	}
	sealed, _ := pair[0].(string)
	now, _ := pair[1].(string)
	plain, err := r.key.OpenBytes([]byte(sealed), r.prefix, user, key)
	if err != nil {
		r.db.Unopened("approval")
		return "", false
	}
	until, value, _ := strings.Cut(string(plain), " ")
	end, err := strconv.ParseInt(until, 10, 64)
	at, wrong := strconv.ParseInt(now, 10, 64)
	return value, err == nil && wrong == nil && at < end
}

func (r *RedisApprovals) wrap(err error) error {
	if errors.Is(err, redisdb.ErrValue) {
		return nil // as if it were not there
	}
	if err != nil {
		return fmt.Errorf("approvals: %w", err)
	}
	return nil
}
