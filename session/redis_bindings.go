package session

import (
	"context"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
)

const (
	// bindingSlack is how much longer a binding is kept than it may be unused: whoever
	// ends it finds it.
	bindingSlack = 2 * time.Minute
	// endedTime is how long it is known that the client's session has ended, and
	// claimTime who has claimed something.
	endedTime = time.Minute
	claimTime = time.Minute
)

// RedisBindings are the sessions of upstreams that replicas have in common: which belongs
// to which client. Safe for concurrent use. Errors are ErrUnavailable.
//
//	b:{user}:id:server         hash: t the tag, v the value, d when it was used last in
//	                           milliseconds, o that more than one replica has used it;
//	                           l who makes it, until u; s whose its standing stream is,
//	                           until w; x that the client's session has ended; q who
//	                           was told to end it, and f which Farewell that was
//	c:{user}:id:server:what    who has claimed something
//
// The client library asks again when an answer does not come in time, so that a script may
// run twice for one question and has to answer the same: q and c hold a word of the one who
// asks, and another one each time.
type RedisBindings struct {
	s                                     *Redis
	take, put, release, keep, end, claims *redisdb.Script
	questions                             questionScripts
}

// Bindings are those of the clients of the store's sessions, and of those without.
func (s *Redis) Bindings() *RedisBindings {
	const clock = `
local function now()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end
local function text(n) return string.format('%.0f', n) end
`
	return &RedisBindings{s: s, questions: newQuestionScripts(),
		// KEYS: b. ARGV: a tag that does not count, ttl, replica, how long it may take to
		// make one. Returns tag and value, or a Turn.
		take: redisdb.NewScript(growing + clock + `
local at = now()
local got = redis.call('HMGET', KEYS[1], 't', 'v', 'l', 'u', 'x')
if got[5] then return 3 end
if got[1] and got[1] ~= ARGV[5] then
  redis.call('HSET', KEYS[1], 'd', text(at), 'o', 1)
  redis.call('PEXPIRE', KEYS[1], ARGV[6])
  return {got[1], got[2]}
end
if got[3] and got[3] ~= ARGV[7] and at < tonumber(got[4]) then return 2 end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'l', ARGV[7], 'u', text(at + ARGV[8]))
redis.call('PEXPIRE', KEYS[1], ARGV[8])
return 1`),

		// KEYS: b. ARGV: tag, value, ttl. Returns tag and value of the one that came first,
		// or a Turn.
		put: redisdb.NewScript(growing + clock + `
local got = redis.call('HMGET', KEYS[1], 't', 'v', 'x')
if got[3] then return 3 end
if got[1] == ARGV[5] then return 1 end
if got[1] then
  redis.call('HSET', KEYS[1], 'd', text(now()), 'o', 1)
  return {got[1], got[2]}
end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 't', ARGV[5], 'v', ARGV[6], 'd', text(now()))
redis.call('PEXPIRE', KEYS[1], ARGV[7])
return 1`),

		// KEYS: b. ARGV: replica.
		release: redisdb.NewScript(sparing + `
local got = redis.call('HMGET', KEYS[1], 't', 'l')
if not got[1] and got[2] == ARGV[5] then redis.call('DEL', KEYS[1]) end
return 1`),

		// KEYS: b. ARGV: tag, value, ttl, for how long it was unused, replica, for how long
		// that wants the standing stream: 0 does not, -1 not any more, a replica that has gone.
		// Returns the tag that holds, "" where the client's session has ended, and to who wants
		// the stream the replica that has it.
		keep: redisdb.NewScript(growing + clock + `
local at = now()
local got = redis.call('HMGET', KEYS[1], 't', 's', 'w', 'd', 'x', 'u')
if got[5] then return {'', ''} end
if got[1] and got[1] ~= ARGV[5] then return {got[1], ''} end
if not got[1] then
  if tonumber(ARGV[10]) < 0 or got[6] and at < tonumber(got[6]) then return {ARGV[5], ''} end
  redis.call('DEL', KEYS[1])
  redis.call('HSET', KEYS[1], 't', ARGV[5], 'v', ARGV[6])
  got = {ARGV[5]}
end
local used = at - tonumber(ARGV[8])
if not got[4] or tonumber(got[4]) < used then redis.call('HSET', KEYS[1], 'd', text(used)) end
local stand, own = tonumber(ARGV[10]), got[2] == ARGV[9]
local stands = ''
if stand > 0 and (own or not got[2] or got[2] == ARGV[11] or at >= tonumber(got[3])) then
  redis.call('HSET', KEYS[1], 's', ARGV[9], 'w', text(at + stand))
  stands = ARGV[9]
elseif stand > 0 then
  stands = got[2]
elseif stand < 0 and own then
  redis.call('HSET', KEYS[1], 'w', 0)
end
redis.call('PEXPIRE', KEYS[1], ARGV[7])
return {ARGV[5], stands}`),

		// KEYS: b. ARGV: tag, idle or 0, how long the end is known, word. Returns a Farewell.
		// What is taken off the idle time is what it may take a replica to say of a use.
		end: redisdb.NewScript(sparing + clock + `
local got = redis.call('HMGET', KEYS[1], 't', 'd', 'o', 'x', 'q', 'f')
local idle = tonumber(ARGV[6])
if got[5] == ARGV[8] then return tonumber(got[6]) end
if got[4] then return 0 end
if got[1] and got[1] ~= ARGV[5] then return 0 end
if idle > 0 and (not got[1] or now() - tonumber(got[2]) < idle - math.min(1000, idle / 10)) then return 0 end
local farewell = got[3] and 2 or 1
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'q', ARGV[8], 'f', farewell)
if idle == 0 then redis.call('HSET', KEYS[1], 'x', 1) end
redis.call('PEXPIRE', KEYS[1], ARGV[7])
return farewell`),

		// KEYS: c. ARGV: word, ttl. Returns 1 to the first.
		claims: redisdb.NewScript(growing + `
if redis.call('SET', KEYS[1], ARGV[5], 'NX', 'PX', ARGV[6]) or redis.call('GET', KEYS[1]) == ARGV[5] then return 1 end
return 0`),
	}
}

func (b *RedisBindings) run(ctx context.Context, script *redisdb.Script, kind string, at Place, more []string, args ...any) (any, error) {
	var n name
	n.user, n.id = splitKey(at.Key)
	got, err := b.s.step(ctx, script, n, []string{b.s.keyOf(kind, n, append([]string{at.Server}, more...)...)}, args...)
	if err == nil && got == nil {
		err = ErrUnavailable // something else is there
	}
	return got, err
}

// ttl is how long a binding is kept without anybody's use, in milliseconds.
func (b *RedisBindings) ttl(at Place) int64 {
	if at.Idle > 0 {
		return (at.Idle + at.Idle/2 + bindingSlack).Milliseconds()
	}
	return b.s.ttl() + bindingSlack.Milliseconds()
}

// Life is how long a binding is kept that nobody keeps or takes.
func (b *RedisBindings) Life(at Place) time.Duration {
	return time.Duration(b.ttl(at)) * time.Millisecond
}

// Take returns the binding of a place, unless its tag is stale; or says who makes it. Who
// is to make one Puts it within lease, or Releases the place.
func (b *RedisBindings) Take(ctx context.Context, at Place, stale string, lease time.Duration) (Binding, Turn, error) {
	return binding(b.run(ctx, b.take, "b", at, nil, stale, b.ttl(at), b.s.self, lease.Milliseconds()))
}

// Put keeps the binding that was made for a place and returns Yours; or Taken and the one
// that was there before.
func (b *RedisBindings) Put(ctx context.Context, at Place, made Binding) (Binding, Turn, error) {
	return binding(b.run(ctx, b.put, "b", at, nil, made.Tag, made.Value, b.ttl(at)))
}

func binding(got any, err error) (Binding, Turn, error) {
	if err != nil {
		return Binding{}, Over, err
	}
	switch got := got.(type) {
	case int64:
		return Binding{}, Turn(got), nil
	case []any:
		if len(got) == 2 {
			tag, _ := got[0].(string)
			value, _ := got[1].(string)
			return Binding{tag, value}, Taken, nil
		}
	}
	return Binding{}, Over, ErrUnavailable
}

// Release says that none will be made.
func (b *RedisBindings) Release(ctx context.Context, at Place) error {
	_, err := b.run(ctx, b.release, "b", at, nil, b.s.self)
	return err
}

// Keep says that a binding was used, that long ago, and returns the tag of the one that
// holds: its own, also where none was kept any more, or "" when the client's session has
// ended. stands is the replica whose the standing stream of the session is: this one for
// the time of stand, where no other has it, or that one is gone; "" if stand is 0, for who
// does not want it, or less, for who does not any more.
func (b *RedisBindings) Keep(ctx context.Context, at Place, made Binding, unused, stand time.Duration, gone string) (holds, stands string, err error) {
	got, err := b.run(ctx, b.keep, "b", at, nil, made.Tag, made.Value, b.ttl(at), unused.Milliseconds(), b.s.self, stand.Milliseconds(), gone)
	if err != nil {
		return "", "", err
	}
	pair, _ := got.([]any)
	if len(pair) != 2 {
		return "", "", ErrUnavailable
	}
	holds, _ = pair[0].(string)
	stands, _ = pair[1].(string)
	return holds, stands, nil
}

// Self is the name of this replica.
func (b *RedisBindings) Self() string { return b.s.self }

// End is told that this replica has no use for the session of a tag any more: its
// client's has ended, or it was idle here. The answer says whether to end it.
func (b *RedisBindings) End(ctx context.Context, at Place, tag string) (Farewell, error) {
	got, err := b.run(ctx, b.end, "b", at, nil, tag, at.Idle.Milliseconds(), endedTime.Milliseconds(), b.s.word())
	if err != nil {
		return Kept, err
	}
	n, _ := got.(int64)
	return Farewell(n), nil
}

// Claim reports whether this replica is the first that claims something of a place.
func (b *RedisBindings) Claim(ctx context.Context, at Place, what string) (bool, error) {
	got, err := b.run(ctx, b.claims, "c", at, []string{what}, b.s.word(), claimTime.Milliseconds())
	return got == int64(1), err
}

// Tell sends a message to all other replicas, which hand it to Deps.OnBindings. It may be
// lost.
func (b *RedisBindings) Tell(ctx context.Context, message []byte) error {
	_, err := b.s.post(ctx, broadcast, saidBinding, message)
	return err
}
