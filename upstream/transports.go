package upstream

import (
	"maps"
	"slices"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport/dial"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport/sse"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport/stdio"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport/streamable"
)

// transports maps the names of transports in the configuration to their constructors.
var transports = map[string]func(transport.Env, Config, Deps) transport.Transport{
	transportStreamable: func(env transport.Env, cfg Config, deps Deps) transport.Transport {
		return streamable.New(env, cfg.overHTTP(deps))
	},
	transportSSE: func(env transport.Env, cfg Config, deps Deps) transport.Transport {
		return sse.New(env, cfg.overHTTP(deps))
	},
	transportStdio: func(env transport.Env, cfg Config, _ Deps) transport.Transport {
		return stdio.New(env, stdio.Config{
			Command:       cfg.Command,
			Env:           cfg.Env,
			Dir:           cfg.Dir,
			NewPrivileges: cfg.AllowNewPrivileges,
			Sandbox:       cfg.Sandbox,
			Patience:      cfg.Timeout.Call,
		})
	},
}

func transportNames() string {
	return transportAuto + ", " + strings.Join(slices.Sorted(maps.Keys(transports)), ", ")
}

func (c Config) overHTTP(deps Deps) streamable.Config {
	return streamable.Config{URL: c.URL, Headers: c.Headers, Hop: deps.Hop, HTTP: deps.HTTP, HTTPFor: deps.HTTPFor,
		Credentials: deps.Credentials}
}

// NewTransport makes the HTTP transport that sends the requests of an upstream with a URL.
// metrics counts its connections; it may be nil.
func NewTransport(metrics *Metrics, cfg Config) *dial.Transport {
	cfg = cfg.WithDefaults()
	if metrics == nil {
		metrics = NewMetrics(nil)
	}
	return dial.New(dial.Config{
		URL:      cfg.URL,
		Timeout:  cfg.Timeout.Connect,
		Idle:     cfg.Limits.Concurrent,
		Standard: cfg.HTTPClient == clientStandard,
		Route:    cfg.Route(),
	}, metrics.connections)
}
