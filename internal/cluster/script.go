package cluster

import (
	"net/url"

	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
)

// Keys in Redis. Only the clock of Redis counts: no clock of a replica is compared with it.
// Writes continue when Redis is full: they are small, and sessions depend on them.
//
//	h:{user}:id           string: the token of the home's owner. It expires when the home is
//	                      unused for too long
//	l:{replicas}:name     hash: the lease of a replica: v its sealed content; b the number of
//	                      the renewal that began it
//	n:{replicas}          sorted set: the names of replicas that have leases, or had
const (
	leasePrefix = "l:{replicas}:"
	leaseNames  = "n:{replicas}"
	// maxReplicas bounds the replicas that are known.
	maxReplicas = 1000
)

// homeKey is the key of a home's owner token. It is on the same node as all other keys of its
// user.
func homeKey(db *redisdb.DB, h Home) string {
	return db.Key("h:{" + url.QueryEscape(h.User) + "}:" + h.ID)
}

type scripts struct{ renew, leases, bury, own, give, exists *redisdb.Script }

func newScripts() scripts {
	script := func(source string) *redisdb.Script { return redisdb.NewScript(sparing + source) }
	return scripts{
		renew:  script(readLeases + renewSource),
		leases: script(readLeases + leasesSource),
		bury:   script(burySource),
		own:    script(ownSource),
		give:   script(giveSource),
		exists: script(existsSource),
	}
}

// sparing is the first line of scripts that run even when Redis is full.
const sparing = "#!lua flags=allow-oom\n"

// readLeases returns all leases except own, as alternating names and values. It removes names
// without a lease. KEYS[1] has the names; prefix is the key prefix of leases.
const readLeases = `
local function leases(own, prefix, most)
  local got = {}
  for _, name in ipairs(redis.call('ZRANGE', KEYS[1], 0, most - 1)) do
    if name ~= own then
      local value = redis.call('HGET', prefix .. name, 'v')
      if value then
        got[#got + 1] = name
        got[#got + 1] = value
      else
        redis.call('ZREM', KEYS[1], name)
      end
    end
  end
  return got
end
`

// renewSource renews a lease, or begins one. It returns the number of the renewal that began the
// lease, and then the other leases. A renewal may run twice or late: the client library repeats a
// command if its answer does not come in time, and the network may hold one back until the lease
// has ended. The number tells the lease that the replica knows from one that began since.
//
// ARGV: prefix of leases, bound on leases, own name, value, lease in milliseconds, number.
const renewSource = `
local key = ARGV[1] .. ARGV[3]
local began = redis.call('HGET', key, 'b') or ARGV[6]
redis.call('HSET', key, 'v', ARGV[4], 'b', began)
redis.call('PEXPIRE', key, ARGV[5])
redis.call('ZADD', KEYS[1], 0, ARGV[3])
redis.call('PEXPIRE', KEYS[1], ARGV[5])
local got = leases(ARGV[3], ARGV[1], ARGV[2])
table.insert(got, 1, tonumber(began))
return got`

// leasesSource returns all leases. ARGV: prefix of leases, bound on leases.
const leasesSource = `return leases('', ARGV[1], ARGV[2])`

// burySource writes a last lease for a replica that has gone, unless it has another one by now. If
// that replica is alive, its next renewal begins a lease. It returns 1 if it wrote. KEYS: names, the
// lease. ARGV: name, the lease's value as it was read, the last one, milliseconds.
const burySource = `
local value = redis.call('HGET', KEYS[2], 'v')
if value and value ~= ARGV[2] then return 0 end
redis.call('DEL', KEYS[2])
redis.call('HSET', KEYS[2], 'v', ARGV[3])
redis.call('PEXPIRE', KEYS[2], ARGV[4])
redis.call('ZADD', KEYS[1], 0, ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return 1`

// ownSource returns the token of a home's owner. If the home has no owner, or the stale one,
// it stores and returns the new token. It returns nil if the required key does not exist. Any
// token of the same replica is its own. KEYS: the home, and the required key, if any. ARGV:
// new token, stale token or empty, milliseconds until the home expires, prefix of this
// replica's tokens.
const ownSource = `
local token = redis.call('GET', KEYS[1])
if KEYS[2] and redis.call('EXISTS', KEYS[2]) == 0 then
  if token and (token == ARGV[2] or string.sub(token, 1, #ARGV[4]) == ARGV[4]) then redis.call('DEL', KEYS[1]) end
  return false
end
if token and string.sub(token, 1, #ARGV[4]) == ARGV[4] then
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
  return token
end
if token and token ~= ARGV[2] then return token end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[3])
return ARGV[1]`

// giveSource gives up a home if the token is its owner's. KEYS: the home. ARGV: token.
const giveSource = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])`

// existsSource returns 1 if a home has an owner. KEYS[1] is the home.
const existsSource = `return redis.call('EXISTS', KEYS[1])`
