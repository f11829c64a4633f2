package exchange

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/live"
	"github.com/gatehouse-mcp/gatehouse/gateway/front/refuse"
	"github.com/gatehouse-mcp/gatehouse/gateway/front/stream"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
	"github.com/gatehouse-mcp/gatehouse/internal/tracing"
	"github.com/gatehouse-mcp/gatehouse/internal/trail"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// WriteTime limits the time a client takes to receive one write.
const WriteTime = 30 * time.Second

// leftoverTime limits reading the rest of an unwanted body: closing at once could take the answer
// away from a client that is still sending.
const leftoverTime = 500 * time.Millisecond

// ErrNoReply means that a handler returned neither a reply nor an error.
var ErrNoReply = errors.New("front: the handler gave no reply")

// ServerInfo describes the gateway to clients (Implementation in the specification).
type ServerInfo struct{ Name, Title, Version string }

// Deps are the dependencies of an Endpoint. Tracer and Trails are optional.
type Deps struct {
	Handler mcp.Handler
	Store   session.Store
	// Seal seals requestState.
	Seal   *seal.Key
	Log    *slog.Logger
	Server ServerInfo
	// Lasting ends what outlives its request with the credential of its caller.
	Lasting *mcp.Lasting
	// Memory is the memory for large messages.
	Memory *mcp.Memory
	// Metrics count what happens at the endpoint.
	Metrics *Metrics
	// Observe makes a call of a client by a handler, and records how it went.
	Observe func(context.Context, *mcp.Call, mcp.Handler) (*mcp.Reply, error)
	// RootsChanged takes the key of a session when its client has changed its roots; nil for none.
	RootsChanged func(session string)
	// Tracer makes the SERVER spans; nil for none.
	Tracer *tracing.Tracer
	// Trails record how calls spend their time, and their messages; nil for none.
	Trails *trail.Trails
}

// Endpoint holds what all exchanges share.
type Endpoint struct {
	Deps
	StreamAfter time.Duration // how long a call may take before its answer becomes a stream
	AskTimeout  time.Duration // limit for a client to answer a question
	Replica     string        // the name of this replica: it begins the ids of its calls
	Info        mcp.Raw       // ServerInfo in the form of the newest revision
	Running     *live.Running
	Sessions    *live.Sessions // what runs here in sessions
	Writer      *stream.Writer

	metaInfo mcp.Raw // the _meta object with only Info in it
	waiting  waiting
	calls    atomic.Uint64
}

// NewEndpoint makes an Endpoint with a bound on the long-lived streams of each user. An idle stream
// gets a comment after keepAlive.
func NewEndpoint(deps Deps, replica string, streams int, keepAlive time.Duration) *Endpoint {
	e := &Endpoint{Deps: deps, Replica: replica, Info: serverInfo(deps.Server), Running: live.NewRunning(streams)}
	e.metaInfo = mcp.Object(wire.MetaServerInfo, e.Info)
	e.waiting.counted, e.waiting.calls = e.Running, make(map[waitingKey]*waitingCall)
	e.Writer = &stream.Writer{KeepAlive: keepAlive, Timeout: WriteTime, Metrics: deps.Metrics.Written,
		Panicked: func(cause any) { e.Recovered(cause, "") }}
	e.Sessions = live.NewSessions(live.Deps{
		Handler: mcp.HandlerFunc(e.handleSafely),
		Store:   e.Store,
		Log:     e.Log,
		NewID:   e.CallID,
		Running: e.Running,
		Lasting: e.Lasting,
		Resumed: e.Metrics.Resumed,
	})
	return e
}

// CallID makes an id that no other call of any replica has.
func (e *Endpoint) CallID() string {
	var buf [32]byte
	b := append(append(buf[:0], e.Replica...), '-')
	return string(strconv.AppendUint(b, e.calls.Add(1), 36))
}

// handleSafely makes a call of the gateway's own: a panic in it ends only that call.
func (e *Endpoint) handleSafely(ctx context.Context, c *mcp.Call) (reply *mcp.Reply, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			e.Recovered(cause, c.ID)
			reply, err = nil, ErrNoReply
		}
	}()
	return e.Handler.Handle(ctx, c)
}

// Discover makes a call of server/discover. It returns the result, and the capabilities in it.
func (e *Endpoint) Discover(ctx context.Context, c *mcp.Call) (result, caps mcp.Raw, err error) {
	reply, err := e.Handler.Handle(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	if reply == nil || !reply.Result.IsObject() {
		return nil, nil, ErrNoReply
	}
	if caps, _ = reply.Result.Member("capabilities"); !caps.IsObject() {
		caps = mcp.Raw("{}")
	}
	return reply.Result, caps, nil
}

// DropWaiting gives up all calls that wait for answers, and returns how many there were.
func (e *Endpoint) DropWaiting() int { return e.waiting.dropAll() }

// Refuse answers a request with a refusal.
func (e *Endpoint) Refuse(w http.ResponseWriter, id mcp.Raw, r *refuse.Refusal) {
	e.Metrics.count(r)
	body := r.Body(w.Header(), id)
	if r.Close {
		// net/http reads the rest of a body before it closes; this limits the time for it.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(leftoverTime))
	}
	e.WriteJSON(w, r.Status, body)
}

// RefuseSession translates an error of the session store.
func (e *Endpoint) RefuseSession(err error) *refuse.Refusal {
	r, known := refuse.Session(err)
	if !known {
		e.Log.Error("session store", failure.Internal.Attr(), "error", err)
	}
	return r
}

// Readable returns what a client may read of a call's error. The log has the cause:
// gateway/observe logs the errors of handlers, and Readable the others.
func (e *Endpoint) Readable(rev *wire.Revision, method, callID string, err error) *mcp.Error {
	if errors.Is(err, ErrNoReply) {
		e.Log.Error("internal error", failure.Internal.Attr(), "call", callID, "method", method, "error", err)
	}
	e.Metrics.answered(mcp.FailureOf(err))
	return refuse.Readable(rev, method, callID, err)
}

// Recovered logs a panic. http.ErrAbortHandler is net/http's own and is raised again.
func (e *Endpoint) Recovered(cause any, callID string) {
	if cause == http.ErrAbortHandler {
		panic(cause)
	}
	e.Log.Error("panic in a handler", failure.Internal.Attr(), slog.String("call", callID),
		slog.String("error", fmt.Sprint(cause)),
		slog.String("stack", strings.TrimSpace(string(debug.Stack()))))
}

// LostAnswer returns the response to a request in place of one that was lost. call is the id of the call.
func (e *Endpoint) LostAnswer(request mcp.Raw, call string, rev *wire.Revision) []byte {
	return wire.AppendError(nil, request, e.Readable(rev, "", call, refuse.LostError()))
}

// LostCall records a call that ran at a replica which has gone.
func (e *Endpoint) LostCall(ctx context.Context, c *mcp.Call) {
	c.Verdict = &mcp.Verdict{}
	_, _ = e.Observe(ctx, c, mcp.HandlerFunc(Lost)) // the error is in the record
}

// Lost is the handler of a call that ran at a replica which has gone. Of some only the id is known.
func Lost(_ context.Context, c *mcp.Call) (*mcp.Reply, error) {
	if c.Name != "" || c.Method == "" {
		c.Verdict.Executed = mcp.ExecutedUnknown
	}
	return nil, refuse.LostError()
}
