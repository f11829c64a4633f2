package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/gateway/front"
	"github.com/gatehouse-mcp/gatehouse/gateway/observe"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// Limits of the HTTP server. Streams live as long as their clients, and calls take
// what they take: the front sets its own deadlines before it reads a body and before it
// writes. For all others it is these, or a client that neither sends nor reads would
// hold its connection, and a stop would wait for it.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 15 * time.Second
	writeTimeout      = time.Minute // from the head of the request on
	idleTimeout       = 60 * time.Second
	maxHeaderBytes    = 32 << 10
)

// Gateway is a gateway that is bound to its port. Make one with New; Run it, or
// Start and Stop it.
type Gateway struct {
	cfg      Config
	log      *slog.Logger
	undo     *lifecycle
	auth     *auth.Auth
	graph    *graph
	front    *front.Front
	listener net.Listener
	server   *http.Server
	failed   chan error // takes why the server stopped by itself
}

// New reads and checks the configuration, builds everything and binds the port. It
// connects to nothing yet, and what it made it takes down again when it fails. The
// error of a bad configuration is a *ConfigError.
func New(opts Options) (*Gateway, error) {
	cfg, warnings, err := opts.load()
	if err != nil {
		return nil, err
	}
	g := &Gateway{cfg: cfg, undo: &lifecycle{}, failed: make(chan error, 1)}
	if err := g.openLog(opts.Log); err != nil {
		return nil, err
	}
	for _, w := range warnings {
		g.log.Warn("configuration", "warning", w.String())
	}
	if err := g.build(opts); err != nil {
		ctx, cancel := context.WithTimeout(context.Background(), stepGrace)
		defer cancel()
		return nil, errors.Join(err, g.undo.stop(ctx))
	}
	return g, nil
}

func (opts Options) load() (Config, []Problem, error) {
	if opts.ConfigFile != "" {
		cfg, warnings, err := LoadConfig(opts.ConfigFile)
		return cfg.withDefaults(), warnings, err
	}
	if err := opts.Config.Validate(); err != nil {
		var problems []Problem
		for _, text := range leaves(err) {
			problems = append(problems, Problem{Message: text})
		}
		return Config{}, nil, &ConfigError{problems}
	}
	return opts.Config.withDefaults(), nil, nil
}

func (g *Gateway) openLog(log *slog.Logger) error {
	g.log = log
	if log == nil {
		opened, closeLog, err := observe.NewLogger(os.Stderr, g.cfg.Telemetry.Log)
		if err != nil {
			return err
		}
		g.log = opened
		g.undo.onStop("log", func(context.Context) error { closeLog(); return nil })
	}
	g.undo.log = g.log
	return nil
}

func (g *Gateway) build(opts Options) error {
	var err error
	version := cmp.Or(opts.Version, "dev")
	if g.auth, err = auth.New(g.cfg.Auth, auth.Deps{PublicURL: g.cfg.PublicURL, Log: g.log}); err != nil {
		return err
	}
	if g.graph, err = newGraph(g.cfg, version, g.tell, g.log); err != nil {
		return err
	}
	g.undo.onStop("upstreams", g.graph.close)

	sessions, err := session.NewMemory(g.cfg.Sessions, session.Deps{Log: g.log, OnEnd: g.endSession})
	if err != nil {
		return err
	}
	g.undo.onStop("sessions", func(context.Context) error { return sessions.Close() })

	if g.listener = opts.Listener; g.listener == nil {
		if g.listener, err = net.Listen("tcp", g.cfg.Listen); err != nil {
			return err // net names the address
		}
	}
	g.undo.onStop("listener", func(context.Context) error {
		if err := g.listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			return err
		}
		return nil // the server closes it first
	})

	key, err := seal.NewRandom("request state")
	if err != nil {
		return err
	}
	accepted := g.cfg.HTTP
	accepted.AllowedHosts = g.cfg.hosts()
	g.front, err = front.New(accepted, front.Deps{
		Handler:  g.graph.handler,
		Sessions: sessions,
		Seal:     key,
		Log:      g.log,
		Server:   front.ServerInfo{Name: "gatehouse", Title: "Gatehouse", Version: version},

		RootsChanged: g.rootsChanged,
	})
	return err
}

// endSession closes all that is kept for a client's session. There is none before
// the front begins one.
func (g *Gateway) endSession(key string) {
	g.front.EndSession(key)
	for _, u := range g.graph.upstreams {
		u.EndSession(key)
	}
}

// tell gives a client's session what an upstream says to it. There is none before the
// front begins one.
func (g *Gateway) tell(session string, e mcp.Event) { g.front.Tell(session, e) }

// rootsChanged tells the upstreams that a session's client has other roots.
func (g *Gateway) rootsChanged(key string) {
	for _, u := range g.graph.upstreams {
		u.RootsChanged(key)
	}
}

// Start begins to serve and to connect to the upstreams, and returns at once.
func (g *Gateway) Start() {
	g.undo.onStop("catalog", g.graph.watch())
	g.undo.onStop("auth", run(g.auth.Run))

	base, cancel := context.WithCancel(context.Background())
	g.server = newServer(routes(g.cfg.path(), g.front.Behind, g.auth, g.log), g.log)
	g.server.BaseContext = func(net.Listener) context.Context { return base }
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := g.server.Serve(g.listener); !errors.Is(err, http.ErrServerClosed) {
			g.failed <- fmt.Errorf("serving: %w", err)
		}
	}()
	g.undo.onStop("http server", func(ctx context.Context) error {
		defer cancel()
		err := g.server.Shutdown(ctx)
		if err != nil {
			cancel()
			err = fmt.Errorf("calls were cut off: %w", errors.Join(err, g.server.Close()))
		}
		<-served
		return err
	})
	g.undo.onStop("front", g.front.Close)
	g.log.Info("serving", "url", g.URL(), "address", g.Addr().String(), "upstreams", len(g.graph.upstreams))
}

func newServer(handler http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
}

// Stop ends everything in the reverse order of its start: streams end, running
// calls get until ctx ends, then connections, watches, sessions and upstreams are
// closed and their processes told. A second Stop finds nothing to do.
func (g *Gateway) Stop(ctx context.Context) error {
	return g.undo.stop(ctx)
}

// Run serves until ctx ends or serving fails, and then stops within the
// configuration's shutdown_timeout.
func (g *Gateway) Run(ctx context.Context) error {
	g.Start()
	var failure error
	select {
	case <-ctx.Done():
		g.log.Info("stopping", "timeout", g.cfg.ShutdownTimeout.String())
	case failure = <-g.failed:
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.cfg.ShutdownTimeout)
	defer cancel()
	return errors.Join(failure, g.Stop(bounded))
}

// Addr is the address that the gateway is bound to.
func (g *Gateway) Addr() net.Addr { return g.listener.Addr() }

// URL is the endpoint as clients on this machine write it.
func (g *Gateway) URL() string { return "http://" + g.Addr().String() + g.cfg.path() }

// WaitReady returns when every upstream has answered or failed for the first time,
// or with ctx's error.
func (g *Gateway) WaitReady(ctx context.Context) error {
	g.graph.catalog.WaitFirst(ctx)
	return ctx.Err()
}
