package cluster

import (
	"net/url"

	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
)

// What is kept in Redis. Time is Redis's alone: no clock of a replica is compared with it.
// All of this goes on when Redis is full: it is little, and sessions depend on it.
//
//	h:{user}:id           string: the token of the home's owner. It ends by itself when the
//	                      home is not used for too long
//	l:{replicas}:name     hash: the lease of a replica: v what others read of it, sealed; n the
//	                      number of its newest renewal; t whether that one found it there
//	n:{replicas}          sorted set: the names of those who have leases, or had
const (
	leasePrefix = "l:{replicas}:"
	leaseNames  = "n:{replicas}"
	// maxReplicas bounds the replicas that are known.
	maxReplicas = 1000
)

// homeKey is where the owner of a home stands, on the node of all that belongs to its user.
func homeKey(db *redisdb.DB, h Home) string {
	return db.Key("h:{" + url.QueryEscape(h.User) + "}:" + h.ID)
}

type scripts struct {
	renew, leases, resign *redisdb.Script
	own, keep, give       *redisdb.Script
}

func newScripts() scripts {
	return scripts{
		renew: redisdb.NewScript(sparing + readLeases + renewSource), leases: redisdb.NewScript(sparing + readLeases + leasesSource),
		resign: redisdb.NewScript(sparing + resignSource),
		own:    redisdb.NewScript(sparing + ownSource), keep: redisdb.NewScript(sparing + keepSource), give: redisdb.NewScript(sparing + giveSource),
	}
}

// sparing is the first line of scripts that run when Redis is full, too.
const sparing = "#!lua flags=allow-oom\n"

// readLeases returns all leases but that of own: names and values in turn. Names without a
// lease are forgotten. KEYS[1] has the names; prefix is that of leases.
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

// renewSource renews a lease and returns whether it was there, 1 or 0, and then the others.
// The client library asks again when an answer does not come in time: what the same renewal
// found the first time is what it finds.
//
// ARGV: prefix of leases, most of them, own name, value, lease in milliseconds, number.
const renewSource = `
local key = ARGV[1] .. ARGV[3]
local number = redis.call('HGET', key, 'n')
local there = number and '1' or '0'
if number == ARGV[6] then there = redis.call('HGET', key, 't') end
redis.call('HSET', key, 'v', ARGV[4], 'n', ARGV[6], 't', there)
redis.call('PEXPIRE', key, ARGV[5])
redis.call('ZADD', KEYS[1], 0, ARGV[3])
redis.call('PEXPIRE', KEYS[1], ARGV[5])
local got = leases(ARGV[3], ARGV[1], ARGV[2])
table.insert(got, 1, tonumber(there))
return got`

// leasesSource returns all leases. ARGV: prefix of leases, most of them.
const leasesSource = `return leases('', ARGV[1], ARGV[2])`

// resignSource ends the lease of a replica that has gone, where it has this value. KEYS: names,
// the lease. ARGV: name, value.
const resignSource = `
if redis.call('HGET', KEYS[2], 'v') ~= ARGV[2] then return 0 end
redis.call('ZREM', KEYS[1], ARGV[1])
return redis.call('DEL', KEYS[2])`

// ownSource returns the token of a home's owner, which is the new one if nobody, or the
// stale one, had it; and nil if what the home needs is not there. Any token of the same
// replica is its own. KEYS: the home, what has to be there, if anything. ARGV: new token,
// stale token or empty, milliseconds until it ends, how tokens of this replica begin.
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

// keepSource moves on when a home ends, and returns 1 if the token is still its owner's; 0
// if another one is, and nil if none. KEYS: the home. ARGV: token, milliseconds.
const keepSource = `
local token = redis.call('GET', KEYS[1])
if not token then return false end
if token ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])`

// giveSource gives a home up where the token is its owner's. KEYS: the home. ARGV: token.
const giveSource = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])`
