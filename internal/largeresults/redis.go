package largeresults

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
)

// Redis keeps results for all replicas together. Their contents are sealed.
//
//	r:{user}:name           a result, sealed
//	ri:{results}[:user]     sorted set: all results, or those of a user, each as "user/name
//	                        size", by when it expires
//	rb:{results}[:user]     their bytes
//
// A result is entered before it is written: one that could not be written counts until it
// would have expired.
type Redis struct {
	db   *redisdb.DB
	key  *seal.Key // seals a result for its user and its id
	most Bounds    // with defaults
}

// NewRedis returns a store in a Redis. It seals with key.
func NewRedis(db *redisdb.DB, key *seal.Key, most Bounds) *Redis {
	return &Redis{db, key, most.withDefaults()}
}

// First lines of scripts. Those that add something do not run when Redis is full.
const (
	growing = "#!lua\n"
	reading = "#!lua flags=no-writes,allow-oom\n"
)

var (
	// KEYS: set and bytes of all, set and bytes of the user. ARGV: entry, size, time to live;
	// bounds on number and bytes for all, for the user. It returns 0 if there is no room.
	enterScript = redisdb.NewScript(growing + `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local entry, size, ttl = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local there = false
local function held(at) -- the bytes, without what has expired and without the entry
  local set, sum = KEYS[at], tonumber(redis.call('GET', KEYS[at + 1]) or 0)
  for _, old in ipairs(redis.call('ZRANGE', set, '-inf', string.format('%.0f', now), 'BYSCORE')) do
    redis.call('ZREM', set, old)
    sum = sum - tonumber(string.match(old, '%d+$'))
  end
  if redis.call('ZREM', set, entry) == 1 then
    there, sum = true, sum - size
  end
  if redis.call('ZCARD', set) == 0 then sum = 0 end
  return sum
end
local sums, room = {}, true
for i = 0, 1 do
  sums[i] = held(2 * i + 1)
  room = room and redis.call('ZCARD', KEYS[2 * i + 1]) < tonumber(ARGV[4 + 2 * i]) and sums[i] + size <= tonumber(ARGV[5 + 2 * i])
end
room = room or there
for i = 0, 1 do
  local set, bytes = KEYS[2 * i + 1], KEYS[2 * i + 2]
  if room then
    redis.call('ZADD', set, string.format('%.0f', now + ttl), entry)
    sums[i] = sums[i] + size
  end
  local left = redis.call('PTTL', set)
  if room then left = math.max(left, ttl) end
  if left > 0 then redis.call('SET', bytes, string.format('%.0f', sums[i]), 'PX', left) redis.call('PEXPIRE', set, left) end
end
return room and 1 or 0`)

	// KEYS: the result. ARGV: value, time to live.
	putScript = redisdb.NewScript(growing + `redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) return 1`)

	// KEYS: the result.
	getScript = redisdb.NewScript(reading + `return redis.call('GET', KEYS[1])`)
)

// Keep keeps a result of a user for ttl, in place of the one with the same id. kept is false
// if there is no room. Errors: those of redisdb.DB.Run.
func (r *Redis) Keep(ctx context.Context, user, id string, value []byte, ttl time.Duration) (kept bool, err error) {
	name, tag := r.key.Name(user, id), url.QueryEscape(user)
	sealed := r.key.SealBytes(value, user, id)
	index := func(kind string) string { return r.db.Key(kind + ":{results}") }
	own := r.most.of(user)
	got, err := r.run(ctx, enterScript, []string{index("ri"), index("rb"), index("ri") + ":" + tag,
		index("rb") + ":" + tag},
		fmt.Sprintf("%s/%s %d", tag, name, len(sealed)), len(sealed), ttl.Milliseconds(), r.most.Max, r.most.MaxBytes,
		own.count, own.bytes)
	if err != nil || got != int64(1) {
		return false, err
	}
	_, err = r.run(ctx, putScript, []string{r.place(tag, name)}, sealed, ttl.Milliseconds())
	return err == nil, err
}

// Load returns a result of a user, nil for none. Errors: those of redisdb.DB.Run.
func (r *Redis) Load(ctx context.Context, user, id string) ([]byte, error) {
	got, err := r.run(ctx, getScript, []string{r.place(url.QueryEscape(user), r.key.Name(user, id))})
	sealed, there := got.(string)
	if !there {
		return nil, err
	}
	value, err := r.key.OpenBytes([]byte(sealed), user, id)
	if err != nil {
		r.db.Unopened("result")
		return nil, nil
	}
	return value, nil
}

func (r *Redis) place(tag, name string) string { return r.db.Key("r:{" + tag + "}:" + name) }

func (r *Redis) run(ctx context.Context, script *redisdb.Script, keys []string, args ...any) (any, error) {
	value, err := r.db.Run(ctx, script, keys, args...)
	switch {
	case errors.Is(err, redisdb.ErrValue): // not ours: as if it did not exist
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("largeresults: %w", err)
	}
	return value, nil
}
