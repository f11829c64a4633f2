package gateway

import (
	"log/slog"

	"github.com/gatehouse-mcp/gatehouse/gateway/observe"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// pipeline is the way of every call from the front to the catalog, the outermost
// first: a stage feels what stands below it and must not care what stands above.
func pipeline(last mcp.Handler, log *slog.Logger) mcp.Handler {
	return mcp.Chain(last,
		observe.Middleware(log),
	)
}
