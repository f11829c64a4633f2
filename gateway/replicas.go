package gateway

import (
	"context"
	"errors"

	"github.com/gatehouse-mcp/gatehouse/gateway/feature/disclosure"
	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
	"github.com/gatehouse-mcp/gatehouse/policy"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// common is what replicas of the gateway have in common. Where there is but one, it is
// in its memory, and keys are its own.
type common struct {
	sessions session.Store
	mail     session.Mailbox // nil for one gateway alone
	redis    *redisdb.DB     // nil for none
	secret   []byte          // of sealing keys, nil for random ones
	accepted [][]byte        // secrets of keys that open, too

	// Of policy; nil for the memory of this process.
	approvals, rounds policy.Approvals
	buckets           policy.Buckets

	grants grants // nil for the memory of this process

	upsessions *upsessions                 // nil for one gateway alone
	known      func() int                  // how many sessions this process knows; nil for none
	room       func(context.Context) error // why no session can begin; nil for the memory of this process
	metrics    *metrics                    // nil for none yet
}

// grants are which definitions of tools were shown, and end with their sessions.
type grants interface {
	disclosure.Grants
	End(session string)
}

// newCommon makes it as sessions.store says.
func newCommon(cfg session.Config, deps session.Deps, metrics *metrics) (*common, error) {
	c := &common{metrics: metrics}
	deps.Metrics, deps.Redis = metrics.sessions, metrics.redis
	c.secret, c.accepted = cfg.Secrets()
	if cfg.Store != session.StoreRedis {
		memory, err := session.NewMemory(cfg, deps)
		if err != nil {
			return nil, err
		}
		c.sessions, c.known = memory, memory.Known
		return c, nil
	}
	redis, err := session.NewRedis(cfg, deps)
	if err != nil {
		return nil, err
	}
	c.sessions, c.mail, c.grants = redis, redis, redis.Grants()
	c.known, c.room, c.redis = redis.Known, redis.Room, redis.DB()
	approvals, err := c.key("approval")
	if err != nil {
		return nil, errors.Join(err, redis.Close())
	}
	c.approvals = policy.NewRedisApprovals(redis.DB(), approvals, "approvals")
	c.rounds = policy.NewRedisApprovals(redis.DB(), approvals, "rounds")
	c.buckets = policy.NewRedisBuckets(redis.DB())
	bound, err := c.key("upstream session")
	if err != nil {
		return nil, errors.Join(err, redis.Close())
	}
	c.upsessions = &upsessions{redis.Bindings(), redis, bound}
	return c, nil
}

// key is the sealing key of a purpose.
func (c *common) key(purpose string) (*seal.Key, error) {
	if c.secret == nil {
		return seal.NewRandom(purpose)
	}
	return seal.NewKey(c.secret, purpose, c.accepted...)
}
