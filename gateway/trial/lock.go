package trial

import (
	"context"

	"github.com/gatehouse-mcp/gatehouse/gateway/catalog"
	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/gateway/pinning/review"
)

// Lock connects to the pinned upstreams of a valid configuration, or to all if none is pinned, and
// compares what they define with the lock. It writes nothing.
func Lock(ctx context.Context, inspect Inspect, cfg config.Config) (*review.Review, error) {
	r, err := review.Open(cfg)
	if err != nil {
		return nil, err
	}
	r.Drop(cfg)
	err = inspect(ctx, review.Pinned(cfg), r.Collect, func(s Seen) error {
		for _, report := range s.reports() {
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
