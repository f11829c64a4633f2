package gateway

import (
	"context"
	"errors"

	"github.com/gatehouse-mcp/gatehouse/gateway/feature/disclosure"
	"github.com/gatehouse-mcp/gatehouse/internal/cluster"
	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
	"github.com/gatehouse-mcp/gatehouse/policy"
	"github.com/gatehouse-mcp/gatehouse/session"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// common is what replicas of the gateway have in common. Where there is but one, it is
// in its memory, and keys are its own.
type common struct {
	sessions session.Store
	cluster  *cluster.Cluster
	redis    *redisdb.DB // nil for none
	secret   []byte      // of sealing keys, nil for random ones
	accepted [][]byte    // secrets of keys that open, too

	// Of policy; nil for the memory of this process.
	approvals, rounds policy.Approvals
	buckets           policy.Buckets

	grants grants // nil for the memory of this process

	kept      upstream.Keeper             // of sessions at upstreams; nil for the memory of this process
	recordKey func(session string) string // of a session, in Redis; nil for none
	drop      func(session string)        // forgets a session that another replica owns
	known     func() int                  // how many sessions this process knows; nil for none
	room      func(context.Context) error // why no session can begin; nil for the memory of this process
	metrics   *metrics                    // nil for none yet
}

// grants are which definitions of tools were shown, and end with their sessions.
type grants interface {
	disclosure.Grants
	End(session string)
}

// newCommon makes it as sessions.store says.
func (g *Gateway) newCommon(cfg Config, metrics *metrics) (*common, error) {
	c := &common{metrics: metrics, drop: func(string) {}}
	c.secret, c.accepted = cfg.Sessions.Secrets()
	deps := session.Deps{Log: g.log, OnEnd: g.endSession, Metrics: metrics.sessions, Redis: metrics.redis}
	if cfg.Sessions.Store != session.StoreRedis {
		memory, err := session.NewMemory(cfg.Sessions, deps)
		if err != nil {
			return nil, err
		}
		c.sessions, c.known, c.cluster = memory, memory.Known, cluster.Alone()
		return c, nil
	}
	deps.Fence = func(key string) (string, string) { return c.cluster.Fence(key) } // nothing is written before it is there
	redis, err := session.NewRedis(cfg.Sessions, deps)
	if err != nil {
		return nil, err
	}
	c.sessions, c.grants, c.kept, c.drop = redis, redis.Grants(), redis.Kept(), redis.Drop
	c.known, c.room, c.redis, c.recordKey = redis.Known, redis.Room, redis.DB(), redis.RecordKey
	c.cluster, err = cluster.New(cfg.Replicas, cluster.Deps{
		DB: c.redis, Key: c.secret, Accepted: c.accepted, Idle: cfg.Sessions.Kept(), Revision: g.reloaded.Revision,
		OnLost: g.dropSession, InUse: func(key string) bool { return g.front.InUse(key) }, Log: g.log, Metrics: metrics.cluster,
	})
	if err != nil {
		return nil, errors.Join(err, redis.Close())
	}
	approvals, err := c.key("approval")
	if err != nil {
		return nil, errors.Join(err, redis.Close())
	}
	c.approvals = policy.NewRedisApprovals(redis.DB(), approvals, "approvals")
	c.rounds = policy.NewRedisApprovals(redis.DB(), approvals, "rounds")
	c.buckets = policy.NewRedisBuckets(redis.DB())
	return c, nil
}

// key is the sealing key of a purpose.
func (c *common) key(purpose string) (*seal.Key, error) {
	if c.secret == nil {
		return seal.NewRandom(purpose)
	}
	return seal.NewKey(c.secret, purpose, c.accepted...)
}
