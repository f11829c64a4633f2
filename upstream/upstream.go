package upstream

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream/admit"
	"github.com/gatehouse-mcp/gatehouse/upstream/dialect"
	"github.com/gatehouse-mcp/gatehouse/upstream/park"
	"github.com/gatehouse-mcp/gatehouse/upstream/skills"
	"github.com/gatehouse-mcp/gatehouse/upstream/stateless"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport/streamable"
)

// ClientInfo is what servers are told that we are.
type ClientInfo struct {
	Name    string
	Version string
}

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
	cfg        Config // with defaults
	log        *slog.Logger
	clientInfo mcp.Raw
	transport  transport.Transport
	sse        transport.Transport // for a server that may speak HTTP+SSE in place of transport; nil for none
	// credentials are nil for none
	credentials streamable.Credentials
	// tell is nil for nobody
	tell   func(session string, e mcp.Event)
	keeper Keeper          // nil for none
	memory *mcp.Memory     // nil for a boundless one
	base   context.Context // of what runs between calls; ends with Close
	stop   context.CancelCauseFunc

	ids     atomic.Int64 // of all requests: a process is probed and then used on one pipe
	handler mcp.Handler  // pipeline
	voice   *dialect.Voice
	admit   *admit.Admit
	probe   probe
	pool    sessionPool
	// parks are the calls that wait for answers of their users, each with its stream and
	// one goroutine that reads it. holds are the tasks whose questions do.
	parks     *park.Table[string, *exchange]
	holds     *park.Table[taskKey, *exchange]
	stateless *stateless.Dialect
	skills    *skills.Skills
	health    health
	former    former
	count     numbers
	said      *transport.Chatter

	mu      sync.Mutex // guards the fields below
	closed  bool
	running map[*transport.Life]bool // exchanges under way; true for those without an end
	idle    chan struct{}            // closed when the last running call ends after closed was set
	active  int                      // goroutines that wg counts
	waited  bool                     // Close waits for the last of them
	wg      sync.WaitGroup
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
		cfg: cfg,
		log: deps.Log.With("upstream", cfg.Name),
		clientInfo: mcp.Object("name", mcp.String(or(deps.Client.Name, "gatehouse")),
			"version", mcp.String(or(deps.Client.Version, "dev"))),
		credentials: deps.Credentials,
		tell:        deps.Tell,
		keeper:      deps.Keeper,
		memory:      deps.Memory,
		running:     make(map[*transport.Life]bool),
		idle:        make(chan struct{}),
	}
	if deps.Metrics == nil {
		deps.Metrics = NewMetrics(nil)
	}
	u.count = deps.Metrics.of(cfg.Name)
	u.said = transport.NewChatter(u.log)
	u.base, u.stop = context.WithCancelCause(context.Background())
	u.health.status = Status{State: StateConnecting, Since: time.Now()}
	env := transport.Env{
		Name: cfg.Name, Log: u.log, Spawn: u.spawn, ResultBytes: cfg.Limits.ResultBytes, Memory: deps.Memory, Garbage: &u.health.garbage,
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
	u.skills = skills.New(u.perUser())
	u.handler, u.voice = u.pipeline(), &dialect.Voice{Upstream: cfg.Name, LoopbackLinks: cfg.LoopbackLinks, Log: u.log}
	u.stateless = u.newStateless()
	u.pool.init(u)
	giveUp := func(x *exchange) { u.spawn(x.giveUp) }
	u.parks, u.holds = park.New[string](giveUp), park.New[taskKey](giveUp)
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

// life begins an exchange that Close ends, too: at once when it is a standing one,
// without an end of its own, else when it is time.
func (u *Upstream) life(ctx context.Context, standing bool) (*transport.Life, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return nil, admit.ErrDraining
	}
	idle, total := u.cfg.Timeout.Call, u.cfg.Timeout.Total
	if standing {
		idle, total = 0, 0
	}
	d := transport.NewLife(ctx, idle, total)
	d.OnEnd = u.endLife
	u.running[d] = standing
	return d, nil
}

func (u *Upstream) endLife(d *transport.Life) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if _, ok := u.running[d]; !ok {
		return
	}
	delete(u.running, d)
	if u.closed && len(u.running) == 0 {
		close(u.idle)
	}
}

// calls is how many exchanges with an end of their own are under way.
func (u *Upstream) calls() (n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, standing := range u.running {
		if !standing {
			n++
		}
	}
	return n
}

// spawn runs f on a goroutine that Close waits for. f must end soon after u.base; what
// comes too late for a goroutine has to see that at once.
func (u *Upstream) spawn(f func()) {
	u.mu.Lock()
	if u.waited && u.active == 0 {
		u.mu.Unlock()
		f()
		return
	}
	u.active++
	u.wg.Add(1)
	u.mu.Unlock()
	go func() {
		defer func() {
			u.mu.Lock()
			u.active--
			u.mu.Unlock()
			u.wg.Done()
		}()
		f()
	}()
}

// EndSession ends what there is of a client session that has ended: its parked calls, and
// its session at the server, which is told.
func (u *Upstream) EndSession(session string) { u.endSession(session, true) }

// DropSession lets a client session go that another process goes on with: its calls are
// cancelled, its processes end, and its sessions at the server that are kept go on there.
func (u *Upstream) DropSession(session string) { u.endSession(session, false) }

func (u *Upstream) endSession(session string, forget bool) {
	ofSession := func(x *exchange) bool { return x.call.Session == session }
	u.parks.GiveUp(ofSession)
	u.holds.GiveUp(ofSession)
	u.pool.endSession(session, forget)
}

// Close refuses new calls, waits for the running ones until ctx ends, ends them then,
// and closes all processes and all sessions that are not kept. It may be called more than
// once.
func (u *Upstream) Close(ctx context.Context) error {
	u.mu.Lock()
	if !u.closed {
		u.closed = true
		if len(u.running) == 0 {
			close(u.idle)
		}
	}
	for d, standing := range u.running {
		if standing {
			d.Cancel(dialect.ErrClosed)
		}
	}
	u.mu.Unlock()
	u.parks.Close()
	u.holds.Close()
	u.pool.endListens()
	select {
	case <-u.idle:
	case <-ctx.Done():
	}
	u.stop(dialect.ErrClosed)
	u.mu.Lock()
	for d := range u.running {
		d.Cancel(dialect.ErrClosed)
	}
	u.mu.Unlock()
	select { // they still tell their servers
	case <-u.idle:
	case <-time.After(dialect.Goodbye):
	}
	u.pool.close()
	u.mu.Lock()
	u.waited = true
	u.mu.Unlock()
	u.wg.Wait()
	return nil
}
