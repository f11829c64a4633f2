package gateway

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/catalog"
)

// UpstreamReport is what was found when connecting to one upstream.
type UpstreamReport struct {
	Name  string
	State string // "up", "failing", "down", "connecting" or "per user"
	// Revision is the protocol revision, Server the name and version that the server
	// gives itself; "" when it did not answer.
	Revision string
	Server   string
	// How many of each are offered.
	Tools, Prompts, Resources, Templates int
	// Withheld are those that are not offered, and why.
	Withheld []Withheld
	// Error is why the upstream cannot be used, "" when it can.
	Error string
}

// Withheld is a thing that an upstream has and clients are not shown.
type Withheld struct {
	Kind   string // "tools", "prompts", "resources", "resource templates"
	Name   string // as the upstream has it
	Reason string
}

// Connect connects to all enabled upstreams of a configuration, waits until each has
// answered or failed, at most until ctx ends, and closes everything again. Nothing
// is served.
func Connect(ctx context.Context, cfg Config, version string, log *slog.Logger) (reports []UpstreamReport, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	g, err := newGraph(cfg.withDefaults(), version, nil, log)
	if err != nil {
		return nil, err
	}
	stop := g.watch()
	g.catalog.WaitFirst(ctx) // who has not answered by then is reported as such
	reports = g.reports()
	g.warnIdle(ctx, cfg, log)

	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return reports, errors.Join(stop(closing), g.close(closing))
}

// reports puts together what the catalog and the upstreams know.
func (g *graph) reports() []UpstreamReport {
	views := g.catalog.Status()
	reports := make([]UpstreamReport, len(views))
	for i, view := range views { // in the order of the upstreams
		status := g.upstreams[i].Status()
		r := UpstreamReport{
			Name:      view.Name,
			State:     string(view.State),
			Revision:  status.Revision,
			Server:    strings.TrimSpace(status.ServerName + " " + status.ServerVersion),
			Tools:     view.Tools,
			Prompts:   view.Prompts,
			Resources: view.Resources,
			Templates: view.ResourceTemplates,
			Error:     view.LastError,
		}
		if view.State == catalog.StateConnecting {
			r.Error = "no answer in time"
		}
		for _, w := range view.Withheld {
			r.Withheld = append(r.Withheld, Withheld{Kind: w.List, Name: w.Name, Reason: w.Reason})
		}
		for _, name := range slices.Sorted(maps.Keys(status.DroppedTools)) {
			r.Withheld = append(r.Withheld, Withheld{Kind: "tools", Name: name, Reason: status.DroppedTools[name]})
		}
		reports[i] = r
	}
	return reports
}
