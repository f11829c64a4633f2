package upstream

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/problems"
	"github.com/gatehouse-mcp/gatehouse/internal/tracing"
	"github.com/gatehouse-mcp/gatehouse/upstream/admit"
	"github.com/gatehouse-mcp/gatehouse/upstream/dialect"
	"github.com/gatehouse-mcp/gatehouse/upstream/skills"
	"github.com/gatehouse-mcp/gatehouse/upstream/stateful"
	"github.com/gatehouse-mcp/gatehouse/upstream/stateless"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport/stdio"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport/streamable"
)

// Keeper stores what outlives this process of the sessions that clients have at servers.
type Keeper = stateful.Keeper

// Deps are the dependencies of an Upstream.
type Deps struct {
	// Log is required.
	Log *slog.Logger
	// HTTP sends the requests of an upstream on HTTP; see NewTransport. It must not follow
	// redirects or add cookies, which no http.RoundTripper should do.
	HTTP http.RoundTripper
	// HTTPFor returns the transport for requests with a user's credential
	// (Credentials.PerUser), keyed by mcp.Caller.User. If nil, HTTP sends them. See
	// dial.Transport.For.
	HTTPFor func(user string) http.RoundTripper
	// Credentials authenticate the requests. They are made from Config.Auth, and required
	// unless it is none. Their maker closes them, after the Upstream.
	Credentials streamable.Credentials
	// Version is the gateway's, which servers get with its name. Default "dev".
	Version string
	// Hop names the gateway in the header Via, so that it knows its own requests; "" for no header.
	Hop string
	// Clients take what the server says in clients' sessions; nil drops it.
	Clients Clients
	// Changed receives each change of State, with Since and Last; it may be nil. It must return at
	// once and not call the Upstream.
	Changed func(Status)
	// Before is the Upstream that this one replaces, nil for none. Calls parked there,
	// waiting for their users, go on there.
	Before *Upstream
	// Homes are those of clients' sessions here; what a client has at the server ends with its
	// session. nil for none.
	Homes stateful.Homes
	// Keeper stores what outlives this process of clients' sessions at the server; nil
	// stores nothing.
	Keeper Keeper
	// Memory is the budget from which large messages are taken while they are read; nil for
	// no bound.
	Memory *mcp.Memory
	// Metrics count what happens; may be nil.
	Metrics *Metrics
	// Tracer makes the CLIENT spans; nil for none.
	Tracer *tracing.Tracer
}

// Clients take what servers say in clients' sessions, by the names of the servers.
type Clients interface {
	// Tell takes an event that belongs to a client's session and to no call of it. It does not
	// keep the event's bytes after it returns.
	Tell(server, session string, e mcp.Event)
	// HearLists takes news of the lists of clients' own sessions. It must return at once.
	HearLists(server string, news mcp.SessionLists)
}

// Upstream is one MCP server. It is an mcp.Handler for calls with the server's own names.
// Its methods may be called concurrently.
type Upstream struct {
	cfg       Config // with defaults
	log       *slog.Logger
	transport transport.Transport
	sse       transport.Transport // for a server that may speak HTTP+SSE instead of transport; nil for none
	base      context.Context     // of what runs between calls; ends with Close
	stop      context.CancelCauseFunc
	last      context.Context // of last messages to the server
	silence   context.CancelFunc

	ids       ids         // of all requests: the probe and the calls may share one pipe
	handler   mcp.Handler // pipeline
	admit     *admit.Admit
	probe     probe
	env       *dialect.Env // what both dialects get
	stateful  *stateful.Dialect
	stateless *stateless.Dialect
	skills    *skills.Skills
	health    health
	former    former
	count     numbers
	lives     *lives
}

// New makes an Upstream. It does no I/O: the first call connects to the server.
func New(cfg Config, deps Deps) (*Upstream, error) {
	authenticates := cfg.Auth.HeaderName() != ""
	var found problems.List
	found.Join(cfg.Validate())
	found.When(deps.Log == nil, "no log was given")
	found.When(cfg.URL != "" && deps.HTTP == nil, "no HTTP transport was given")
	found.When(authenticates && deps.Credentials == nil, "no credentials were given")
	if err := found.Err(); err != nil {
		return nil, fmt.Errorf("upstream %q: %w", cfg.Name, err)
	}
	if !authenticates {
		deps.Credentials = nil
	}
	guessed := cfg.URL != "" && (cfg.Transport == "" || cfg.Transport == transportAuto)
	cfg = cfg.WithDefaults()
	u := &Upstream{cfg: cfg, log: deps.Log.With("upstream", cfg.Name), lives: newLives(cfg.Timeout)}
	if deps.Metrics == nil {
		deps.Metrics = NewMetrics(nil)
	}
	u.count = deps.Metrics.of(cfg.Name)
	u.base, u.stop = context.WithCancelCause(context.Background())
	u.last, u.silence = context.WithCancel(context.Background()) // until Close
	u.health.changed = deps.Changed
	u.health.users, _ = lru.New[string, struct{}](maxUsers) // the only error is about the size
	u.health.status = Status{State: StateConnecting, Since: time.Now()}
	env := transport.Env{
		Name: cfg.Name, Log: u.log, Spawn: u.lives.spawn, ResultBytes: cfg.Limits.ResultBytes, Memory: deps.Memory,
		Garbage: &u.health.garbage, Program: &u.health.program,
	}
	u.transport = transports[cfg.Transport](env, cfg, deps)
	if guessed {
		u.sse = transports[transportSSE](env, cfg, deps)
	}
	u.admit = admit.New(admit.Config{
		Upstream: cfg.Name, Concurrent: cfg.Limits.Concurrent, ConcurrentPerUser: cfg.Limits.ConcurrentPerUser,
		Queued:   maxQueuedCalls,
		Patience: cfg.Timeout.Call, TaskResults: cfg.Limits.asks, QuestionsPerMinute: cfg.Limits.QuestionsPerMinute,
	}, admit.Deps{
		Log: u.log, Opened: u.count.opened.Inc, Refused: u.count.refused.Inc, Unasked: u.count.unasked.Inc,
		Closed: u.base.Done(), Failure: u.failed, Note: u.note,
	})
	u.probe.known.Store(cfg.pinned())
	u.env = u.newEnv(deps)
	u.skills = skills.New(u.env.PerUser)
	u.handler = u.pipeline(deps.Tracer)
	u.stateless, u.stateful = stateless.New(u.env), u.newStateful(deps)
	if deps.Before != nil {
		u.former.all = append(deps.Before.former.busy(), deps.Before)
	}
	u.ids.init()
	return u, nil
}

// Name returns the configured name.
func (u *Upstream) Name() string { return u.cfg.Name }

// HasSession reports whether the client of a call has an own session at the server that is open, or
// kept to be resumed.
func (u *Upstream) HasSession(ctx context.Context, c *mcp.Call) bool {
	e := u.probe.known.Load()
	return e != nil && e.Rev.Stateful && u.stateful.HasSession(ctx, e, c)
}

// Disown makes clients' sessions at the server end with this Upstream: the one that replaces it
// resumes none of them.
func (u *Upstream) Disown(ctx context.Context) { u.stateful.Disown(ctx) }

// RootsChanged forgets the roots of a client session, and tells the server that they
// changed.
func (u *Upstream) RootsChanged(session string) { u.stateful.RootsChanged(session) }

// Overtime bounds how long Close continues after its context has ended. Of this, farewells is for
// last messages to servers and for processes after the end of their input; calls that were cut off
// have half of it to tell their servers. The rest is for processes that need signals.
const (
	Overtime  = farewells + stdio.TermWait
	farewells = 2 * time.Second
)

// Close refuses new calls, waits for running calls until ctx ends, and then ends them. It closes
// all processes and all sessions that are not kept. It ends within Overtime after ctx. As long as
// ctx has not ended, calls and connections get dialect.Goodbye to end. It may be called more than
// once.
func (u *Upstream) Close(ctx context.Context) error {
	late := func(pause time.Duration, f func()) (stop func() bool) {
		return context.AfterFunc(ctx, func() { time.AfterFunc(pause, f) })
	}
	calls, cut := context.WithCancel(context.Background())
	defer cut()
	defer late(farewells/2, cut)()
	defer late(farewells, u.silence)()

	u.lives.close(false)
	u.stateful.Drain()
	select {
	case <-u.lives.ended:
	case <-ctx.Done():
	}
	u.stop(dialect.ErrClosed)
	u.lives.close(true)
	select { // they still notify their servers
	case <-u.lives.left:
	case <-time.After(dialect.Goodbye):
	case <-calls.Done():
	}
	u.stateful.Close()
	u.stateless.Close()
	if spare := u.takeSpare(); spare != nil {
		u.lives.spawn(func() { u.env.CloseConn(spare) })
	}
	u.lives.wait()
	u.silence()
	return nil
}
