package gateway

import (
	"errors"

	"github.com/gatehouse-mcp/gatehouse/gateway/feature/disclosure"
	"github.com/gatehouse-mcp/gatehouse/gateway/feature/results"
	"github.com/gatehouse-mcp/gatehouse/internal/cluster"
	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
	"github.com/gatehouse-mcp/gatehouse/policy"
	"github.com/gatehouse-mcp/gatehouse/policy/foureyes"
	"github.com/gatehouse-mcp/gatehouse/session"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// stores are what replicas of the gateway share. A gateway alone has them in its memory, with
// its own keys.
type stores struct {
	sessions session.Store
	cluster  *cluster.Cluster
	redis    *redisdb.DB // nil for none
	secret   []byte      // of sealing keys, nil for random ones
	accepted [][]byte    // secrets of keys that only open

	// For policy; nil for the memory of this process.
	approvals, rounds policy.Approvals
	buckets           policy.Buckets
	fourEyes          *foureyes.Shared

	grants  grants        // nil for the memory of this process
	results results.Store // likewise

	kept      upstream.Keeper             // for sessions at upstreams; nil for the memory of this process
	recordKey func(session string) string // the key of a session's record in Redis; nil for none
	drop      func(session string)        // forgets a session that another replica owns
	known     func() int                  // how many sessions this process knows; nil for none
	list      func() []session.Listed     // which these are; likewise
	metrics   *metrics                    // nil for none
}

// grants record which tool definitions were shown. They end with their sessions.
type grants interface {
	disclosure.Grants
	End(session string)
}

// newStores opens the stores as sessions.store says.
func (g *Gateway) newStores(cfg Config, metrics *metrics) (*stores, error) {
	s := &stores{metrics: metrics, drop: func(string) {}}
	s.secret, s.accepted = cfg.Sessions.Secrets()
	deps := session.Deps{Log: g.log, OnEnd: g.endSession, Metrics: metrics.sessions, Redis: metrics.redis}
	if cfg.Sessions.Store != session.StoreRedis {
		memory, err := session.NewMemory(cfg.Sessions, deps)
		if err != nil {
			return nil, err
		}
		s.sessions, s.results, s.known, s.list, s.cluster = memory, memory.Results(), memory.Known, memory.List, cluster.Alone()
		return s, nil
	}
	deps.Fence = func(key string) (string, string) { return s.cluster.Fence(key) } // nothing is written before the cluster is there
	deps.Moved = func(key, token string) { s.cluster.Doubt(key, token) }
	redis, err := session.NewRedis(cfg.Sessions, deps)
	if err != nil {
		return nil, err
	}
	s.sessions, s.grants, s.results, s.kept, s.drop = redis, redis.Grants(), redis.Results(), redis.Kept(), redis.Drop
	s.known, s.list, s.redis, s.recordKey = redis.Known, redis.List, redis.DB(), redis.RecordKey
	s.cluster, err = cluster.New(cfg.Replicas, cluster.Deps{
		DB: s.redis, Key: s.secret, Accepted: s.accepted, Idle: cfg.Sessions.Kept(), Revision: g.reloaded.Revision,
		OnLost: g.dropSession, InUse: func(key string) bool { return g.front.InUse(key) }, Asked: asked(g), Log: g.log, Metrics: metrics.cluster,
	})
	if err != nil {
		return nil, errors.Join(err, redis.Close())
	}
	approvals, err := s.key("approval")
	if err != nil {
		return nil, errors.Join(err, redis.Close())
	}
	s.approvals = policy.NewRedisApprovals(redis.DB(), approvals, "approvals")
	s.rounds = policy.NewRedisApprovals(redis.DB(), approvals, "rounds")
	s.buckets = policy.NewRedisBuckets(redis.DB())
	waiting, err := s.key("four eyes")
	if err != nil {
		return nil, errors.Join(err, redis.Close())
	}
	s.fourEyes = foureyes.NewShared(redis.DB(), waiting)
	return s, nil
}

// key returns the sealing key for a purpose.
func (s *stores) key(purpose string) (*seal.Key, error) {
	if s.secret == nil {
		return seal.NewRandom(purpose)
	}
	return seal.NewKey(s.secret, purpose, s.accepted...)
}
