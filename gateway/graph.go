package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/gatehouse-mcp/gatehouse/auth/outbound"
	"github.com/gatehouse-mcp/gatehouse/gateway/catalog"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// graph is what the configuration shapes: the upstreams, the catalog over them and
// the pipeline above it. Making one does no I/O.
type graph struct {
	upstreams []*upstream.Upstream
	catalog   *catalog.Catalog
	handler   mcp.Handler
	transport *upstream.HTTPTransport

	credentials []*outbound.Credentials // of the upstreams
}

// newGraph makes a graph. tell takes what upstreams say to a client's session and to no
// call of it; nil drops it.
func newGraph(cfg Config, version string, tell func(session string, e mcp.Event), log *slog.Logger) (*graph, error) {
	g := &graph{transport: upstream.NewTransport(cfg.Upstreams...)}
	var sources []catalog.Source
	for _, c := range cfg.Upstreams {
		if !enabled(c) {
			continue
		}
		credentials, err := outbound.New(c.Auth, outbound.Deps{Log: log, Upstream: c.Name, URL: c.URL})
		if err != nil {
			return nil, err
		}
		g.credentials = append(g.credentials, credentials)
		u, err := upstream.New(c, upstream.Deps{
			Log:         log,
			HTTP:        g.transport,
			Credentials: credentials,
			Client:      upstream.ClientInfo{Name: "gatehouse", Version: version},
			Tell:        tell,
		})
		if err != nil {
			return nil, err
		}
		g.upstreams = append(g.upstreams, u)
		sources = append(sources, catalog.Source{Upstream: u, Prefix: c.Prefix, PerUser: u.PerUser()})
	}
	cursors, err := seal.NewRandom("catalog cursor")
	if err != nil {
		return nil, err
	}
	tasks, err := seal.NewRandom("task id")
	if err != nil {
		return nil, err
	}
	g.catalog, err = catalog.New(cfg.Naming, sources, catalog.Deps{Log: log, Seal: cursors, Tasks: tasks})
	if err != nil {
		return nil, err
	}
	if g.handler, err = pipeline(cfg, g.catalog, log); err != nil {
		return nil, err
	}
	return g, nil
}

// watch runs the catalog's watches and returns what ends them and waits.
func (g *graph) watch() (stop func(context.Context) error) { return run(g.catalog.Run) }

// close ends all upstreams at the same time, their processes too.
func (g *graph) close(ctx context.Context) error {
	errs := make([]error, len(g.upstreams))
	var all sync.WaitGroup
	for i, u := range g.upstreams {
		all.Go(func() {
			if err := u.Close(ctx); err != nil {
				errs[i] = fmt.Errorf("upstream %s: %w", u.Name(), err)
			}
		})
	}
	all.Wait()
	for _, c := range g.credentials {
		c.Close()
	}
	g.transport.CloseIdleConnections()
	return errors.Join(errs...)
}
