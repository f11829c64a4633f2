package gateway

import (
	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/gateway/catalog"
	"github.com/gatehouse-mcp/gatehouse/gateway/feature/listchange"
	"github.com/gatehouse-mcp/gatehouse/gateway/feature/loadskill"
	"github.com/gatehouse-mcp/gatehouse/gateway/feature/skills"
	"github.com/gatehouse-mcp/gatehouse/gateway/observe"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/policy"
)

// pipeline is the way of every call from the front to the catalog, the outermost
// first: a stage feels what stands below it and must not care what stands above. The
// guard stands directly above the catalog, so that nothing gets around it. quiet is the
// same for what the gateway looks at by itself, of which nothing is observed.
func pipeline(cfg Config, last *catalog.Catalog, with services) (handler, quiet mcp.Handler, err error) {
	rules, err := policy.New(cfg.rules())
	if err != nil {
		return nil, nil, err
	}
	guard, err := policy.NewGuard(rules, policy.GuardDeps{Resolver: last, Approvals: with.approvals, Metrics: with.metrics.policy})
	if err != nil {
		return nil, nil, err
	}
	limiter, err := policy.NewLimiter(cfg.Limits, policy.LimiterDeps{Policy: rules, Resolver: last, Buckets: with.buckets, Rounds: with.rounds, Metrics: with.metrics.policy})
	if err != nil {
		return nil, nil, err
	}
	described, err := cfg.disclosure(last, with)
	if err != nil {
		return nil, nil, err
	}
	quiet = mcp.Chain(last,
		loadskill.Middleware(cfg.Skills, with.log),
		described.Middleware, // what it refuses has not been called, and is not counted
		listchange.Middleware(guard),
		skills.Middleware(guard),
		limiter.Middleware,
		guard.Middleware,
	)
	return observe.Middleware(with.log, with.metrics.calls)(quiet), quiet, nil
}

// rules is the policy that holds: without authentication, and without one, everything
// is allowed to whoever reaches the loopback listener.
func (c Config) rules() policy.Config {
	if c.Policy.IsZero() && c.Auth.Mode != auth.ModeOAuth {
		return policy.Config{Default: policy.DefaultAllow}
	}
	return c.Policy
}
