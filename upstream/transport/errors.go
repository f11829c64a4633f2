package transport

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// What a transport's errors say. Everything else it returns is wrapped around one of
// them, or is a *StatusError.
var (
	// ErrNotSent: the server has not seen the message.
	ErrNotSent = errors.New("not sent")
	// ErrHandshake: no TLS connection to the server came about.
	ErrHandshake = errors.New("TLS handshake")
	// ErrBroken: the connection failed; the server may or may not have seen the message.
	ErrBroken = errors.New("connection lost")
	// ErrGarbage: the server answered something that is not the protocol.
	ErrGarbage = errors.New("not a protocol message")
	// ErrTooLarge: the answer is larger than the limit.
	ErrTooLarge = errors.New("answer too large")
	// ErrNoRoom: the answer is large, and other large messages fill the memory for them.
	ErrNoRoom = errors.New("no room for the answer")
	// ErrNoGETStream: there is no GET stream.
	ErrNoGETStream = errors.New("no GET stream")
	// ErrSessionGone: the server does not know the session any more. The request did
	// not run.
	ErrSessionGone = errors.New("session gone")
	// ErrEnded: we closed the connection ourselves.
	ErrEnded = errors.New("connection closed")
	// ErrTimeout: the server was silent for too long, or took too long altogether.
	ErrTimeout = errors.New("timeout")
)

// StatusError is an HTTP status that is not 2xx.
type StatusError struct {
	Status int
	// Message is the JSON-RPC message that came with it; its Kind is 0 when none came.
	Message wire.Message
	// Text is the beginning of what came in place of a message.
	Text string
	// Challenge is its WWW-Authenticate, "" for none.
	Challenge string
	// Redirect is where a redirect leads that was not followed, "" for no redirect.
	Redirect string
	// RetryAfter is how long the server wants to be left alone, 0 when it does not say.
	RetryAfter time.Duration
}

func (e *StatusError) Error() string {
	if e.Redirect != "" {
		return fmt.Sprintf("HTTP status %d, a redirect to %s", e.Status, e.Redirect)
	}
	return fmt.Sprintf("HTTP status %d", e.Status)
}

// HasError reports whether a JSON-RPC error came with the status.
func (e *StatusError) HasError() bool {
	return e.Message.Kind == wire.Response && !e.Message.Error.IsNull()
}

// Said returns what the server itself says about it, "" for nothing. It is not to be trusted.
func (e *StatusError) Said() string {
	said := e.Text
	if e.HasError() {
		said = wire.ReadError(e.Message.Error).Message
	}
	if described := description.FindStringSubmatch(e.Challenge); described != nil {
		said = strings.TrimSpace(described[1] + " " + said)
	}
	return tags.ReplaceAllString(said, " ")
}

var (
	// description is that of an error in a challenge (RFC 6750 section 3).
	description = regexp.MustCompile(`(?i)(?:^|[\s,])error_description\s*=\s*"([^"\\]*)"`)
	tags        = regexp.MustCompile(`<[^>]*>?`) // of a page in place of an answer
)

// Answers reports whether a server refuses a request by its own error and not by the status: one
// that does not let a tool be called, say. For what it says in a handshake, the status counts.
func (e *StatusError) Answers(req *Request) bool {
	return e.Status == http.StatusForbidden && e.Challenge == "" && e.HasError() && IsID(e.Message.ID, req.ID) &&
		req.Method != mcp.MethodInitialize && req.Method != mcp.MethodDiscover
}

// InSession returns the error of a request in a session. It is ErrSessionGone where the server
// does not know the session and says so with 404 (2025-11-25
// basic/transports#session-management), or with 400, as older servers do.
func (e *StatusError) InSession() error {
	code, text := 0, e.Text
	if e.HasError() {
		known := wire.ReadError(e.Message.Error)
		code, text = known.Code, known.Message
	}
	gone := false
	switch e.Status {
	case http.StatusNotFound:
		gone = code != mcp.CodeMethodNotFound
	case http.StatusBadRequest:
		gone = (code == 0 || code == -32000 || code == -32001 || code == mcp.CodeInvalidRequest) &&
			sessionWords.MatchString(text)
	}
	if gone {
		return fmt.Errorf("%w: %w", ErrSessionGone, e)
	}
	return e
}

// sessionWords match what older servers say about a session that they do not know.
var sessionWords = regexp.MustCompile(`(?i)session|not initialized`)

// ReadError turns an error of wire's readers into one of a transport.
func ReadError(err error) error {
	switch {
	case err == nil, errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
		return err
	case errors.Is(err, wire.ErrTooLarge):
		return ErrTooLarge
	case errors.Is(err, ErrNoRoom):
		return ErrNoRoom
	}
	return fmt.Errorf("%w: %w", ErrBroken, err)
}
