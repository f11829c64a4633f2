package front

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/time/rate"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/exchange"
	"github.com/gatehouse-mcp/gatehouse/gateway/front/live"
	"github.com/gatehouse-mcp/gatehouse/gateway/front/refuse"
	"github.com/gatehouse-mcp/gatehouse/gateway/front/request"
	"github.com/gatehouse-mcp/gatehouse/gateway/front/sse2024"
	"github.com/gatehouse-mcp/gatehouse/internal/cluster"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// bodyTime limits the time a client takes to send its body. Bounds that operators choose are in Config.
const bodyTime = 15 * time.Second

// Deps are the dependencies of a Front. Optional fields say so; all others are required.
type Deps struct {
	exchange.Deps
	// Hop names the gateway in the header Via of its requests to upstreams (RFC 9110 7.6.3); a
	// request that comes back is refused. "" for none.
	Hop string
	// Cluster knows the owners of homes.
	Cluster *cluster.Cluster
	// Callers carries callers to other replicas. Optional in a gateway alone.
	Callers Callers
	// Upstreams are those of the configuration in force. Optional in a gateway alone.
	Upstreams Upstreams
	// Refused is called for each request that became no call, with the HTTP status and the
	// failure. Of the caller, only From may be known yet, and the method may not. May be nil.
	Refused func(c mcp.Caller, method string, status int, why failure.Name)
	// Origin returns the origin of a request that is refused before its caller is known. May be
	// nil.
	Origin func(*http.Request) mcp.Origin
	// RequestsPerUser bounds the requests of one user that are under way; 0 for no bound.
	RequestsPerUser int
}

// Upstreams report what servers keep for clients.
type Upstreams interface {
	// Keeps reports whether a call of a client without a session uses something that keeps
	// state for the client. Such a call is made at the owner of the client's derived session.
	// Keeps may wrongly return true.
	Keeps(*mcp.Call) bool
	// Differs reports whether a list may differ in what is kept for its client. If the client of
	// such a call has a home, the call is made there.
	Differs(*mcp.Call) bool
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
	// Sessions holds the running part of sessions here.
	Sessions *live.Sessions

	endpoint *exchange.Endpoint
	sse      *sse2024.Streams
	checks   *request.Checks
	limits   request.Limits
	cfg      Config // with defaults
	deps     Deps
	noParams map[string]string // empty, for all calls without Mcp-Param-* headers
	homeless rate.Sometimes    // limits log lines about requests with an unknown owner

	requestLimit *live.PerUser // requests under way; each holds a connection
}

// New makes a Front. It starts no goroutine.
func New(cfg Config, deps Deps) (*Front, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("http: %w", err)
	}
	if deps.Handler == nil || deps.Store == nil || deps.Seal == nil || deps.Log == nil || deps.Cluster == nil ||
		deps.Memory == nil || deps.Metrics == nil || deps.Lasting == nil || deps.Observe == nil {
		return nil, errors.New("front: a handler, a session store, a key, a log, a cluster, a memory, metrics, a Lasting and an observer are needed")
	}
	if deps.Cluster.Shared() && (deps.Callers.Write == nil || deps.Callers.Read == nil || deps.Upstreams == nil) {
		return nil, errors.New("front: with replicas it is needed how callers are written and what is kept")
	}
	cfg = cfg.withDefaults()
	endpoint := exchange.NewEndpoint(deps.Deps, deps.Cluster.Self(), cfg.StreamsPerUser, cfg.KeepAlive)
	endpoint.StreamAfter, endpoint.AskTimeout = cfg.StreamAfter, cfg.AskTimeout
	return &Front{
		Sessions:     endpoint.Sessions,
		endpoint:     endpoint,
		sse:          sse2024.New(endpoint),
		checks:       request.NewChecks(deps.Hop, cfg.AllowedHosts, cfg.AllowedOrigins),
		limits:       request.Limits{Bytes: cfg.MaxRequestBytes, Time: bodyTime, Memory: deps.Memory},
		cfg:          cfg,
		deps:         deps,
		noParams:     make(map[string]string),
		homeless:     rate.Sometimes{Interval: time.Minute},
		requestLimit: live.NewPerUser(deps.RequestsPerUser),
	}, nil
}

// Behind returns the endpoint with authentication in its place: behind the checks that stop what
// web pages make users' browsers send, and in front of everything that needs a caller. So a
// preflight needs no token, and pages of allowed origins can read the answers of authenticate.
func (f *Front) Behind(authenticate func(http.Handler) http.Handler) http.Handler {
	served := request.Verbs{http.MethodPost, http.MethodGet, http.MethodDelete} // GET and DELETE are about sessions
	if f.cfg.Clients == ClientsStateless {
		served = request.Verbs{http.MethodPost}
	}
	return f.behind(authenticate, served, f.serve)
}

// SSEPaths returns the paths of HTTP+SSE, of the stream and of messages, "" if it is disabled.
func (f *Front) SSEPaths() (stream, messages string) {
	if f.cfg.SSEPath == "" || f.cfg.SSEPath == SSEOff {
		return "", ""
	}
	return f.cfg.SSEPath, sse2024.Messages(f.cfg.SSEPath)
}

// SSEBehind is Behind for the streams of HTTP+SSE. A client that tries the newer transport first
// must get 405 when it POSTs to the path of the stream.
func (f *Front) SSEBehind(authenticate func(http.Handler) http.Handler) http.Handler {
	return f.behind(authenticate, request.Verbs{http.MethodGet}, f.openSSE)
}

// MessagesBehind is Behind for the messages of HTTP+SSE.
func (f *Front) MessagesBehind(auth func(http.Handler) http.Handler) http.Handler {
	return f.behind(auth, request.Verbs{"POST"}, func(w http.ResponseWriter, r *http.Request) { f.post(w, r, true) })
}

// behind answers what needs no caller, and notes when any other POST arrived, before its caller is
// known.
func (f *Front) behind(auth func(http.Handler) http.Handler, v request.Verbs, serve http.HandlerFunc) http.Handler {
	inner := auth(serve)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if ref := f.checks.Check(w, r, v); ref != nil {
			ref.Close = r.ContentLength != 0 // the body stays unread
			var caller mcp.Caller
			if f.deps.Origin != nil {
				caller.From = f.deps.Origin(r)
			}
			f.turnAway(w, caller, wire.Message{}, ref)
			return
		}
		if r.Method == http.MethodOptions {
			v.Options(w, r)
			return
		}
		if f.deps.Trails != nil && r.Method == http.MethodPost {
			r = exchange.Arrived(r)
		}
		inner.ServeHTTP(w, r)
	})
}

func (f *Front) serve(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodPost:
		f.post(w, r, false)
	case http.MethodGet, http.MethodDelete:
		p := &posted{Request: request.Request{W: w, R: r}}
		defer p.release(f)
		ref := f.ofSession(p) // sets the caller
		f.turnAway(w, p.Caller, p.Message, ref)
	}
}

// openSSE answers a GET with a stream of HTTP+SSE, and returns when the stream ends.
func (f *Front) openSSE(w http.ResponseWriter, r *http.Request) {
	caller, ref := f.caller(r)
	if ref == nil {
		ref = f.sse.Open(w, r, caller)
	}
	f.turnAway(w, caller, wire.Message{}, ref)
}

// turnAway refuses a request that will not become a call. It does nothing without a refusal, or if the
// request was answered.
func (f *Front) turnAway(w http.ResponseWriter, c mcp.Caller, m wire.Message, r *refuse.Refusal) {
	if r == nil || r == answered {
		return
	}
	if f.deps.Refused != nil {
		f.deps.Refused(c, m.Method, r.Status, r.Err.Name)
	}
	f.endpoint.Refuse(w, m.ID, r)
}

// Calls returns how many calls and other requests run here.
func (f *Front) Calls() int64 { return f.endpoint.Running.Calls() }

// Drain refuses new sessions, GET streams and subscriptions, which should begin elsewhere, and
// ends the subscriptions of stateless clients. Calls continue, and new ones are accepted.
// elsewhere says that another replica can continue the sessions: then those for which nothing
// runs are given up, as far as ctx allows, and their GET streams end, so that their clients come
// back there. Close is the next step.
func (f *Front) Drain(ctx context.Context, elsewhere bool) {
	f.endpoint.Running.Drain()
	if elsewhere {
		f.Sessions.EndStreams()
		f.homes().ReleaseAll(ctx)
	}
}

// Close refuses new requests (answers to questions and cancellations still pass) and waits for
// the running ones and for calls that wait for answers. When ctx ends, it cancels the calls of
// sessions, gives up the waiting ones and returns an error with their number; stateless calls
// end with their connections, which belong to the server.
// Streams of sessions end after the calls: a client that came back for its stream and was
// refused might give up its calls. Close may be called twice.
func (f *Front) Close(ctx context.Context) error {
	ended := f.endpoint.Running.Close()
	f.Sessions.StopListening()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
	}
	cut := f.Sessions.CancelAll() + f.endpoint.DropWaiting()
	select {
	case <-ended:
		if cut > 0 {
			return fmt.Errorf("front: calls were cut off (%d): %w", cut, ctx.Err())
		}
		return nil
	case <-time.After(time.Second):
		f.endpoint.Running.EndStreams()
		f.endpoint.Writer.CutHijacked()
		return fmt.Errorf("front: requests still run: %w", ctx.Err())
	}
}
