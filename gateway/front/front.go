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
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
	"github.com/gatehouse-mcp/gatehouse/internal/tracing"
	"github.com/gatehouse-mcp/gatehouse/internal/trail"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// Bounds of the endpoint itself. Bounds that are a matter of taste are in Config.
const (
	bodyTime  = 15 * time.Second // for a client to send its body
	writeTime = 30 * time.Second // for a client to take what is written at a time
	// leftoverTime is for reading the rest of an unwanted body: closing at once could take the
	// answer away from a client that is still sending.
	leftoverTime = 500 * time.Millisecond
	helloTime    = time.Minute // for a client of HTTP+SSE to begin its session
)

// ServerInfo is what the gateway says about itself (Implementation in the specification).
type ServerInfo struct{ Name, Title, Version string }

// Deps is what a Front needs. Optional fields say so; all others are required.
type Deps struct {
	Handler  mcp.Handler
	Sessions session.Store
	// Seal seals requestState.
	Seal   *seal.Key
	Log    *slog.Logger
	Server ServerInfo
	// Hop names the gateway in the header Via of its requests to upstreams (RFC 9110 7.6.3); one that
	// comes back is refused. "" for none.
	Hop string
	// Cluster knows the owners of homes.
	Cluster *cluster.Cluster
	// Callers carries callers to other replicas. Optional in a gateway alone.
	Callers Callers
	// Upstreams are those of the configuration that holds. Optional in a gateway alone.
	Upstreams Upstreams
	// Refused is called for each request that became no call, with the HTTP status and the
	// failure. Of the caller, only From may be known yet, and the method may not. May be nil.
	Refused func(c mcp.Caller, method string, status int, why failure.Name)
	// Origin returns where a request comes from that is refused before anybody asks who makes
	// it. May be nil.
	Origin func(*http.Request) mcp.Origin
	// RequestsPerUser bounds the requests of one user that are under way; 0 for no bound.
	RequestsPerUser int
	// Lasting ends what outlives its request with the credential of its caller. Optional.
	Lasting *mcp.Lasting
	// Memory is the memory for large messages.
	Memory *mcp.Memory
	// Metrics count what happens at the endpoint.
	Metrics *Metrics
	// Observe makes a call of a client by a handler, and records how it went; may be nil.
	Observe func(context.Context, *mcp.Call, mcp.Handler) (*mcp.Reply, error)
	// Tracer makes the SERVER spans; nil for none.
	Tracer *tracing.Tracer
	// Trails keep where the time of calls goes, and their messages; nil for nobody to know.
	Trails *trail.Trails
}

// Upstreams know what servers keep for clients.
type Upstreams interface {
	// Keeps reports whether a call of a client without a session uses something that keeps
	// state for the client. Such a call is made at the owner of the client's derived session.
	// Keeps may wrongly return true.
	Keeps(*mcp.Call) bool
	// Differs reports whether a list may differ in what is kept for its client. If the client of
	// such a call has a home, the call is made there.
	Differs(*mcp.Call) bool
	// RootsChanged takes the key of a session whose client has changed its roots.
	RootsChanged(session string)
}

// Callers writes and reads callers (auth.WriteCaller, auth.ReadCaller). They include the
// token, so front does neither itself.
type Callers struct {
	Write func(mcp.Caller) ([]byte, error)
	Read  func([]byte) (mcp.Caller, error)
}

// Front is the endpoint. Its requests must pass through auth, which puts the
// mcp.Caller into their context: see Behind.
type Front struct {
	*live.Sessions // what runs here in sessions
	lifecycle

	cfg      Config // with defaults
	deps     Deps
	info     mcp.Raw // ServerInfo in the form of the newest revision
	metaInfo mcp.Raw // the _meta object with only info in it
	hosts    map[string]bool
	origins  map[string]bool
	noParams map[string]string // empty, for all calls without Mcp-Param-* headers
	writer   *stream.Writer
	homeless rate.Sometimes // limits log lines about requests whose owner is unknown
	prefix   string         // prefix of call ids: unique among all processes
	waiting  waiting
	calls    atomic.Uint64

	// For each user: requests under way, and long-lived streams. Each holds a connection.
	requestLimit, streamLimit *perUser

	bodyTime, helloTime time.Duration // the constants, except in tests

	mu   sync.Mutex            // guards olds
	olds map[string]*oldStream // by their ids
}

// New makes a Front. It starts no goroutine.
func New(cfg Config, deps Deps) (*Front, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("http: %w", err)
	}
	if deps.Handler == nil || deps.Sessions == nil || deps.Seal == nil || deps.Log == nil || deps.Cluster == nil || deps.Memory == nil || deps.Metrics == nil {
		return nil, errors.New("front: a handler, a session store, a key, a log, a cluster, a memory and metrics are needed")
	}
	if deps.Cluster.Shared() && (deps.Callers.Write == nil || deps.Callers.Read == nil || deps.Upstreams == nil) {
		return nil, errors.New("front: with replicas it is needed how callers are written and what is kept")
	}
	if deps.Lasting == nil {
		deps.Lasting = mcp.NewLasting(nil)
	}
	f := &Front{
		cfg:       cfg.withDefaults(),
		deps:      deps,
		hosts:     map[string]bool{"localhost": true, "127.0.0.1": true, "::1": true},
		origins:   make(map[string]bool),
		noParams:  make(map[string]string),
		homeless:  rate.Sometimes{Interval: time.Minute},
		bodyTime:  bodyTime,
		helloTime: helloTime,
		olds:      make(map[string]*oldStream),
	}
	f.requestLimit, f.streamLimit = newPerUser(deps.RequestsPerUser), newPerUser(f.cfg.StreamsPerUser)
	f.draining, f.beginDrain = context.WithCancel(context.Background())
	f.quiet, f.endStreams = context.WithCancel(context.Background())
	f.waiting.counted, f.waiting.calls = &f.lifecycle, make(map[waitingKey]*waitingCall)
	f.writer = &stream.Writer{KeepAlive: f.cfg.KeepAlive, Timeout: writeTime, Metrics: f.deps.Metrics.written,
		Panicked: func(cause any) { f.recovered(cause, "") }}
	f.prefix = deps.Cluster.Self()
	f.Sessions = live.NewSessions(live.Deps{
		Handler:  mcp.HandlerFunc(f.handleSafely),
		Store:    f.deps.Sessions,
		Log:      f.deps.Log,
		NewID:    f.callID,
		Begin:    f.begin,
		Done:     f.done,
		Running:  &f.running,
		Lasting:  f.deps.Lasting,
		Draining: f.draining,
		Resumed:  f.deps.Metrics.resume,
	})
	for _, host := range f.cfg.AllowedHosts {
		f.hosts[strings.ToLower(strings.Trim(host, "[]"))] = true
	}
	for _, origin := range f.cfg.AllowedOrigins {
		f.origins[strings.ToLower(origin)] = true
	}
	f.info = serverInfo(deps.Server)
	f.metaInfo = mcp.Object(wire.MetaServerInfo, f.info)
	return f, nil
}

// Behind returns the endpoint with authentication in its place: behind the checks that stop what
// web pages make users' browsers send, and in front of everything that needs a caller. So a
// preflight needs no token, and pages of allowed origins can read the answers of authenticate.
func (f *Front) Behind(authenticate func(http.Handler) http.Handler) http.Handler {
	served := verbs("POST, GET, DELETE") // GET and DELETE are about sessions
	if f.cfg.Clients == ClientsStateless {
		served = "POST"
	}
	return f.behind(authenticate, served, f.serve)
}

type arrivalKey struct{}

// behind answers what needs no caller, and notes when any other POST arrived, before its caller is
// known.
func (f *Front) behind(authenticate func(http.Handler) http.Handler, v verbs, serve http.HandlerFunc) http.Handler {
	inner := authenticate(serve)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if ref := f.check(w, r, v); ref != nil {
			ref.Close = r.ContentLength != 0 // nobody reads the body
			var caller mcp.Caller
			if f.deps.Origin != nil {
				caller.From = f.deps.Origin(r)
			}
			f.turnAway(w, caller, wire.Message{}, ref)
			return
		}
		if r.Method == http.MethodOptions {
			f.options(w, r, v)
			return
		}
		if f.deps.Trails != nil && r.Method == http.MethodPost {
			r = r.WithContext(context.WithValue(r.Context(), arrivalKey{}, time.Now()))
		}
		inner.ServeHTTP(w, r)
	})
}

func (f *Front) serve(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodPost:
		f.post(w, r, false)
	case http.MethodGet, http.MethodDelete:
		p := &posted{w: w, r: r}
		defer p.release(f)
		if ref := f.ofSession(p); ref != nil {
			f.turnAway(w, p.caller, p.message, ref)
		}
	}
}

// observe makes a call of a client.
func (f *Front) observe(ctx context.Context, c *mcp.Call, next mcp.Handler) (*mcp.Reply, error) {
	if f.deps.Observe == nil {
		return next.Handle(ctx, c)
	}
	return f.deps.Observe(ctx, c, next)
}

// callID makes an id that no other call of any replica has.
func (f *Front) callID() string {
	var buf [32]byte
	b := append(append(buf[:0], f.prefix...), '-')
	return string(strconv.AppendUint(b, f.calls.Add(1), 36))
}

// handleSafely makes a call of our own: a panic in it ends only that call.
func (f *Front) handleSafely(ctx context.Context, c *mcp.Call) (reply *mcp.Reply, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			f.recovered(cause, c.ID)
			reply, err = nil, errNoReply
		}
	}()
	return f.deps.Handler.Handle(ctx, c)
}
