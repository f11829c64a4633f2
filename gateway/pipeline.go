package gateway

import (
	"log/slog"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/gateway/catalog"
	"github.com/gatehouse-mcp/gatehouse/gateway/observe"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/policy"
)

// pipeline is the way of every call from the front to the catalog, the outermost
// first: a stage feels what stands below it and must not care what stands above. The
// guard stands directly above the catalog, so that nothing gets around it.
func pipeline(cfg Config, last *catalog.Catalog, log *slog.Logger) (mcp.Handler, error) {
	rules, err := policy.New(cfg.rules())
	if err != nil {
		return nil, err
	}
	guard, err := policy.NewGuard(rules, policy.GuardDeps{Resolver: last})
	if err != nil {
		return nil, err
	}
	limiter, err := policy.NewLimiter(cfg.Limits, policy.LimiterDeps{Policy: rules, Resolver: last})
	if err != nil {
		return nil, err
	}
	return mcp.Chain(last,
		observe.Middleware(log),
		limiter.Middleware,
		guard.Middleware,
	), nil
}

// rules is the policy that holds: without authentication, and without one, everything
// is allowed to whoever reaches the loopback listener.
func (c Config) rules() policy.Config {
	if c.Policy.IsZero() && c.Auth.Mode != auth.ModeOAuth {
		return policy.Config{Default: policy.DefaultAllow}
	}
	return c.Policy
}
