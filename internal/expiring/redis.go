package expiring

import (
	"context"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
)

var (
	putScript  = redisdb.NewScript("#!lua\nreturn redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])")
	addScript  = redisdb.NewScript("#!lua\nreturn redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2], 'NX') and 1 or 0")
	getScript  = redisdb.NewScript("#!lua flags=no-writes,allow-oom\nreturn redis.call('GET', KEYS[1])")
	takeScript = redisdb.NewScript(`#!lua flags=allow-oom
local value = redis.call('GET', KEYS[1])
if value then redis.call('DEL', KEYS[1]) end
return value`)
	swapScript = redisdb.NewScript(`#!lua
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1`)
	claimScript = redisdb.NewScript(`#!lua
local t = redis.call('TIME')
redis.call('ZADD', KEYS[1], t[1] * 1000000 + t[2], ARGV[1])
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[3]) then redis.call('PEXPIRE', KEYS[1], ARGV[3]) end
local gone = redis.call('ZRANGE', KEYS[1], 0, -1 - ARGV[2])
if #gone > 0 then redis.call('ZREM', KEYS[1], unpack(gone)) end
return gone`)
	dropScript = redisdb.NewScript("#!lua flags=allow-oom\nreturn redis.call('DEL', KEYS[1])")
)

// replicated keeps values in Redis, for all replicas.
type replicated struct {
	db     *redisdb.DB
	prefix string
}

func (s replicated) run(ctx context.Context, script *redisdb.Script, name string, args ...any) (any, error) {
	return s.db.Run(ctx, script, []string{s.db.Key(s.prefix + name)}, args...)
}

// millis is a life as Redis wants it, which knows no shorter one.
func millis(life time.Duration) int64 { return max(life.Milliseconds(), 1) }

// text returns what Redis has answered, ErrNone for nothing.
func text(value any, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	found, ok := value.(string)
	if !ok {
		return nil, ErrNone
	}
	return []byte(found), nil
}

func (s replicated) put(ctx context.Context, name string, value []byte, life time.Duration) error {
	_, err := s.run(ctx, putScript, name, value, millis(life))
	return err
}

func (s replicated) add(ctx context.Context, name string, value []byte, life time.Duration) (bool, error) {
	added, err := s.run(ctx, addScript, name, value, millis(life))
	return added == int64(1), err
}

func (s replicated) get(ctx context.Context, name string) ([]byte, error) {
	return text(s.run(ctx, getScript, name))
}

func (s replicated) take(ctx context.Context, name string) ([]byte, error) {
	return text(s.run(ctx, takeScript, name))
}

func (s replicated) swap(ctx context.Context, name string, old, value []byte, life time.Duration) (bool, error) {
	swapped, err := s.run(ctx, swapScript, name, old, value, millis(life))
	return swapped == int64(1), err
}

func (s replicated) claim(ctx context.Context, owner, name string, each int,
	life time.Duration) (gone []string, err error) {
	found, err := s.run(ctx, claimScript, "of:"+owner, name, each, millis(life))
	list, _ := found.([]any)
	for _, one := range list {
		if id, ok := one.(string); ok {
			gone = append(gone, id)
		}
	}
	return gone, err
}

func (s replicated) drop(ctx context.Context, name string) error {
	_, err := s.run(ctx, dropScript, name)
	return err
}
