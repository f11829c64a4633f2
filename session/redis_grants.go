package session

import (
	"context"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
)

// RedisGrants are Grants that replicas share. Each keeps what it has noted itself too:
// only what was shown at another one costs a look into Redis, and while Redis cannot be
// asked each is sure of its own alone.
//
//	g:{user}:id    hash: by a name for the tool, the digest, sealed, a space, and when that
//	               ends in milliseconds, 0 for with the session
type RedisGrants struct {
	s            *Redis
	own          *Grants
	grant, shown *redisdb.Script
}

// Grants are what was shown in the store's sessions.
func (s *Redis) Grants() *RedisGrants {
	return &RedisGrants{s: s, own: NewGrants(),
		// KEYS: g. ARGV: ttl or 0, how long the key lasts, most tools, tools and digests.
		grant: redisdb.NewScript(growing + `
local t = redis.call('TIME')
local ends = 0
if tonumber(ARGV[5]) > 0 then ends = t[1] * 1000 + math.floor(t[2] / 1000) + ARGV[5] end
if redis.call('HLEN', KEYS[1]) + (#ARGV - 7) / 2 > tonumber(ARGV[7]) then redis.call('DEL', KEYS[1]) end
for i = 8, #ARGV, 2 do
  redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1] .. ' ' .. string.format('%.0f', ends))
end
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[6]) then redis.call('PEXPIRE', KEYS[1], ARGV[6]) end
return 1`),
		// KEYS: g. ARGV: tool, how long the key of a session lasts, 0 for none. Returns the
		// digest that was shown, or nothing.
		shown: redisdb.NewScript(sparing + `
local digest, ends = string.match(redis.call('HGET', KEYS[1], ARGV[5]) or '', '^(.*) (%d+)$')
if not digest then return false end
local t = redis.call('TIME')
if ends ~= '0' and tonumber(ends) <= t[1] * 1000 + math.floor(t[2] / 1000) then return false end
if tonumber(ARGV[6]) > 0 then redis.call('PEXPIRE', KEYS[1], ARGV[6]) end
return digest`),
	}
}

func (g *RedisGrants) key(key string) (name, []string) {
	var n name
	n.user, n.id = splitKey(key)
	return n, []string{g.s.keyOf("g", n)}
}

// Grant notes that definitions were shown; see Grants.
func (g *RedisGrants) Grant(ctx context.Context, key string, shown map[string]string, ttl time.Duration) error {
	if err := g.own.Grant(ctx, key, shown, ttl); err != nil || len(shown) == 0 {
		return err
	}
	n, keys := g.key(key)
	lasts := ttl.Milliseconds()
	if ttl <= 0 {
		lasts = g.s.ttl()
	}
	args := []any{max(ttl.Milliseconds(), 0), lasts, maxGrantsPerKey}
	for tool, digest := range shown {
		args = append(args, g.s.seals.grants.Name(n.user, n.id, tool), g.s.seals.grants.Seal([]byte(digest), n.user, n.id, tool))
	}
	_, _ = g.s.step(ctx, g.grant, n, keys, args...) // without Redis it holds here alone
	return nil
}

// Granted reports whether this definition of the tool was shown. Errors: ErrUnavailable,
// when it was not shown here and nobody can tell whether it was elsewhere.
func (g *RedisGrants) Granted(ctx context.Context, key, tool, digest string) (bool, error) {
	if ok, err := g.own.Granted(ctx, key, tool, digest); ok || err != nil {
		return ok, err
	}
	n, keys := g.key(key)
	var lasts int64
	if validID(n.id) {
		lasts = g.s.ttl()
	}
	got, err := g.s.step(ctx, g.shown, n, keys, g.s.seals.grants.Name(n.user, n.id, tool), lasts)
	sealed, there := got.(string)
	if err != nil || !there {
		return false, err
	}
	shown, err := g.s.seals.grants.Open(sealed, n.user, n.id, tool)
	if err != nil {
		g.s.db.Unopened("grant")
		return false, nil
	}
	return string(shown) == digest, nil
}

// End forgets what was noted here of a session that is over. In Redis it ends with it.
func (g *RedisGrants) End(key string) { g.own.End(key) }
