package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/gateway/catalog"
	"github.com/gatehouse-mcp/gatehouse/gateway/feature/disclosure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/policy"
)

// TokenReport estimates how much of a model's context the tools of one upstream take.
type TokenReport struct {
	Name  string
	Tools int
	// Full and Short are the estimated tokens of their descriptions, in full and in short: see
	// tokens.
	Full, Short int
	// Problem is why the numbers are unknown, "" if they are known.
	Problem string
}

// tokenBytes is how many bytes count as a token. Models differ, and so do texts; schemas have
// between three and five bytes for each token.
const tokenBytes = 4

// Tokens connects to all enabled upstreams, as Connect does. It reports what their tools take
// in each mode of disclosure, whichever mode is configured, and what the gateway's own tool
// takes in mode progressive. If a view is named, only its tools count, as it shows them.
func Tokens(ctx context.Context, cfg Config, view, version string, log *slog.Logger) (reports []TokenReport, own int, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, 0, err
	}
	if view != "" {
		if _, err := viewNamed(cfg, view); err != nil {
			return nil, 0, err
		}
	}
	err = inspect(ctx, cfg.open(), version, log, func(g *graph) error {
		reports, err = g.tokens(ctx, view)
		return err
	})
	return reports, tokens(disclosure.OwnTool()), err
}

// open returns the configuration for a caller who may see everything, and sees it in full.
func (c Config) open() Config {
	c.Auth, c.Policy, c.Limits = auth.Config{}, policy.Config{Default: policy.DefaultAllow}, nil
	c.Disclosure.Mode, c.Disclosure.Clients = disclosure.ModeFull, nil
	c.Upstreams = slices.Clone(c.Upstreams)
	for i := range c.Upstreams {
		c.Upstreams[i].Disclosure.Mode = ""
	}
	c.Views = slices.Clone(c.Views)
	for i := range c.Views {
		c.Views[i].Who, c.Views[i].Disclosure.Mode = policy.Who{}, ""
	}
	return c
}

func (g *graph) tokens(ctx context.Context, view string) ([]TokenReport, error) {
	reports := make([]TokenReport, len(g.members))
	places := make(map[string]int)
	for i, view := range g.catalog.Status() { // in the order of the upstreams
		places[view.Name] = i
		reports[i].Name = view.Name
		switch {
		case view.State == catalog.StatePerUser:
			reports[i].Problem = "has tools for each user, and is asked for none"
		case view.State == catalog.StateConnecting:
			reports[i].Problem = late(g.members[i].cfg)
		case view.State != catalog.StateUp:
			reports[i].Problem = view.LastError
		}
	}
	tools, err := g.described.Tools(ctx, mcp.Caller{View: view}, g.way.Lists)
	if err != nil {
		return nil, fmt.Errorf("listing the tools: %w", err)
	}
	for _, tool := range tools {
		r := &reports[places[tool.Target.Upstream]]
		r.Tools++
		r.Full += tokens(tool)
		r.Short += tokens(g.described.Short(tool))
	}
	return reports, nil
}

// tokens estimates how many tokens a host gives a model for a tool: for its name, its
// description and its schema.
func tokens(tool mcp.Item) int {
	size := 0
	for _, name := range []string{"name", "description", "inputSchema"} {
		value, _ := tool.Raw.Member(name)
		size += len(value)
	}
	return (size + tokenBytes - 1) / tokenBytes
}
