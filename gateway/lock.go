package gateway

import (
	"context"
	"log/slog"

	"github.com/gatehouse-mcp/gatehouse/gateway/catalog"
	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/gateway/pinning/review"
)

// ReviewLock connects to the pinned upstreams of a valid configuration, or to all if none is pinned. It
// waits until each has answered or failed, or ctx ends. It writes nothing.
func ReviewLock(ctx context.Context, cfg config.Config, version string, log *slog.Logger) (*review.Review, error) {
	r, err := review.Open(cfg)
	if err != nil {
		return nil, err
	}
	r.Drop(cfg)
	err = inspect(ctx, review.Pinned(cfg), version, log, r.Collect, func(g *graph) error {
		for _, report := range g.reports() {
			problem := report.Error
			if report.State == string(catalog.StatePerUser) {
				problem = "each user sees lists of their own, which only a gateway that runs can report: gatehouse lock --running"
			}
			r.Compare(report.Name, problem)
		}
		return nil
	})
	return r, err
}
