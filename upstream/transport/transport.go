// Package transport defines connections to MCP servers. It has what the three transports share, and
// what package upstream and its dialects know of them.
//
// It owns the contract (Transport, Conn, Stream), the life of an exchange, the sorting of messages
// that come on one pipe, and what a transport's errors say. It leaves the transports to the
// packages below it, which are made in one place (upstream/transports.go), and the meaning of
// messages to the dialects. It starts no goroutine: the caller of Pipe.Sort reads.
//
//	transport.go  the contract
//	errors.go     what goes wrong
//	life.go       how long an exchange may last
//	pipe.go       a connection on which everything comes; pipestream.go is what it has for a request
//	message.go    reading and keeping messages
//	chatter.go    what a server says to its operator
package transport

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/trail"
)

// Transport reaches one server in one way. upstream/upstreamtest is the suite that each
// implementation passes.
type Transport interface {
	// Dial opens a connection. Transports with credentials use those of its owner.
	Dial(ctx context.Context, owner *Identity) (Conn, error)
}

// Conn is one connection: a session on streamable HTTP, an event stream on HTTP+SSE, a
// process on stdio. Its methods may be called concurrently.
type Conn interface {
	// Start sends a request. The stream must be closed.
	Start(req *Request) (Stream, error)
	// Post sends a notification or the answer to a request of the server.
	Post(ctx context.Context, body []byte) error
	// OpenGET opens the stream of messages that belong to no request. With the id of an event, it
	// resumes the stream of that event. ErrNoGETStream when the transport or the server has none.
	// alive, unless it is nil, is called whenever the server sends something.
	OpenGET(ctx context.Context, lastEventID string, alive func()) (Stream, error)
	// Deliver says who takes messages that belong to no request; before, they are dropped.
	// deliver is called from one goroutine at a time and must not block; the message is
	// valid until it returns. Streamable HTTP has a GET stream instead. private says
	// that all requests are of one client: only then does a log message, which names no
	// request, belong to the one that is under way.
	Deliver(private bool, deliver func(wire.Message))
	// Bind sets the revision that was negotiated. It is called before the connection is
	// shared.
	Bind(rev *wire.Revision)
	// Resume resumes the session with this id and these cookies, which another connection began.
	// It is called before the connection is shared, in place of initialize, and only where the
	// Header of such a connection had the id; other transports ignore it.
	Resume(sessionID, cookies string)
	// Header are the HTTP headers of the connection's requests, with the id and the cookies of a
	// session, to build Request.Header on; not to be changed. Nil for a transport that has none.
	Header() http.Header
	// Lost is closed when the connection has ended by itself; nil when it cannot. One that
	// can is one pipe, which also carries what belongs to no call.
	Lost() <-chan struct{}
	// Close ends the connection. ctx bounds the good-bye, not the end.
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
	// Caller is the caller that the request is for; nil for the owner of the connection.
	Caller *mcp.Caller
	// Header has all HTTP headers and is not changed; nil for those of the connection.
	// Other transports than HTTP ignore it.
	Header http.Header
	// Trace goes into the HTTP headers if it has a span; nil for none.
	Trace *mcp.Trace
	// Trail is that of the call, and notes the credential; nil for none.
	Trail *trail.Trail
	// Life bounds the exchange. The transport touches it whenever the server sends
	// something, and ends it when the stream is closed and drained, or when Start fails.
	Life *Life
}

// Stream delivers what comes back for a request, the response last, or what comes on a GET stream.
type Stream interface {
	// Next returns the next message. It is valid until the following call; a response
	// stays valid. io.EOF says that nothing more comes.
	Next() (wire.Message, error)
	// Resumption returns the event after which the stream can be resumed, "" when it cannot. It
	// also returns how long the server wants us to wait.
	Resumption() (lastEventID string, retry time.Duration)
	// Reply returns the Reply with the response's result, or with what was made of it. It
	// knows the Outline, and how to give the memory back.
	Reply(result mcp.Raw) *mcp.Reply
	// Taken is closed when the server has taken the request, or never will; nil if it had
	// when Start returned.
	Taken() <-chan struct{}
	// Close gives the stream up, and tells the server where the transport can. After the response
	// it only frees the connection.
	Close()
}

// Env is the environment of a transport.
type Env struct {
	// Name is that of the upstream, for errors.
	Name string
	Log  *slog.Logger
	// Spawn runs a function on a goroutine that the upstream waits for when it closes.
	Spawn func(func())
	// ResultBytes is the size of the largest answer that is accepted.
	ResultBytes int64
	// Memory is the budget for large messages; nil for a boundless one.
	Memory *mcp.Memory
	// Garbage counts documents that were no messages.
	Garbage *atomic.Int64
	// Program gets each process that is started.
	Program *atomic.Pointer[Program]
}

// Room makes the Room for what the server says outside of calls, on a connection of an
// owner.
func (e Env) Room(owner *Identity) *mcp.Room { return e.Memory.Outside(e.Name, owner.User) }

// Identity says for whom a connection acts: for the gateway itself or for one user. It keeps the
// user's latest proof, for what the connection does between the user's calls.
type Identity struct {
	// User is the user charged for its memory, "" for none.
	User string

	mu     sync.Mutex // guards caller
	caller mcp.Caller // the zero Caller for the gateway's own
}

// Meet notes a proof, unless one is known that is good for as long.
func (i *Identity) Meet(caller *mcp.Caller) {
	i.mu.Lock()
	defer i.mu.Unlock()
	known := i.caller.Expires
	if known.IsZero() || caller.Expires.IsZero() || known.Before(caller.Expires) {
		i.caller = *caller
	}
}

// Caller returns the latest proof, the zero Caller for the gateway's own.
func (i *Identity) Caller() mcp.Caller {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.caller
}
