package foureyes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
)

const (
	// mostShared bounds a call that other replicas see, in bytes. On a larger one, its own
	// replica alone decides.
	mostShared = 16 << 10
	// verdictLife is how long a verdict waits for the replica of its call.
	verdictLife = time.Minute
	// tag puts all keys on one node of a Cluster.
	tag = "{foureyes}"
)

// Shared lets replicas decide on each other's calls, through Redis. Each call and each verdict
// there is sealed together with what it is about, so write access to Redis alone is not enough to
// decide, nor to show a call that does not wait.
type Shared struct {
	db                                  *redisdb.DB
	key                                 *seal.Key
	put, get, list, say, hear, drop, no *redisdb.Script
}

// NewShared shares calls in a Redis.
func NewShared(db *redisdb.DB, key *seal.Key) *Shared {
	const now = `
local t = redis.call('TIME')
local now = string.format('%.0f', t[1] * 1000 + math.floor(t[2] / 1000))
`
	return &Shared{
		db: db, key: key,
		// KEYS: the call, its verdict, the index by expiry. ARGV: call, ttl, most, name. Returns
		// whether there was room.
		put: redisdb.NewScript("#!lua\n" + now + `
local ttl = tonumber(ARGV[2])
redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', now)
if redis.call('ZCARD', KEYS[3]) >= tonumber(ARGV[3]) then return 0 end
redis.call('DEL', KEYS[2])
redis.call('SET', KEYS[1], ARGV[1], 'PX', ttl)
redis.call('ZADD', KEYS[3], string.format('%.0f', now + ttl), ARGV[4])
if redis.call('PTTL', KEYS[3]) < ttl then redis.call('PEXPIRE', KEYS[3], ttl) end
return 1`),
		// KEYS: the call.
		get: redisdb.NewScript("#!lua flags=no-writes,allow-oom\n" + `return redis.call('GET', KEYS[1])`),
		// KEYS: the index. ARGV: what stands before names in the keys of calls, and of verdicts. Returns names
		// and calls in turn, without those that are decided.
		list: redisdb.NewScript("#!lua flags=no-writes,allow-oom\n" + `
local all = {}
for _, name in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  local call = redis.call('GET', ARGV[1] .. name)
  if call and redis.call('EXISTS', ARGV[2] .. name) == 0 then
    all[#all + 1] = name
    all[#all + 1] = call
  end
end
return all`),
		// KEYS: the call, its verdict. ARGV: verdict, ttl. Returns whether it is the first one.
		say: redisdb.NewScript("#!lua\n" + `
if redis.call('EXISTS', KEYS[1]) == 0 or redis.call('EXISTS', KEYS[2]) == 1 then return 0 end
redis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[2])
return 1`),
		// KEYS: the call, its verdict. Returns the verdict, '' for none, and whether the call is
		// there.
		hear: redisdb.NewScript("#!lua flags=no-writes,allow-oom\n" +
			`return {redis.call('GET', KEYS[2]) or '', redis.call('EXISTS', KEYS[1])}`),
		// KEYS: the call, its verdict, the index. ARGV: name. Returns the verdict.
		drop: redisdb.NewScript("#!lua flags=allow-oom\n" + `
local verdict = redis.call('GET', KEYS[2])
redis.call('DEL', KEYS[1], KEYS[2])
redis.call('ZREM', KEYS[3], ARGV[1])
return verdict`),
		// KEYS: the verdict, which is none.
		no: redisdb.NewScript("#!lua flags=allow-oom\n" + `return redis.call('DEL', KEYS[1])`),
	}
}

// keysOf returns the keys of a call, its verdict and the index, and the call's name in the index.
func (s *Shared) keysOf(id string) (keys []string, name string) {
	name = s.key.Name("four eyes", id)
	return []string{s.before() + name, s.verdicts() + name, s.db.Key("fi:" + tag)}, name
}

func (s *Shared) before() string { return s.db.Key("f:" + tag + ":") }

func (s *Shared) verdicts() string { return s.db.Key("fv:" + tag + ":") }

// publish shows a call to other replicas. It returns false, without an error, if the call is too
// large or there are too many.
func (s *Shared) publish(ctx context.Context, c *Call) (bool, error) {
	plain, err := json.Marshal(c)
	if err != nil || len(plain) > mostShared {
		return false, err
	}
	keys, name := s.keysOf(c.ID)
	got, err := s.db.Run(ctx, s.put, keys, s.key.SealBytes(plain, "call", name), time.Until(c.Until).Milliseconds()+1,
		MostWaiting, name)
	return got == int64(1), wrap(err)
}

// find returns a call that waits, nil for none.
func (s *Shared) find(ctx context.Context, id string) (*Call, error) {
	keys, name := s.keysOf(id)
	got, err := s.db.Run(ctx, s.get, keys[:1])
	if err != nil {
		return nil, wrap(err)
	}
	return s.openCall(name, got), nil
}

// all returns all calls that wait.
func (s *Shared) all(ctx context.Context) (calls []*Call, err error) {
	keys, _ := s.keysOf("")
	got, err := s.db.Run(ctx, s.list, keys[2:], s.before(), s.verdicts())
	if err != nil {
		return nil, wrap(err)
	}
	pairs, _ := got.([]any)
	for i := 0; i+1 < len(pairs); i += 2 {
		name, _ := pairs[i].(string)
		if c := s.openCall(name, pairs[i+1]); c != nil {
			calls = append(calls, c)
		}
	}
	return calls, nil
}

func (s *Shared) openCall(name string, found any) *Call {
	sealed, ok := found.(string)
	if !ok {
		return nil
	}
	plain, err := s.key.OpenBytes([]byte(sealed), "call", name)
	c := &Call{}
	if err != nil || json.Unmarshal(plain, c) != nil {
		s.db.Unopened("approval")
		return nil
	}
	return c
}

// sealedVerdict is a Verdict in Redis. Its approver was found fit where they decided.
type sealedVerdict struct {
	Issuer, Subject, Client string
	Groups                  []string
	Approve                 bool
	Reason                  string
}

// boundTo is what a verdict is sealed with: the call as it waits now, which may be again.
func boundTo(c *Call) []string {
	return []string{"verdict", c.ID, c.Digest, strconv.FormatInt(c.Since.UnixNano(), 10)}
}

// decide leaves a verdict for the replica where a call waits. It returns false if there is one
// already, or the call does not wait any more.
func (s *Shared) decide(ctx context.Context, c *Call, v Verdict) (bool, error) {
	plain, err := json.Marshal(sealedVerdict{v.By.Issuer, v.By.Subject, v.By.ClientID, v.By.Groups, v.Approve, v.Reason})
	if err != nil {
		return false, err
	}
	keys, _ := s.keysOf(c.ID)
	got, err := s.db.Run(ctx, s.say, keys[:2], s.key.SealBytes(plain, boundTo(c)...), verdictLife.Milliseconds())
	return got == int64(1), wrap(err)
}

// heard returns the verdict on a call of this replica, if there is one. A call that Redis has
// lost is published again.
func (s *Shared) heard(ctx context.Context, c *Call) (Verdict, bool) {
	keys, _ := s.keysOf(c.ID)
	got, err := s.db.Run(ctx, s.hear, keys[:2])
	pair, _ := got.([]any)
	if err != nil || len(pair) != 2 {
		return Verdict{}, false // as long as Redis is away, the call waits
	}
	if pair[0] == "" {
		if pair[1] == int64(0) {
			_, _ = s.publish(ctx, c) // or the next time
		}
		return Verdict{}, false
	}
	v, ok := s.openVerdict(c, pair[0])
	if !ok {
		_, _ = s.db.Run(ctx, s.no, keys[1:2]) // would keep the place of a good one
	}
	return v, ok
}

// withdraw ends what other replicas see of a call, and returns the verdict that was there.
func (s *Shared) withdraw(ctx context.Context, c *Call) (Verdict, bool) {
	keys, name := s.keysOf(c.ID)
	got, err := s.db.Run(ctx, s.drop, keys, name)
	if err != nil || got == nil {
		return Verdict{}, false // it expires
	}
	return s.openVerdict(c, got)
}

func (s *Shared) openVerdict(c *Call, found any) (Verdict, bool) {
	sealed, _ := found.(string)
	plain, err := s.key.OpenBytes([]byte(sealed), boundTo(c)...)
	var v sealedVerdict
	if err != nil || json.Unmarshal(plain, &v) != nil {
		s.db.Unopened("approval")
		return Verdict{}, false
	}
	by := mcp.NewCaller(mcp.Caller{Issuer: v.Issuer, Subject: v.Subject, ClientID: v.Client, Groups: v.Groups})
	return Verdict{by, v.Approve, v.Reason}, true
}

func wrap(err error) error {
	switch {
	case err == nil, errors.Is(err, redisdb.ErrValue):
		return nil // as if nothing were there
	default:
		return fmt.Errorf("%w: %w", ErrAway, err)
	}
}
