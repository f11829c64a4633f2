package session

import (
	"context"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
)

// maxKeptQuestions bounds the questions that are kept of one binding.
const maxKeptQuestions = 100

// Question is one of the server of a Binding, which waits for its answer at a replica.
type Question struct {
	// Key is another one for each question of a place.
	Key string
	// Replica has it.
	Replica string
	// Value is what there is to know of it.
	Value string
}

// questionScripts are the steps of what is kept at q:{user}:id:server, a hash: by the key of
// a question its replica and, after a space, its value; none for one that another replica
// has answered than it was asked at.
type questionScripts struct{ ask, answered, asked, inherit, settle *redisdb.Script }

func newQuestionScripts() questionScripts {
	const lua = `
local function of(kept, replica)
  return kept and string.sub(kept, 1, #replica + 1) == replica .. ' '
end
`
	return questionScripts{
		// KEYS: q. ARGV: key, replica, value, the most that are kept, ttl. Returns 1, or 0
		// when there is no room.
		ask: redisdb.NewScript(growing + `
if redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[8]) then
  local all = redis.call('HGETALL', KEYS[1])
  for i = 1, #all, 2 do
    if string.sub(all[i + 1], -1) == ' ' then redis.call('HDEL', KEYS[1], all[i]) end
  end
  if redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[8]) then return 0 end
end
redis.call('HSET', KEYS[1], ARGV[5], ARGV[6] .. ' ' .. ARGV[7])
redis.call('PEXPIRE', KEYS[1], ARGV[9])
return 1`),

		// KEYS: q. ARGV: key, replica. Returns 0 for a question that another replica has.
		answered: redisdb.NewScript(sparing + lua + `
local kept = redis.call('HGET', KEYS[1], ARGV[5])
if kept and not of(kept, ARGV[6]) then return 0 end
redis.call('HDEL', KEYS[1], ARGV[5])
return 1`),

		// KEYS: q. Returns keys and what is kept at them.
		asked: redisdb.NewScript(sparing + `return redis.call('HGETALL', KEYS[1])`),

		// KEYS: q. ARGV: key, replica, the one after it. Returns 1, or 0 when another came
		// first.
		inherit: redisdb.NewScript(sparing + lua + `
local kept = redis.call('HGET', KEYS[1], ARGV[5])
if not of(kept, ARGV[6]) or kept == ARGV[6] .. ' ' then return 0 end
redis.call('HSET', KEYS[1], ARGV[5], ARGV[7] .. string.sub(kept, #ARGV[6] + 1))
return 1`),

		// KEYS: q. ARGV: key, replica.
		settle: redisdb.NewScript(sparing + lua + `
if of(redis.call('HGET', KEYS[1], ARGV[5]), ARGV[6]) then
  redis.call('HSET', KEYS[1], ARGV[5], ARGV[6] .. ' ')
end
return 1`),
	}
}

// Ask keeps a question that waits at this replica; one too many it does not keep.
func (b *RedisBindings) Ask(ctx context.Context, at Place, key, value string) error {
	_, err := b.run(ctx, b.questions.ask, "q", at, nil, key, b.s.self, value, maxKeptQuestions, b.ttl(at))
	return err
}

// Answered forgets a question of this replica, and reports whether this replica is to answer
// it: not if another one has inherited it.
func (b *RedisBindings) Answered(ctx context.Context, at Place, key string) (ours bool, err error) {
	got, err := b.run(ctx, b.questions.answered, "q", at, nil, key, b.s.self)
	return got == int64(1), err
}

// Asked returns the questions that wait at other replicas.
func (b *RedisBindings) Asked(ctx context.Context, at Place) (all []Question, err error) {
	got, err := b.run(ctx, b.questions.asked, "q", at, nil)
	if err != nil {
		return nil, err
	}
	pairs, _ := got.([]any)
	for i := 0; i+1 < len(pairs); i += 2 {
		key, _ := pairs[i].(string)
		kept, _ := pairs[i+1].(string)
		replica, value, _ := strings.Cut(kept, " ")
		if value != "" && replica != b.s.self {
			all = append(all, Question{key, replica, value})
		}
	}
	return all, nil
}

// Inherit makes a question of a replica that has gone this replica's, and reports whether it
// is: of several that try, one does. Who has answered it Settles it.
func (b *RedisBindings) Inherit(ctx context.Context, at Place, q Question) (ours bool, err error) {
	got, err := b.run(ctx, b.questions.inherit, "q", at, nil, q.Key, q.Replica, b.s.self)
	return got == int64(1), err
}

// Settle says that a question that was inherited has its answer.
func (b *RedisBindings) Settle(ctx context.Context, at Place, key string) error {
	_, err := b.run(ctx, b.questions.settle, "q", at, nil, key, b.s.self)
	return err
}
