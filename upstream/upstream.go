package upstream

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream/admit"
	"github.com/gatehouse-mcp/gatehouse/upstream/dialect"
	"github.com/gatehouse-mcp/gatehouse/upstream/skills"
	"github.com/gatehouse-mcp/gatehouse/upstream/stateful"
	"github.com/gatehouse-mcp/gatehouse/upstream/stateless"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport/streamable"
)

// ClientInfo is what servers are told that we are.
type ClientInfo struct {
	Name    string
	Version string
}

// Keeper keeps what outlives this process of clients' sessions at servers.
type Keeper = stateful.Keeper

// Deps is what an Upstream is made with.
type Deps struct {
	// Log is required.
	Log *slog.Logger
	// HTTP sends the requests of an upstream on HTTP; see NewTransport. It must not follow
	// redirects or add cookies, which no http.RoundTripper should.
	HTTP http.RoundTripper
	// HTTPFor returns what sends those that have the credential of a user
	// (Credentials.PerUser), by mcp.Caller.User; nil for HTTP. See dial.Transport.For.
	HTTPFor func(user string) http.RoundTripper
	// Credentials authenticate the requests; needed when Config.Auth is not none, and
	// made of it. Whoever made them closes them, after the Upstream.
	Credentials streamable.Credentials
	// Client is what servers are told that we are.
	Client ClientInfo
	// Tell takes what belongs to a client's session and to no call of it; nil drops it.
	// It does not keep the event's bytes after it returns.
	Tell func(session string, e mcp.Event)
	// Before is the Upstream whose place this one takes, nil for none. Calls that it has
	// put aside, for their users to answer, go on there.
	Before *Upstream
	// Keeper keeps what outlives this process of clients' sessions at the server; nil for
	// nothing.
	Keeper Keeper
	// Memory is what large messages are taken from while they are read; nil for a boundless
	// one.
	Memory *mcp.Memory
	// Metrics count what happens; nil for nobody to know.
	Metrics *Metrics
}

// Upstream is one MCP server. It is an mcp.Handler for calls that have the server's
// own names. Its methods may be called concurrently.
type Upstream struct {
	cfg       Config // with defaults
	log       *slog.Logger
	transport transport.Transport
	sse       transport.Transport // for a server that may speak HTTP+SSE in place of transport; nil for none
	// credentials are nil for none
	credentials streamable.Credentials
	base        context.Context // of what runs between calls; ends with Close
	stop        context.CancelCauseFunc

	ids     atomic.Int64 // of all requests: a process is probed and then used on one pipe
	handler mcp.Handler  // pipeline
	admit   *admit.Admit
	probe   probe
	// env is what both dialects have of this.
	env       *dialect.Env
	stateful  *stateful.Dialect
	stateless *stateless.Dialect
	skills    *skills.Skills
	health    health
	former    former
	count     numbers
	lives     *lives
}

// New makes an Upstream. It does no I/O: the server is met with the first call.
func New(cfg Config, deps Deps) (*Upstream, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("upstream %q: %w", cfg.Name, err)
	}
	if deps.Log == nil {
		return nil, fmt.Errorf("upstream %q: no log was given", cfg.Name)
	}
	if cfg.Auth.HeaderName() == "" {
		deps.Credentials = nil
	} else if deps.Credentials == nil {
		return nil, fmt.Errorf("upstream %q: no credentials were given", cfg.Name)
	}
	guessed := cfg.URL != "" && (cfg.Transport == "" || cfg.Transport == transportAuto)
	cfg = cfg.withDefaults()
	u := &Upstream{
		cfg:         cfg,
		log:         deps.Log.With("upstream", cfg.Name),
		credentials: deps.Credentials,
		lives:       newLives(cfg.Timeout),
	}
	if deps.Metrics == nil {
		deps.Metrics = NewMetrics(nil)
	}
	u.count = deps.Metrics.of(cfg.Name)
	u.base, u.stop = context.WithCancelCause(context.Background())
	u.health.status = Status{State: StateConnecting, Since: time.Now()}
	env := transport.Env{
		Name: cfg.Name, Log: u.log, Spawn: u.lives.spawn, ResultBytes: cfg.Limits.ResultBytes, Memory: deps.Memory, Garbage: &u.health.garbage,
	}
	var err error
	if u.transport, err = transports[cfg.Transport](env, cfg, deps); err == nil && guessed {
		u.sse, err = transports[transportSSE](env, cfg, deps)
	}
	if err != nil {
		return nil, fmt.Errorf("upstream %q: %w", cfg.Name, err)
	}
	u.admit = admit.New(admit.Config{
		Upstream: cfg.Name, Concurrent: cfg.Limits.Concurrent, ConcurrentPerUser: cfg.Limits.ConcurrentPerUser, Queued: maxQueuedCalls,
		Patience: cfg.Timeout.Call, TaskResults: cfg.Limits.asks, QuestionsPerMinute: cfg.Limits.QuestionsPerMinute,
	}, admit.Deps{Log: u.log, Metrics: deps.Metrics.admit, Closed: u.base.Done(), Failure: u.failed, Note: u.note})
	u.skills = skills.New(u.PerUser())
	u.probe.known = cfg.pinned()
	u.handler = u.pipeline()
	u.env = u.newEnv(deps)
	u.stateless, u.stateful = stateless.New(u.env), u.newStateful(deps)
	u.former.init(deps.Before)
	// Ids begin somewhere else in each Upstream: nobody can guess them, and they differ from
	// those that another process used in a session that is resumed here. They stay below
	// 2^31, as some servers have no larger ones.
	var first [4]byte
	_, _ = rand.Read(first[:]) // never fails
	u.ids.Store(int64(binary.NativeEndian.Uint32(first[:]) >> 2))
	return u, nil
}

// Name returns the configured name.
func (u *Upstream) Name() string { return u.cfg.Name }

// EndSession ends what there is of a client session that has ended: its parked calls, and
// its session at the server, which is told.
func (u *Upstream) EndSession(session string) { u.stateful.EndSession(session, true) }

// DropSession lets a client session go that another process goes on with: its calls are
// cancelled, its processes end, and its sessions at the server that are kept go on there.
func (u *Upstream) DropSession(session string) { u.stateful.EndSession(session, false) }

// RootsChanged forgets what a client session said of its roots, and tells the server.
func (u *Upstream) RootsChanged(session string) { u.stateful.RootsChanged(session) }

// Close refuses new calls, waits for the running ones until ctx ends, ends them then,
// and closes all processes and all sessions that are not kept. It may be called more than
// once.
func (u *Upstream) Close(ctx context.Context) error {
	u.lives.close()
	u.stateful.Drain()
	select {
	case <-u.lives.ended:
	case <-ctx.Done():
	}
	u.stop(dialect.ErrClosed)
	u.lives.cancelAll()
	select { // they still tell their servers
	case <-u.lives.ended:
	case <-time.After(dialect.Goodbye):
	}
	u.stateful.Close()
	u.stateless.Close()
	if spare := u.takeSpare(); spare != nil {
		u.lives.spawn(func() { dialect.CloseConn(spare) })
	}
	u.lives.wait()
	return nil
}
