package session

import "github.com/gatehouse-mcp/gatehouse/internal/redisdb"

// Keys in Redis. All keys of one user have the user in braces, so that they are on one node
// of a Cluster and one script can change them in one step. Only the clock of Redis counts: no
// clock of a replica is compared with it. What clients and servers have said is sealed
// (seals).
//
//	h:{user}:id   the owner of the session (internal/cluster): the fence of all other keys
//	s:{user}:id   hash: v the record, seq the position of the newest event, past that of the
//	              newest one of a stream that was forgotten, n how often the session was written
//	u:{user}      sorted set: the user's sessions by their last use
//	m:{user}:id   hash: event streams by name, without their events
//	e:{user}:id   hash: events by stream:position
//	g:{user}:id   hash: definitions that were shown (RedisGrants)
//	k:{user}:id   hash: what is kept of sessions at servers (Keeper)
//
// The keys of a session expire when it was idle for too long.
const kinds = "hsumegk"

// Numbers of the keys, as scripts count them.
const (
	recordKey = 2
	streamKey = 4
	eventKey  = 5
)

// First lines of scripts. Those that add something do not run when Redis is full.
const (
	growing = "#!lua\n"
	sparing = "#!lua flags=allow-oom\n"
	reading = "#!lua flags=no-writes,allow-oom\n"
)

// Results of scripts that have done nothing; 1 means done.
const (
	none    = int64(0)  // there is no such session
	tooMany = int64(2)  // a bound is reached
	moved   = int64(-1) // another replica owns the session
)

// lua is shared by the scripts. Their KEYS are always those of kinds. Their first arguments
// are the fence's token, "" for none, the session id, and how long a session lasts in
// milliseconds.
const lua = `
local home, record, users, streams, events, grants, kept = unpack(KEYS)
local token, id, ttl = ARGV[1], ARGV[2], tonumber(ARGV[3])
local function now()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end
local function there() return redis.call('EXISTS', record) == 1 end
local function moved() return token ~= '' and redis.call('GET', home) ~= token end
local function used(at)
  redis.call('ZADD', users, string.format('%.0f', at), id)
  redis.call('PEXPIRE', users, ttl)
end
local function forget(which) -- a session of the user
  for _, key in ipairs(KEYS) do
    if key ~= users then redis.call('DEL', string.sub(key, 1, -1 - #id) .. which) end
  end
  redis.call('ZREM', users, which)
end
`

// write writes for the owner. ARGV: the number of this write; for how long the session was unused,
// -1 to leave its idle time alone; the number of fields to set, and for each the number of its key,
// its name and its value; likewise the fields to delete, without values. A write that arrives after
// one with a higher number is dropped: its caller no longer waits.
const write = `
if not there() then return 0 end
if moved() then return -1 end
if tonumber(redis.call('HGET', record, 'n') or 0) > tonumber(ARGV[4]) then return 1 end
redis.call('HSET', record, 'n', ARGV[4])
local at = 7
for _ = 1, tonumber(ARGV[6]) do
  redis.call('HSET', KEYS[tonumber(ARGV[at])], ARGV[at + 1], ARGV[at + 2])
  at = at + 3
end
while ARGV[at] do
  redis.call('HDEL', KEYS[tonumber(ARGV[at])], ARGV[at + 1])
  at = at + 2
end
local left, unused = redis.call('PTTL', record), tonumber(ARGV[5])
if unused >= 0 then
  left = ttl - unused
  used(now() - unused)
end
for _, key in ipairs(KEYS) do
  if key ~= users then redis.call('PEXPIRE', key, left) end
end
return 1`

var (
	// ARGV: bound on sessions, after how long unused a session makes room, value. It
	// returns 2 for too many, or the id of the session that has made room, "" for none.
	createScript = redisdb.NewScript(growing + lua + `
local at, room = now(), ''
redis.call('ZREMRANGEBYSCORE', users, '-inf', string.format('%.0f', at - ttl))
if not there() and redis.call('ZCARD', users) >= tonumber(ARGV[4]) then
  local oldest = redis.call('ZRANGE', users, 0, 0, 'WITHSCORES')
  if at - tonumber(oldest[2]) < tonumber(ARGV[5]) then return 2 end
  room = oldest[1]
  forget(room)
end
redis.call('HSET', record, 'v', ARGV[6])
redis.call('PEXPIRE', record, ttl)
used(at)
return room`)

	// It returns v, n, seq, the remaining time of the session, the fields of m, the fields of
	// e with the lengths of their values, and past.
	loadScript = redisdb.NewScript(reading + lua + `
local got = redis.call('HMGET', record, 'v', 'n', 'seq', 'past')
if not got[1] then return 0 end
if moved() then return -1 end
local sizes = redis.call('HGETALL', events)
for i = 2, #sizes, 2 do sizes[i] = #sizes[i] end
return {got[1], got[2] or '0', got[3] or '0', redis.call('PTTL', record), redis.call('HGETALL', streams), sizes, got[4] or '0'}`)

	addScript  = redisdb.NewScript(growing + lua + write)
	tendScript = redisdb.NewScript(sparing + lua + write)

	// ARGV: the longest remaining time of a session without an owner that may be removed, -1
	// for none: a session that was idle for too long may have outlived its home, and another
	// replica may have used it since.
	removeScript = redisdb.NewScript(sparing + lua + `
if not there() then return 0 end
if moved() and (redis.call('EXISTS', home) == 1 or redis.call('PTTL', record) > tonumber(ARGV[4])) then return -1 end
forget(id)
return 1`)

	// ARGV: fields of e. It returns their values.
	fetchScript = redisdb.NewScript(reading + lua + `return redis.call('HMGET', events, unpack(ARGV, 4))`)

	// ARGV: 1 if a record is required, bound on fields, field, value. It returns 2 for too
	// many.
	keepScript = redisdb.NewScript(growing + lua + `
if ARGV[4] == '1' and not there() then return 0 end
if moved() then return -1 end
if not redis.call('HGET', kept, ARGV[6]) and redis.call('HLEN', kept) >= tonumber(ARGV[5]) then return 2 end
redis.call('HSET', kept, ARGV[6], ARGV[7])
redis.call('PEXPIRE', kept, there() and redis.call('PTTL', record) or ttl)
return 1`)

	// ARGV: field, "" for none. The remaining fields last for the full time again. It
	// returns 0 if there is nothing.
	unkeepScript = redisdb.NewScript(sparing + lua + `
if redis.call('EXISTS', kept) == 0 then return 0 end
if moved() then return -1 end
if ARGV[4] ~= '' then redis.call('HDEL', kept, ARGV[4]) end
if not there() then redis.call('PEXPIRE', kept, ttl) end
return 1`)

	// ARGV: field. It returns the value, or nothing.
	recallScript = redisdb.NewScript(reading + lua + `return redis.call('HGET', kept, ARGV[4])`)
)
