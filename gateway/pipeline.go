package gateway

import (
	"fmt"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/catalog"
	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/gateway/feature/disclosure"
	"github.com/gatehouse-mcp/gatehouse/gateway/feature/listchange"
	"github.com/gatehouse-mcp/gatehouse/gateway/feature/loadskill"
	"github.com/gatehouse-mcp/gatehouse/gateway/feature/results"
	"github.com/gatehouse-mcp/gatehouse/gateway/feature/skills"
	"github.com/gatehouse-mcp/gatehouse/gateway/handover"
	"github.com/gatehouse-mcp/gatehouse/gateway/hooks"
	"github.com/gatehouse-mcp/gatehouse/gateway/observe"
	"github.com/gatehouse-mcp/gatehouse/internal/largeresults"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/policy"
)

// stages holds the pipeline of calls, and those of its stages that others ask, too.
type stages struct {
	pipe       handover.Pipeline
	rules      *policy.Policy
	guard      *policy.Guard
	described  *disclosure.Disclosure
	guardrails *hooks.Hooks
}

// pipeline is the path of every call from the front to the catalog, the outermost stage first. A
// stage depends on those below it and must not depend on those above. Below the guard there are
// only hooks, which see what the guard lets pass, and what asks users to sign in at servers, which
// makes the same call again: so no call gets around either.
func pipeline(cfg config.Config, last *catalog.Catalog, with *shared) (p stages, err error) {
	p.rules, err = policy.New(cfg.Rules(), config.ViewRules(cfg)...)
	if err != nil {
		return p, err
	}
	guard, err := policy.NewGuard(p.rules, policy.GuardDeps{Approvals: with.approvals, FourEyes: with.waiting,
		Lasting: with.lasting, Metrics: with.metrics.Policy})
	if err != nil {
		return p, err
	}
	limiter, err := policy.NewLimiter(cfg.Limits,
		policy.LimiterDeps{Policy: p.rules, Buckets: with.buckets, Rounds: with.rounds, Metrics: with.metrics.Policy})
	if err != nil {
		return p, err
	}
	guardrails, err := hooks.New(cfg.Hooks, hooks.Deps{Holds: guard.Holds, Log: with.log, Tracer: with.tracer,
		Metrics: with.metrics.Hooks})
	if err != nil {
		return p, err
	}
	p.described, err = describe(cfg, with)
	if err != nil {
		return p, err
	}
	p.guard, p.guardrails = guard, guardrails
	p.pipe.Lists = mcp.Chain(last,
		loadskill.Middleware(cfg.Skills, with.log),
		mcp.Through(last.For),
		p.described.Middleware, // what it refuses was not called, and is not counted
		shortened(cfg, p.rules, with),
		listchange.Middleware(guard.SeesAll),
		skills.Middleware(guard),
		observe.Step("limits"),
		limiter.Middleware,
		observe.Step("policy"),
		guard.Middleware,
		guardrails.Middleware,
		asksSignIn(with.accounts, cfg.Upstreams), // in place of servers that cannot ask
	)
	p.pipe.Handler = with.metrics.Calls.Running(p.pipe.Lists)
	return p, nil
}

// shortened makes the stage that shortens large results of tools.
func shortened(cfg config.Config, rules *policy.Policy, with *shared) mcp.Middleware {
	deps := results.Deps{
		Store: with.results, Visible: rules.Visible, Name: with.tasks.Name,
		Log: with.log, Metrics: with.metrics.Results,
	}
	of := make(map[string]largeresults.Settings)
	for _, u := range cfg.Upstreams {
		of[u.Name] = u.Results
		if least := u.Results.Least(); config.Enabled(u) && least > 0 && (deps.Least == 0 || least < deps.Least) {
			deps.Least = least
		}
	}
	deps.Of = func(tool mcp.Target) (int64, time.Duration) { return of[tool.Upstream].Of(tool.Name) }
	return results.Middleware(deps)
}

// describe makes the stage that describes tools.
func describe(cfg config.Config, with *shared) (*disclosure.Disclosure, error) {
	deps := disclosure.Deps{Grants: with.grants, Log: with.log, Metrics: with.metrics.Disclosure,
		Upstreams: make(map[string]disclosure.Upstream)}
	for _, u := range cfg.Upstreams {
		deps.Upstreams[u.Name] = disclosure.Upstream{Mode: u.Disclosure.Mode, Summaries: u.Disclosure.Summaries}
	}
	var sets []policy.Who
	for _, client := range cfg.Disclosure.Clients {
		sets = append(sets, client.Who)
		deps.Clients = append(deps.Clients, client.Mode)
	}
	audiences, err := policy.NewAudiences(sets)
	if err != nil {
		return nil, fmt.Errorf("disclosure: clients: %w", err)
	}
	ofView := make(map[string]int)
	for _, v := range cfg.Views {
		if v.Disclosure.Mode != "" {
			ofView[v.Name] = len(deps.Clients)
			deps.Clients = append(deps.Clients, v.Disclosure.Mode)
		}
	}
	deps.Whose = func(caller *mcp.Caller) int {
		if i, ok := ofView[caller.View]; ok {
			return i
		}
		return audiences.First(caller)
	}
	return disclosure.New(cfg.Disclosure.Config, deps)
}
