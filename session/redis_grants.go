package session

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/home"
	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
)

// RedisGrants are Grants that replicas share. Each replica also keeps its own grants in
// memory: only those of other replicas cost a command to Redis, and while Redis is away a
// replica knows only its own.
//
//	g:{user}:id    hash: by a name for the tool, the sealed digest, a space, and when the
//	               grant expires, in milliseconds; 0 for with the session
type RedisGrants struct {
	s   *Redis
	own *Grants
}

var (
	// ARGV: time to live or 0, expiry of the key, bound on tools, tools and digests.
	grantScript = redisdb.NewScript(growing + lua + `
local ends = 0
if tonumber(ARGV[4]) > 0 then ends = now() + ARGV[4] end
if redis.call('HLEN', grants) + (#ARGV - 6) / 2 > tonumber(ARGV[6]) then redis.call('DEL', grants) end
for i = 7, #ARGV, 2 do
  redis.call('HSET', grants, ARGV[i], ARGV[i + 1] .. ' ' .. string.format('%.0f', ends))
end
if redis.call('PTTL', grants) < tonumber(ARGV[5]) then redis.call('PEXPIRE', grants, ARGV[5]) end
return 1`)

	// ARGV: tool. It returns the digest that was shown, or nothing.
	shownScript = redisdb.NewScript(reading + lua + `
local digest, ends = string.match(redis.call('HGET', grants, ARGV[4]) or '', '^(.*) (%d+)$')
if not digest or ends ~= '0' and tonumber(ends) <= now() then return false end
return digest`)
)

// Grants returns the grants of the store's sessions.
func (s *Redis) Grants() *RedisGrants { return &RedisGrants{s: s, own: NewGrants(s.homes)} }

// Grant records that definitions were shown; see Grants.
func (g *RedisGrants) Grant(ctx context.Context, key string, shown map[string]string, ttl time.Duration) error {
	_ = g.own.Grant(ctx, key, shown, ttl)
	k := home.ParseKey(key)
	ttl = max(ttl, 0)
	args := []any{ttl.Milliseconds(), cmp.Or(ttl, g.s.cfg.Kept()).Milliseconds(), maxGrantsPerKey}
	for tool, digest := range shown {
		args = append(args, g.s.seals.grants.Name(k.User, k.ID, tool),
			g.s.seals.grants.Seal([]byte(digest), k.User, k.ID, tool))
	}
	_, _ = g.s.step(ctx, grantScript, k, "", args...) // without Redis, it holds only here
	return nil
}

// Granted reports whether this definition of the tool was shown. Errors: ErrUnavailable if it
// was not shown here, and Redis cannot say whether it was shown elsewhere.
func (g *RedisGrants) Granted(ctx context.Context, key, tool, digest string) (bool, error) {
	if ok, _ := g.own.Granted(ctx, key, tool, digest); ok {
		return true, nil
	}
	k := home.ParseKey(key)
	got, err := g.s.step(ctx, shownScript, k, "", g.s.seals.grants.Name(k.User, k.ID, tool))
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	sealed, there := got.(string)
	if err != nil || !there {
		return false, err
	}
	shown, err := g.s.seals.grants.Open(sealed, k.User, k.ID, tool)
	if err != nil {
		g.s.db.Unopened("grant")
		return false, nil
	}
	return string(shown) == digest, nil
}
