package upstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// Transport reaches one server in one way. upstreamtest is the suite that each
// implementation passes.
type Transport interface {
	// Dial opens a connection. Transports with credentials use those of its owner.
	Dial(ctx context.Context, owner *identity) (Conn, error)
}

// Conn is one connection: a session on streamable HTTP, an event stream on HTTP+SSE, a
// process on stdio. Its methods may be called concurrently.
type Conn interface {
	// Start sends a request. The stream must be closed.
	Start(req *Request) (Stream, error)
	// Post sends a notification or the answer to a request of the server.
	Post(ctx context.Context, body []byte) error
	// Standing opens the stream of what belongs to no request, or, with the id of an
	// event, goes on with the stream of that event. errNoStanding when the transport or
	// the server has none. alive, unless it is nil, is called whenever the server sends
	// something.
	Standing(ctx context.Context, lastEventID string, alive func()) (Stream, error)
	// Deliver says who takes what the server sends that belongs to no request; before,
	// it is dropped. deliver is called from one goroutine at a time and must not block;
	// the message is valid until it returns. Streamable HTTP has a standing stream instead.
	// private says that all requests are of one client: only then is a log message, which
	// names no request, taken to be of the one that is under way.
	Deliver(private bool, deliver func(wire.Message))
	// Bind tells the revision that was negotiated. It is called before the connection
	// is shared.
	Bind(rev *wire.Revision)
	// Resume takes up the session of this id, which another connection began. It is called
	// before the connection is shared, in place of initialize, and only where the Header of
	// such a connection had the id; other transports ignore it.
	Resume(sessionID string)
	// Header are the HTTP headers of the connection's requests, to build Request.Header
	// on; not to be changed. Nil for a transport that has none.
	Header() http.Header
	// Lost is closed when the connection ended by itself; nil when it cannot. One that
	// can is one pipe: whatever belongs to no call comes on it, too.
	Lost() <-chan struct{}
	// Close ends the connection. ctx bounds the good-bye, not the ending.
	Close(ctx context.Context) error
}

// Request is one request on its way out.
type Request struct {
	// ID is unique on its connection. It is the progress token, too.
	ID int64
	// Method is the method's name.
	Method string
	// Body is the whole message.
	Body []byte
	// Caller is on whose behalf it is; nil for the owner of the connection.
	Caller *mcp.Caller
	// Header has all HTTP headers and is not changed; nil for those of the connection.
	// Other transports than HTTP ignore it.
	Header http.Header
	// Life is the exchange's: its context bounds it, the transport touches it whenever
	// the server sends something, and ends it when the stream is closed and drained, or
	// when Start fails.
	Life *deadline
}

// Stream is what comes back for a request, the response last, or what comes on a
// standing stream.
type Stream interface {
	// Next returns the next message. It is valid until the following call; a response
	// stays valid. io.EOF says that nothing more comes.
	Next() (wire.Message, error)
	// LastEventID is where the stream can be gone on with, "" when it cannot; Retry is
	// how long the server wants us to wait before that.
	LastEventID() string
	Retry() time.Duration
	// Release returns what gives the memory of the response back, for mcp.Reply.Release;
	// nil when there is nothing to give.
	Release() func()
	// Taken is closed when the server has taken the request, or never will; nil when it
	// had when Start returned.
	Taken() <-chan struct{}
	// Outline returns that of the response's result, nil when there is none.
	Outline() *mcp.Outline
	// Close gives the stream up, where the transport has a way to tell the server. After
	// the response it only frees the connection.
	Close()
}

// transportDeps is what a transport is made with.
type transportDeps struct {
	cfg  Config // with defaults
	http http.RoundTripper
	// httpFor is nil where all use http
	httpFor func(user string) http.RoundTripper
	log     *slog.Logger
	// credentials are nil for none
	credentials Credentials
	memory      *mcp.Memory // nil for a boundless one
	// health counts restarts and garbage
	health *health
	spawn  func(func()) // runs a function on a goroutine that Close waits for
}

// outside makes the Room of what the server says outside of calls, on a connection of an
// owner, nil for nobody in particular.
func (d transportDeps) outside(owner *identity) *mcp.Room {
	user := ""
	if owner != nil {
		user = owner.user
	}
	return d.memory.Outside(d.cfg.Name, user)
}

// transports is the table of all transports, by their names in the configuration.
var transports = map[string]func(transportDeps) (Transport, error){
	transportStreamable: newStreamable,
	transportSSE:        newSSE,
	transportStdio:      newStdio,
}

func transportNames() string {
	return transportAuto + ", " + strings.Join(slices.Sorted(maps.Keys(transports)), ", ")
}

// What a transport's errors say. Everything else it returns is wrapped around one of
// them, or is a *statusError.
var (
	// errNotSent: the server has not seen the message.
	errNotSent = errors.New("not sent")
	// errBroken: the connection failed; whether the server has seen the message is not
	// known.
	errBroken = errors.New("connection lost")
	// errGarbage: the server answered something that is not the protocol.
	errGarbage = errors.New("not a protocol message")
	// errTooLarge: the answer is larger than the limit.
	errTooLarge = errors.New("answer too large")
	// errNoStanding: there is no standing stream.
	errNoStanding = errors.New("no standing stream")
	// errSessionGone: the server does not know the session any more. The request did
	// not run.
	errSessionGone = errors.New("session gone")
	// errEnded: we closed the connection ourselves.
	errEnded = errors.New("connection closed")
)

// statusError is an HTTP status that is not 2xx. Message is the JSON-RPC message
// that came with it; its Kind is 0 when none came. Text is the beginning of what came
// in its place.
type statusError struct {
	Status     int
	Message    wire.Message
	Text       string
	RetryAfter time.Duration
}

func (e *statusError) Error() string { return fmt.Sprintf("HTTP status %d", e.Status) }

// hasError reports whether a JSON-RPC error came with the status.
func (e *statusError) hasError() bool {
	return e.Message.Kind == wire.Response && !e.Message.Error.IsNull()
}
