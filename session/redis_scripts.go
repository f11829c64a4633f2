package session

import "github.com/gatehouse-mcp/gatehouse/internal/redisdb"

// What is kept in Redis. All keys of one user have the user in braces, so that they are
// on one node of a Cluster and one script can change them as one step. Time is Redis's
// alone: no clock of a replica is compared with it. Records, events, ids of requests, what
// was shown and messages are sealed (seals).
//
//	s:{user}:id          hash: v the record, n how often it changed, seq the position of the
//	                     newest event.
//	                     It ends by itself when the session was idle for too long
//	u:{user}             sorted set: the user's sessions by when they were last used
//	i:{user}:id          sorted set: the session's event streams by when they were last
//	                     written; those that have ended stand before all others
//	m:{user}:id:stream   hash: what is known of a stream: born, last, dropped, bytes, ended,
//	                     the word that asked for its last event, and the id of the request
//	                     that it answers
//	e:{user}:id:stream   stream: its events, by their positions
//	d:{user}:id          who has ended the session, for a while
//	w:{user}:id          set: replicas to tell when a stream of the session has news
//	g:{user}:id          hash: definitions that were shown (RedisGrants)
//	b:{user}:id:server   hash: the session of an upstream (RedisBindings), and c: what was
//	                     claimed of it, and q: hash: its questions (questionScripts)
//	x:word               a message that is too large for a channel
//	r:{replicas}:name    the lease of a replica
//
// Messages on the channel "all" and on that of each replica begin with a letter that says
// what they are.
const (
	saidEnded   = 'e' // a session has ended: its key
	saidUpdated = 'u' // a session was changed: the replica that did, a space, its key
	saidNews    = 'l' // a stream of a session has news: its key
	saidMail    = 'm' // a message of one replica to another
	saidBinding = 'b' // what one replica says to all of a binding
)

// First lines of scripts: what adds something does not run when Redis is full, and all
// else does.
const (
	growing = "#!lua\n"
	sparing = "#!lua flags=allow-oom\n"
)

// lua is what scripts share: now in milliseconds, how streams of a session are forgotten,
// who is told that there is news, and how one stream ends.
const lua = `
local function now()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end
local function forget(id, user)
  local i = user .. ':' .. id
  for _, name in ipairs(redis.call('ZRANGE', ARGV[1] .. 'i:' .. i, 0, -1)) do
    redis.call('DEL', ARGV[1] .. 'm:' .. i .. ':' .. name, ARGV[1] .. 'e:' .. i .. ':' .. name)
  end
  redis.call('DEL', ARGV[1] .. 'i:' .. i, ARGV[1] .. 'w:' .. i, ARGV[1] .. 'g:' .. i)
end
local function tell(id, user)
  local w = ARGV[1] .. 'w:' .. user .. ':' .. id
  for _, replica in ipairs(redis.call('SMEMBERS', w)) do
    redis.call('PUBLISH', ARGV[1] .. 'to:' .. replica, 'l' .. ARGV[2])
  end
  redis.call('DEL', w)
end
local function finish(kept, before)
  redis.call('HSET', KEYS[3], 'ended', 1)
  redis.call('ZADD', KEYS[2], string.format('%.0f', now() - tonumber(before)), ARGV[5])
  redis.call('PEXPIRE', KEYS[3], kept)
  redis.call('PEXPIRE', KEYS[4], kept)
end
`

// scripts are the steps. ARGV[1] is always the prefix of all keys, ARGV[2] the session's
// key as the gateway writes it, ARGV[3] the user in braces, ARGV[4] the id.
type scripts struct {
	create, get, update, remove, left     *redisdb.Script
	appendEvent, endStream, read, request *redisdb.Script
	leave, collect, discard, renew        *redisdb.Script
}

func newScripts() scripts {
	return scripts{
		// KEYS: s, u, and s of the session that is to make room. ARGV: value, ttl, most
		// sessions, after how long unused one makes room, id and key of the one that does.
		// Returns 1; 0 for too many; or the id of one that could make room.
		create: redisdb.NewScript(growing + lua + `
local at, ttl = now(), tonumber(ARGV[6])
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', string.format('%.0f', at - ttl))
if redis.call('EXISTS', KEYS[1]) == 0 and redis.call('ZCARD', KEYS[2]) >= tonumber(ARGV[7]) then
  local oldest = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')
  if at - tonumber(oldest[2]) < tonumber(ARGV[8]) then return 0 end
  if oldest[1] ~= ARGV[9] then return oldest[1] end
  redis.call('ZREM', KEYS[2], ARGV[9])
  if redis.call('DEL', KEYS[3]) == 1 then
    forget(ARGV[9], ARGV[3])
    redis.call('PUBLISH', ARGV[1] .. 'all', 'e' .. ARGV[10])
  end
end
redis.call('HSET', KEYS[1], 'v', ARGV[5], 'n', 1)
redis.call('PEXPIRE', KEYS[1], ttl)
redis.call('ZADD', KEYS[2], string.format('%.0f', at), ARGV[4])
redis.call('PEXPIRE', KEYS[2], ttl)
return 1`),

		// KEYS: s, u, i. ARGV: ttl. Returns value, n and seq, or nothing.
		get: redisdb.NewScript(sparing + lua + `
local got = redis.call('HMGET', KEYS[1], 'v', 'n', 'seq')
if not got[1] then return false end
redis.call('PEXPIRE', KEYS[1], ARGV[5])
redis.call('ZADD', KEYS[2], string.format('%.0f', now()), ARGV[4])
redis.call('PEXPIRE', KEYS[2], ARGV[5])
local i = ARGV[3] .. ':' .. ARGV[4]
local open = redis.call('ZRANGEBYSCORE', KEYS[3], '(0', '+inf')
for _, name in ipairs(open) do
  redis.call('PEXPIRE', ARGV[1] .. 'm:' .. i .. ':' .. name, ARGV[5])
  redis.call('PEXPIRE', ARGV[1] .. 'e:' .. i .. ':' .. name, ARGV[5])
end
redis.call('PEXPIRE', KEYS[3], ARGV[5])
redis.call('PEXPIRE', ARGV[1] .. 'g:' .. i, ARGV[5])
return got`),

		// KEYS: s. ARGV: value, the n that it was made from, replica. Returns 1, 0 when
		// another one came first, nothing when the session has ended.
		update: redisdb.NewScript(growing + `
local n = redis.call('HGET', KEYS[1], 'n')
if not n then return false end
if n ~= ARGV[6] then return 0 end
redis.call('HSET', KEYS[1], 'v', ARGV[5], 'n', n + 1)
redis.call('PUBLISH', ARGV[1] .. 'all', 'u' .. ARGV[7] .. ' ' .. ARGV[2])
return 1`),

		// KEYS: s, u, d. ARGV: a word that is the same when this is repeated, how long it is
		// known. Returns 1, or 0 when there is none.
		remove: redisdb.NewScript(sparing + lua + `
if redis.call('DEL', KEYS[1]) == 0 then
  return redis.call('GET', KEYS[3]) == ARGV[5] and 1 or 0
end
redis.call('SET', KEYS[3], ARGV[5], 'PX', ARGV[6])
redis.call('ZREM', KEYS[2], ARGV[4])
forget(ARGV[4], ARGV[3])
redis.call('PUBLISH', ARGV[1] .. 'all', 'e' .. ARGV[2])
return 1`),

		// KEYS: s. Returns how many milliseconds the session has left, -2 for none.
		left: redisdb.NewScript(sparing + `return redis.call('PTTL', KEYS[1])`),

		// KEYS: s, i, m, e. ARGV: stream, data, most events, most bytes, most streams, a
		// word that is the same when this is repeated, 1 if events were missed before, the
		// id of the request that the stream answers, 1 for the last event, what endStream
		// wants of it, the position that the data is sealed for, and by how much that made
		// it longer. Returns the position, 0 when the session has ended, -1 when the stream
		// has, or as a string the newest position, when the event's is not behind that.
		appendEvent: redisdb.NewScript(growing + lua + `
local left = redis.call('PTTL', KEYS[1])
if left < 0 then return 0 end
local known = redis.call('HMGET', KEYS[3], 'ended', 'bytes', 'word', 'last')
if known[3] == ARGV[10] then return tonumber(known[4]) end
if known[1] == '1' then return -1 end
local i = ARGV[3] .. ':' .. ARGV[4]
local seq, over = tonumber(ARGV[16]), tonumber(ARGV[17])
local newest = redis.call('HGET', KEYS[1], 'seq') or '0'
if seq <= tonumber(newest) then return newest end
redis.call('HSET', KEYS[1], 'seq', ARGV[16])
local bytes = tonumber(known[2] or '0')
if not known[2] then
  while redis.call('ZCARD', KEYS[2]) >= tonumber(ARGV[9]) do
    local first = redis.call('ZRANGE', KEYS[2], 0, 0)[1]
    redis.call('ZREM', KEYS[2], first)
    redis.call('DEL', ARGV[1] .. 'm:' .. i .. ':' .. first, ARGV[1] .. 'e:' .. i .. ':' .. first)
  end
  redis.call('DEL', KEYS[4])
  redis.call('HSET', KEYS[3], 'born', seq - 1, 'dropped', 0, 'ended', 0)
end
if ARGV[11] == '1' then redis.call('HSET', KEYS[3], 'dropped', seq - 1) end
redis.call('XADD', KEYS[4], ARGV[16] .. '-0', 'd', ARGV[6])
bytes = bytes + #ARGV[6] - over
local count = redis.call('XLEN', KEYS[4])
while count > tonumber(ARGV[7]) or bytes > tonumber(ARGV[8]) and count > 1 do
  local oldest = redis.call('XRANGE', KEYS[4], '-', '+', 'COUNT', 1)[1]
  redis.call('XDEL', KEYS[4], oldest[1])
  bytes = bytes - #oldest[2][2] + over
  count = count - 1
  redis.call('HSET', KEYS[3], 'dropped', string.match(oldest[1], '^%d+'))
end
redis.call('HSET', KEYS[3], 'last', seq, 'bytes', bytes, 'word', ARGV[10])
redis.call('ZADD', KEYS[2], string.format('%.0f', now()), ARGV[5])
if ARGV[12] ~= '' then redis.call('HSET', KEYS[3], 'request', ARGV[12]) end
for k = 2, 4 do redis.call('PEXPIRE', KEYS[k], left) end
if ARGV[13] == '1' then finish(ARGV[14], ARGV[15]) end
tell(ARGV[4], ARGV[3])
return seq`),

		// KEYS: s, i, m, e. ARGV: stream, how long it is kept, what moves its score before
		// all others, 1 if its last events were missed. Returns 1, or 0 for what is not
		// there.
		endStream: redisdb.NewScript(sparing + lua + `
local ended = redis.call('HGET', KEYS[3], 'ended')
if redis.call('EXISTS', KEYS[1]) == 0 or not ended then return 0 end
if ended == '1' then return 1 end
if ARGV[8] == '1' then
  local seq = redis.call('HINCRBY', KEYS[1], 'seq', 1)
  redis.call('HSET', KEYS[3], 'last', seq, 'dropped', seq)
end
finish(ARGV[6], ARGV[7])
tell(ARGV[4], ARGV[3])
return 1`),

		// KEYS: s, m. Returns the id of the request that a stream answers, "" for none, or
		// nothing.
		request: redisdb.NewScript(sparing + `
if redis.call('EXISTS', KEYS[1], KEYS[2]) ~= 2 then return false end
return redis.call('HGET', KEYS[2], 'request') or ''`),

		// KEYS: x. ARGV: value, ttl. Unlike the others, it and what follows is no session's.
		leave: redisdb.NewScript(growing + `return redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])`),

		// KEYS: x. Returns the value, or nothing.
		collect: redisdb.NewScript(sparing + `return redis.call('GET', KEYS[1])`),

		// KEYS: x, or r.
		discard: redisdb.NewScript(sparing + `return redis.call('DEL', KEYS[1])`),

		// KEYS: r, and that of other replicas. ARGV: ttl. Returns for each, in order,
		// whether it was there.
		renew: redisdb.NewScript(sparing + `
local there = {}
for i, key in ipairs(KEYS) do there[i] = redis.call('EXISTS', key) end
redis.call('SET', KEYS[1], '1', 'PX', ARGV[1])
return there`),

		// KEYS: s, m, e, w. ARGV: the position after which to read, the replica that wants
		// to hear of news. Returns born, last, dropped, ended and the events, or nothing.
		read: redisdb.NewScript(sparing + `
local left = redis.call('PTTL', KEYS[1])
if left < 0 then return false end
local m = redis.call('HMGET', KEYS[2], 'born', 'last', 'dropped', 'ended')
if not m[2] then return false end
redis.call('SADD', KEYS[4], ARGV[6])
redis.call('PEXPIRE', KEYS[4], left)
return {m[1], m[2], m[3], m[4], redis.call('XRANGE', KEYS[3], '(' .. ARGV[5] .. '-0', '+')}`),
	}
}
