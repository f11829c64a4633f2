package trial

import (
	"context"
	"fmt"
	"slices"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/gateway/catalog"
	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/gateway/feature/disclosure"
	"github.com/gatehouse-mcp/gatehouse/gateway/operate"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/policy"
)

// TokenReport estimates the tokens of one upstream's tools in a model's context.
type TokenReport struct {
	Name  string `json:"name"`
	Tools int    `json:"tools"`
	// Full and Short are the estimated tokens of their descriptions, in full and in short: see
	// operate.Tokens.
	Full  int `json:"full"`
	Short int `json:"short"`
	// Problem is the reason why the numbers are unknown, "" if they are known.
	Problem string `json:"problem,omitempty"`
}

// Tokens connects to all enabled upstreams, as Connect does. It reports the tokens of their tools
// in each mode of disclosure, and of the gateway's own tool in mode progressive. If a view is
// named, only its tools count, as it shows them.
func Tokens(ctx context.Context, inspect Inspect, cfg config.Config, view string) (reports []TokenReport,
	own int, err error) {
	if _, err := config.ViewNamed(cfg, view); err != nil {
		return nil, 0, err
	}
	err = inspect(ctx, open(cfg), nil, func(s Seen) error {
		reports, err = s.tokens(ctx, view)
		return err
	})
	return reports, operate.Tokens(disclosure.OwnTool()), err
}

// open returns the configuration with all tools allowed and in full.
func open(c config.Config) config.Config {
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

func (s Seen) tokens(ctx context.Context, view string) ([]TokenReport, error) {
	reports := make([]TokenReport, len(s.Servers))
	places := make(map[string]int)
	for i, server := range s.Servers {
		listed := server.Listed
		places[listed.Name] = i
		reports[i].Name = listed.Name
		switch {
		case listed.State == catalog.StatePerUser:
			reports[i].Problem = "has tools for each user, and is asked for none"
		case listed.State == catalog.StateConnecting:
			reports[i].Problem = config.Late(server.Config)
		case listed.State != catalog.StateUp:
			reports[i].Problem = listed.LastError
		}
	}
	tools, err := s.Described.Tools(ctx, mcp.Caller{View: view}, s.Lists)
	if err != nil {
		return nil, fmt.Errorf("listing the tools: %w", err)
	}
	for _, tool := range tools {
		r := &reports[places[tool.Target.Upstream]]
		r.Tools++
		r.Full += operate.Tokens(tool)
		r.Short += operate.Tokens(s.Described.Short(tool))
	}
	return reports, nil
}
