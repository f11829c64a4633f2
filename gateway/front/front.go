package front

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/live"
	"github.com/gatehouse-mcp/gatehouse/gateway/front/stream"
	"github.com/gatehouse-mcp/gatehouse/internal/cluster"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// Bounds of the endpoint itself; those that depend on taste are in Config.
const (
	bodyTime  = 15 * time.Second // for a client to send its body
	writeTime = 30 * time.Second // for a client to take what is written at a time
	// leftoverTime is for the rest of a body that nobody wants: to close at once could
	// take the answer away from a client that still sends.
	leftoverTime = 500 * time.Millisecond
	helloTime    = time.Minute // for a client of HTTP+SSE to begin its session
)

// ServerInfo is what the gateway says of itself (Implementation of the
// specification).
type ServerInfo struct{ Name, Title, Version string }

// Deps is what a Front needs from its owner; all of it is required but Log,
// RootsChanged and Metrics.
type Deps struct {
	Handler  mcp.Handler
	Sessions session.Store
	// Seal seals requestState.
	Seal   *seal.Key
	Log    *slog.Logger
	Server ServerInfo
	// Cluster knows which replica owns what; nil for one gateway alone.
	Cluster *cluster.Cluster
	// Callers carries callers to other replicas; needed with Cluster.
	Callers Callers
	// RecordKey is the key in Redis that a session's record stands under; nil where sessions
	// are in memory.
	RecordKey func(session string) string
	// Keeps reports whether a call of a client without a session is to something that keeps
	// what belongs to the client: then it is made at the owner of its derived session. It may
	// err that way. Needed with Cluster.
	Keeps func(*mcp.Call) bool
	// Leave gives a session up, whose key it is told, so that another replica can own it. Needed
	// with Cluster.
	Leave func(session string)
	// RootsChanged is told the key of a session whose client has other roots now; nil
	// for nobody.
	RootsChanged func(session string)
	// RequestsPerUser is how many requests of one user may be under way; 0 for no bound.
	RequestsPerUser int
	// Memory is what large messages are taken from; nil for one of Config.MaxInFlightBytes.
	Memory *mcp.Memory
	// Metrics count what happens at the endpoint; nil for nobody to know.
	Metrics *Metrics
}

// Callers writes who calls, and reads it (auth.WriteCaller, auth.ReadCaller). The token
// is in it, which is why front does neither by itself.
type Callers struct {
	Write func(mcp.Caller) ([]byte, error)
	Read  func([]byte) (mcp.Caller, error)
}

// Front is the http.Handler of the endpoint. Requests must come through auth, which
// puts the mcp.Caller into their context: see Behind.
type Front struct {
	*live.Sessions // what is held of them here
	lifecycle

	cfg      Config
	handler  mcp.Handler
	sessions session.Store
	seal     *seal.Key
	log      *slog.Logger
	metrics  *Metrics
	info     mcp.Raw // ServerInfo as the newest revision has it
	metaInfo mcp.Raw // the _meta object that holds just it
	hosts    map[string]bool
	origins  map[string]bool
	noParams map[string]string // empty, for all calls without Mcp-Param-* headers
	memory   *mcp.Memory       // for large messages
	writer   *stream.Writer
	onRoots  func(session string) // nil for nobody
	cluster  *cluster.Cluster
	homeless rate.Sometimes // of the log, for requests whose owner nobody knows
	callers  Callers
	keeps    func(*mcp.Call) bool
	onLeave  func(session string)
	prefix   string // of call ids: ours among all processes
	guests   guests // none for one alone
	calls    atomic.Uint64

	recordKey func(session string) string // nil for none

	// Of each user: requests under way, and streams that last. Each holds a connection.
	requestLimit, streamLimit *perUser

	bodyTime, helloTime time.Duration // the constants, but for tests

	mu   sync.Mutex            // guards olds
	olds map[string]*oldStream // by their ids
}

// New makes a Front. It starts nothing.
func New(cfg Config, deps Deps) (*Front, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("http: %w", err)
	}
	if deps.Handler == nil || deps.Sessions == nil || deps.Seal == nil {
		return nil, errors.New("front: a handler, a session store and a key are needed")
	}
	if deps.Cluster != nil && (deps.Callers.Write == nil || deps.Callers.Read == nil || deps.Keeps == nil || deps.Leave == nil) {
		return nil, errors.New("front: with replicas it is needed how callers are written, what is kept and how sessions are left")
	}
	f := &Front{
		cfg:       cfg.withDefaults(),
		handler:   deps.Handler,
		sessions:  deps.Sessions,
		seal:      deps.Seal,
		log:       deps.Log,
		metrics:   deps.Metrics,
		hosts:     map[string]bool{"localhost": true, "127.0.0.1": true, "::1": true},
		origins:   make(map[string]bool),
		noParams:  make(map[string]string),
		memory:    deps.Memory,
		onRoots:   deps.RootsChanged,
		bodyTime:  bodyTime,
		helloTime: helloTime,
		olds:      make(map[string]*oldStream),
		cluster:   deps.Cluster,
		homeless:  rate.Sometimes{Interval: time.Minute},
		callers:   deps.Callers,
		keeps:     deps.Keeps,
		onLeave:   deps.Leave,
		recordKey: deps.RecordKey,
	}
	f.requestLimit, f.streamLimit = newPerUser(deps.RequestsPerUser), newPerUser(f.cfg.StreamsPerUser)
	f.lifecycle.init()
	if f.log == nil {
		f.log = slog.New(slog.DiscardHandler)
	}
	if f.metrics == nil {
		f.metrics = NewMetrics(nil)
	}
	f.writer = &stream.Writer{KeepAlive: f.cfg.KeepAlive, Timeout: writeTime, Metrics: f.metrics.written,
		Panicked: func(cause any) { f.recovered(cause, "") }}
	if f.memory == nil {
		f.memory = mcp.NewMemory(f.cfg.MaxInFlightBytes)
	}
	if f.cluster == nil {
		f.cluster = cluster.Alone()
	}
	f.prefix = f.cluster.Self()
	f.Sessions = live.NewSessions(live.Deps{
		Handler:  mcp.HandlerFunc(f.handleSafely),
		Store:    f.sessions,
		Log:      f.log,
		NewID:    f.callID,
		Begin:    f.begin,
		Done:     f.done,
		Running:  &f.running,
		Draining: f.draining,
		Resumed:  f.metrics.resume,
		GiveUp:   func(key string) { f.onLeave(key) },
	})
	for _, host := range f.cfg.AllowedHosts {
		f.hosts[strings.ToLower(strings.Trim(host, "[]"))] = true
	}
	for _, origin := range f.cfg.AllowedOrigins {
		f.origins[strings.ToLower(origin)] = true
	}
	f.info = serverInfo(deps.Server)
	f.metaInfo = serverMeta(f.info)
	return f, nil
}

// ServeHTTP answers one request whose caller is known.
func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if f.admit(w, r, f.verbs()) {
		f.serve(w, r)
	}
}

// Behind returns the endpoint with authentication in its place: behind the checks that
// stop what a web page has its user's browser send, which are for everybody, and in
// front of all that needs a caller. A browser's preflight, which has no token, is
// answered before it, and the answers of authenticate can be read by pages of the
// origins that are allowed.
func (f *Front) Behind(authenticate func(http.Handler) http.Handler) http.Handler {
	return f.behind(authenticate, f.verbs(), f.serve)
}

func (f *Front) behind(authenticate func(http.Handler) http.Handler, v verbs, serve http.HandlerFunc) http.Handler {
	inner := authenticate(serve)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f.admit(w, r, v) {
			inner.ServeHTTP(w, r)
		}
	})
}

// verbs are those of the endpoint: GET and DELETE are about sessions.
func (f *Front) verbs() verbs {
	if f.cfg.Clients == ClientsStateless {
		return "POST"
	}
	return "POST, GET, DELETE"
}

// admit answers what needs no caller, and reports whether there is more to do.
func (f *Front) admit(w http.ResponseWriter, r *http.Request, v verbs) bool {
	if ref := f.check(w, r, v); ref != nil {
		ref.Close = r.ContentLength != 0 // nobody reads the body
		f.refuse(w, nil, ref)
		return false
	}
	if r.Method == http.MethodOptions {
		f.options(w, r, v)
		return false
	}
	return true
}

func (f *Front) serve(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodPost:
		f.post(w, r)
	case http.MethodGet:
		f.get(w, r)
	case http.MethodDelete:
		f.delete(w, r)
	}
}

// callID makes an id that no other call of any replica has.
func (f *Front) callID() string {
	var buf [32]byte
	b := append(append(buf[:0], f.prefix...), '-')
	return string(strconv.AppendUint(b, f.calls.Add(1), 36))
}

// handleSafely makes a call of our own: a panic in it ends that call only.
func (f *Front) handleSafely(ctx context.Context, c *mcp.Call) (reply *mcp.Reply, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			f.recovered(cause, c.ID)
			reply, err = nil, errNoReply
		}
	}()
	return f.handler.Handle(ctx, c)
}
