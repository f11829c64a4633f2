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
	"sync"
	"sync/atomic"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/gateway/diagnose"
	"github.com/gatehouse-mcp/gatehouse/gateway/doorway"
	"github.com/gatehouse-mcp/gatehouse/gateway/front"
	"github.com/gatehouse-mcp/gatehouse/gateway/front/exchange"
	"github.com/gatehouse-mcp/gatehouse/gateway/front/live"
	"github.com/gatehouse-mcp/gatehouse/gateway/handover"
	"github.com/gatehouse-mcp/gatehouse/gateway/lifecycle"
	"github.com/gatehouse-mcp/gatehouse/gateway/observe"
	"github.com/gatehouse-mcp/gatehouse/gateway/operate"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/strictyaml"
	"github.com/gatehouse-mcp/gatehouse/session"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// leaveTime bounds giving up a session to other replicas, and giving up all those for which
// nothing runs when the gateway begins to stop.
const leaveTime = time.Second

// Config is the whole configuration; package config owns it.
type Config = config.Config

// processesEnd is the excess over its time that the step of a stop may take to end processes, so
// that none outlives the gateway.
const processesEnd = upstream.Overtime + time.Second

// Options are the inputs of New. Only the configuration has no default.
type Options struct {
	// ConfigFile is the file that New reads; "" means Config is used.
	ConfigFile string
	// Config is the configuration if there is no file. New validates it.
	Config Config
	// Log takes all log lines. If nil, they go to standard error, as telemetry.log says.
	Log *slog.Logger
	// Admin is the listener for operators in place of admin.listen; nil to listen there.
	Admin net.Listener
	// Version is the version that the gateway tells clients and upstreams, "" for "dev".
	Version string
	// Listener replaces Config.Listen, for tests; nil for none. The gateway closes it.
	Listener net.Listener
	// AllowUnknown ignores unknown keys of the file, as config.File says.
	AllowUnknown bool
	// FitMemory fits the collector of this process to the memory of the container.
	FitMemory bool
}

// Gateway is a gateway that is bound to its port. New makes one; either call Run, or Start and
// Stop.
type Gateway struct {
	*shared
	current *current
	serving
	undo *lifecycle.List

	file      *config.File         // nil for none
	history   *admin.ConfigHistory // for operators; nil for none, or without a file
	logLevel  slog.LevelVar        // of the gateway's own log
	lookEvery time.Duration        // lookAtFile; shorter in tests
	fitMemory bool                 // the process is the gateway's alone

	reloading sync.Mutex // guards running and stopAuth; held while the graph is replaced
	running   bool
	stopAuth  func(context.Context) error
	reloaded  atomic.Pointer[operate.ConfigStatus]
}

// serving has the servers of clients and operators.
type serving struct {
	routes   atomic.Pointer[http.Handler]
	front    *front.Front
	listener *doorway.Listener
	failed   chan error  // receives the error if the server stopped by itself
	draining atomic.Bool // it takes no new sessions any more

	certificates certificates

	admin   net.Listener // nil for none
	health  *diagnose.Readiness
	console visitors
}

// New reads and validates the configuration, builds everything and binds the port. It makes no
// connections yet. If it fails, it takes down what it made. The error of a bad configuration
// is a *config.Error.
func New(opts Options) (*Gateway, error) {
	g := &Gateway{current: newCurrent(), undo: &lifecycle.List{}, lookEvery: lookAtFile}
	g.failed = make(chan error, 1)
	if opts.ConfigFile != "" {
		g.file = &config.File{Path: opts.ConfigFile, AllowUnknown: opts.AllowUnknown}
	}
	cfg, warnings, err := g.load(opts)
	if err != nil {
		return nil, err
	}
	version := cmp.Or(opts.Version, "dev")
	count := newMeters(version, cfg.Sessions.Store == session.StoreRedis)
	log, err := g.openLog(opts.Log, cfg, count)
	if err != nil {
		return nil, err
	}
	g.shared = newShared(version, log, count)
	for _, w := range warnings {
		g.log.Warn("configuration", failure.ConfigDoubtful.Attr(), "warning", w.String())
	}
	if g.fitMemory = opts.FitMemory; g.fitMemory {
		applyMemory(g.log, cfg)
	}
	if err := g.build(opts, cfg); err != nil {
		ctx, cancel := context.WithTimeout(context.Background(), lifecycle.StepGrace)
		defer cancel()
		return nil, errors.Join(err, g.undo.Stop(ctx))
	}
	return g, nil
}

func (g *Gateway) load(opts Options) (config.Config, []config.Problem, error) {
	now := time.Now()
	status := &operate.ConfigStatus{Loaded: now, Tried: now}
	g.reloaded.Store(status)
	if g.file != nil {
		l, err := g.file.Load(nil)
		status.Revision, status.Warnings, status.Refused = l.Revision, l.Doubts, l.Refused
		g.current.places.Store(&l.Places)
		g.file.Applied(l)
		if err == nil && l.Config.Admin.Operated() {
			g.history = &admin.ConfigHistory{}
			configurationOf(g).NoteRead(l, nil, nil)
		}
		return l.Config.WithDefaults(), l.Warnings, err
	}
	if err := opts.Config.Validate(); err != nil {
		return config.Config{}, nil, strictyaml.Unplaced(err)
	}
	return opts.Config.WithDefaults(), nil, nil
}

func (g *Gateway) openLog(log *slog.Logger, cfg config.Config, count *meters) (*slog.Logger, error) {
	if log == nil {
		g.logLevel.Set(cfg.Telemetry.Log.Level)
		opened, closeLog, err := observe.NewLogger(os.Stderr, cfg.Telemetry.Log, &g.logLevel, count.Log)
		if err != nil {
			return nil, err
		}
		log = opened
		g.undo.OnStop("log", func(context.Context) error { closeLog(); return nil })
	}
	g.undo.Log = log
	return log, nil
}

// applyMemory fits the process to its memory, and says so.
func applyMemory(log *slog.Logger, cfg config.Config) {
	memory := cfg.Memory()
	memory.Apply()
	log.Info("memory", "limit", memory.String())
}

func (g *Gateway) build(opts Options, cfg config.Config) error {
	if err := g.shared.open(cfg, g.ReloadStatus().Revision, g.current, g.undo); err != nil {
		return err
	}
	if err := openAccounts(g, cfg); err != nil {
		return err
	}
	first, err := newGraph(cfg, g.shared, nil)
	if err != nil {
		return err
	}
	g.current.now.Store(first)
	g.current.calls = handover.New(&first.pipe)
	return g.open(opts, cfg)
}

// open binds the ports and makes the servers there.
func (g *Gateway) open(opts Options, cfg config.Config) (err error) {
	g.health = diagnose.NewReadiness(g.redis, operated{g}.serving)
	if err := g.openTLS(cfg); err != nil {
		return err
	}
	var passed doorway.Passed
	if err := errors.Join(g.openAdmin(cfg, opts.Admin, &passed), g.serveProofs(&passed)); err != nil {
		return err
	}
	listener := opts.Listener
	if listener == nil {
		if listener, err = bindEndpoint(&passed, cfg); err != nil {
			return errors.Join(err, passed.Rest())
		}
	}
	g.listener = doorway.New(listener, cfg.Connections, doorway.NewMetrics(g.metrics.Registry))
	g.undo.OnStop("listener", closing(g.listener))
	if err := passed.Rest(); err != nil {
		return err
	}

	accepted := cfg.HTTP
	accepted.AllowedHosts, accepted.SSEPath = cfg.Hosts(), cfg.SSEPath()
	g.front, err = front.New(accepted, front.Deps{
		Deps: exchange.Deps{
			Handler:      g.current.calls,
			Store:        g.events.Sessions(g.sessions),
			Seal:         g.key("request state"),
			Log:          g.log,
			Server:       exchange.ServerInfo{Name: "gatehouse", Title: "Gatehouse", Version: g.version},
			Lasting:      g.lasting,
			Memory:       g.memory,
			Metrics:      exchange.NewMetrics(g.metrics.Registry),
			Observe:      g.observer.Observe,
			RootsChanged: g.current.RootsChanged,
			Tracer:       g.tracer,
			Trails:       g.recent.Trails(),
		},
		Hop:       g.hop,
		Cluster:   g.cluster,
		Callers:   front.Callers{Write: auth.WriteCaller, Read: auth.ReadCaller},
		Upstreams: g.current,
		Refused:   g.events.TurnedAway,
		Origin:    originOf,
		// Each request holds a connection.
		RequestsPerUser: (cfg.Connections.Max + 1) / 2,
	})
	if err != nil {
		return err
	}
	g.current.front = g.front
	g.answer(g.asked)
	return g.metrics.Registry.Register(onScrape(operated{g}.gauges))
}

// Start begins to serve and to connect to the upstreams, and returns at once.
func (g *Gateway) Start() {
	g.serveAdmin() // until the end of a stop
	first := g.graph()
	first.watch(g.spoofs)
	g.undo.OnStop("catalog", func(ctx context.Context) error { return g.graph().stop(ctx) })
	g.stopAuth = lifecycle.Run(first.auth.Run)
	g.undo.OnStop("auth", func(ctx context.Context) error { return g.stopAuth(ctx) })
	g.undo.OnStop("what lasts", lifecycle.Run(g.lasting.Run))

	g.setRoutes(first)
	base, cancel := context.WithCancel(context.Background())
	server := newServer(doorway.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.draining.Load() {
			w.Header()["Connection"] = []string{"close"} // the client then makes a new connection
		}
		(*g.routes.Load()).ServeHTTP(w, r)
	})), g.log)
	g.secure(server, g.certificates.endpoint)
	server.BaseContext = func(net.Listener) context.Context { return base }
	g.cluster.Start(g.front.Receiver())
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := g.listener.Serve(server); !errors.Is(err, http.ErrServerClosed) {
			g.failed <- fmt.Errorf("serving: %w", err)
		}
	})
	g.undo.OnStop("http server", func(ctx context.Context) error {
		defer cancel()
		err := server.Shutdown(ctx)
		if err != nil {
			cancel()
			err = fmt.Errorf("calls were cut off: %w", errors.Join(err, server.Close()))
		}
		serving.Wait()
		return err
	})
	if g.certificates != (certificates{}) {
		g.undo.OnStop("certificates", lifecycle.Run(g.certificates.watch(g.log, g.lookEvery)))
		for section, live := range g.certificates.all {
			if live.Orders() != nil {
				g.undo.OnStop("orders for "+section, lifecycle.Run(order(g.log, section, live)))
			}
		}
	}
	g.undo.OnStop("front", g.front.Close)
	g.undo.OnStop("calls that wait for approval", func(context.Context) error { g.waiting.Close(); return nil })
	g.reloading.Lock()
	g.running = true
	g.reloading.Unlock()
	if g.file != nil {
		g.undo.OnStop("configuration file", lifecycle.Run(g.watchFile))
	}
	g.undo.OnStop("reloads", func(context.Context) error {
		g.reloading.Lock() // a running reload is completed first, which takes seconds at most
		defer g.reloading.Unlock()
		g.running = false
		return nil
	})
	g.log.Info("serving", "url", g.URL(), "address", g.Addr().String(), "upstreams", len(first.members))
}

// Stop ends everything in the reverse order of its start. Streams end, running calls may
// continue until ctx ends, and then connections, watches, sessions and upstreams are closed
// and their processes told. A second Stop does nothing.
func (g *Gateway) Stop(ctx context.Context) error { return g.undo.Stop(ctx) }

// Run serves until ctx ends or serving fails. Then it continues for the configuration's
// shutdown_delay without taking new sessions, lets calls run for shutdown_timeout, and has ended
// lifecycle.WindUp later.
func (g *Gateway) Run(ctx context.Context) error {
	g.Start()
	systemd := supervisor{g.log}
	defer systemd.serving(func() { g.Health(); g.Load() })()
	var failure error
	var begun time.Time
	select {
	case <-ctx.Done():
		begun = time.Now()
		systemd.tell(daemon.SdNotifyStopping)
		failure = g.linger(begun)
	case failure = <-g.failed:
		begun = time.Now()
		systemd.tell(daemon.SdNotifyStopping)
	}
	cfg, from := g.graph().cfg, time.Now()
	if due := begun.Add(cfg.ShutdownDelay); from.After(due) {
		from = due // Redis was slow while sessions were given up
	}
	bounded, cancel := context.WithDeadline(context.WithoutCancel(ctx), from.Add(cfg.ShutdownTimeout))
	defer cancel()
	if n := g.front.Calls(); n > 0 {
		g.log.Info("waiting for calls to end", "calls", n, "at_most", cfg.ShutdownTimeout.String(), "hint",
			"a second signal cuts them off")
	}
	failure = errors.Join(failure, g.Stop(bounded))
	g.log.Info("stopped", "took", time.Since(begun).Round(time.Millisecond).String())
	return failure
}

// drain begins the end: the gateway is not ready any more and takes no new sessions, but
// serves everything else. Idle connections stay open (Server.SetKeepAlivesEnabled would close
// them): a balancer that has not noticed yet may be sending its next request on one, and could
// not repeat a POST that was lost with it.
func (g *Gateway) drain() {
	g.draining.Store(true)
	ctx, cancel := context.WithTimeout(context.Background(), leaveTime)
	defer cancel()
	g.cluster.Leaving(ctx)
	g.front.Drain(ctx, g.redis != nil)
}

// linger drains, and gives the senders of requests time to send them elsewhere.
func (g *Gateway) linger(begun time.Time) (failure error) {
	cfg := g.graph().cfg
	g.log.Info("stopping", "delay", cfg.ShutdownDelay.String(), "timeout", cfg.ShutdownTimeout.String())
	g.drain()
	select {
	case <-time.After(cfg.ShutdownDelay - time.Since(begun)):
	case failure = <-g.failed:
	}
	return failure
}

// graph returns the graph in force.
func (g *Gateway) graph() *graph { return g.current.graph() }

// Addr returns the address that the gateway is bound to.
func (g *Gateway) Addr() net.Addr { return g.listener.Addr() }

// AdminAddr returns the address that serves operators, nil for none.
func (g *Gateway) AdminAddr() net.Addr {
	if g.admin == nil {
		return nil
	}
	return g.admin.Addr()
}

// URL returns the endpoint's URL as clients on this machine write it.
func (g *Gateway) URL() string {
	cfg, host := g.graph().cfg, g.Addr().String()
	if g.Addr().Network() == doorway.Unix {
		host = "localhost"
	}
	return cfg.TLS.Scheme() + "://" + host + cfg.Path()
}

// WaitReady returns when every upstream has answered or failed for the first time. Errors:
// that of ctx.
func (g *Gateway) WaitReady(ctx context.Context) error {
	g.graph().catalog.WaitFirst(ctx)
	return ctx.Err()
}

// Health returns the state of each upstream, in the order of the configuration.
func (g *Gateway) Health() []diagnose.Upstream {
	now := g.graph()
	views := now.catalog.Status()
	all := make([]diagnose.Upstream, len(views))
	for i, view := range views { // in the order of the upstreams
		all[i] = diagnose.UpstreamOf(view, now.members[i].Status())
	}
	return all
}

// Load counts what a Gateway holds at a moment.
type Load struct {
	Front     live.Load
	Upstreams []upstream.Status // in the order of the configuration
}

// Load counts what the Gateway holds now.
func (g *Gateway) Load() Load {
	sum := Load{Front: g.front.Sessions.Load()}
	for _, m := range g.graph().members {
		sum.Upstreams = append(sum.Upstreams, m.Status())
	}
	return sum
}
