package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/gatehouse-mcp/gatehouse/internal/home"
	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
)

// Errors of a store. Any other error is an internal failure.
var (
	// ErrNotFound means that the session does not exist, has ended, or belongs to another
	// user; these cases are not distinguished. It is also the error for an unknown stream.
	ErrNotFound = home.ErrNotFound
	// ErrTooMany means that the user, or the store, is at its limit of sessions.
	ErrTooMany = home.ErrTooMany
	// ErrTooLarge means that the record would hold more than MaxRecordBytes.
	ErrTooLarge = errors.New("session: record too large")
	// ErrUnavailable means that the store cannot tell. It must never be reported as a missing
	// session, or the client would drop one that still exists.
	ErrUnavailable = home.ErrUnavailable
	// ErrUnsure comes with ErrUnavailable: the change may have been made, or may still be.
	ErrUnsure = redisdb.ErrUnsure
	// ErrMoved means that another replica owns the session, and nothing was written.
	ErrMoved = home.ErrMoved
	// ErrEnded means that the stream has ended, perhaps not by its writer. It is an
	// ErrNotFound.
	ErrEnded = fmt.Errorf("%w: the stream has ended", ErrNotFound)
	// ErrForgotten means that the stream ended long ago, or had to make room for newer ones. It is
	// an ErrNotFound.
	ErrForgotten = fmt.Errorf("%w: the stream was forgotten", ErrNotFound)
	// ErrGap means that events after the given position are not kept any more.
	ErrGap = errors.New("session: events are missing")
)

// Store keeps session records. All methods are safe for concurrent use. A session is changed through
// its home, so only by the replica that owns it. Every store passes the suite in session/sessiontest.
type Store interface {
	// Create begins a session. The store mints the id and ignores the one in the record. A
	// user at the limit gets room from their least recently used session, if that was unused
	// for a minute. Errors: ErrTooMany, ErrTooLarge, ErrUnavailable.
	Create(ctx context.Context, r Record) (Record, error)
	// Update changes a session in one step and returns the new record. The function must not call
	// the store; changes to User, ID and Created are ignored. A session that has ended stays ended.
	// Errors: ErrNotFound, ErrMoved, ErrTooLarge, ErrUnavailable. With ErrUnsure the change holds
	// here, but may be lost with this replica.
	Update(ctx context.Context, h *home.Home, change func(*Record)) (Record, error)
	// Log returns the event log of the same sessions.
	Log() EventLog
	// Homes returns the table of the sessions.
	Homes() *home.Table
	// Close releases what the store holds, without ending sessions, after the table is closed. It
	// may be called twice.
	Close() error
}

// Bounds of an event log. An event that is larger than a whole log is kept alone.
const (
	LogEvents  = 256     // events kept of a stream
	LogBytes   = 1 << 20 // bytes kept of a stream
	LogStreams = 64      // streams kept of a session; the oldest that has ended goes first
)

// Event is one entry of a stream's log. Data must not be modified.
type Event struct {
	Seq  uint64
	Data []byte
}

// EventLog keeps the last events of each stream of a session, so that a client can resume after its
// connection broke (2025-11-25 basic/transports#resumability-and-redelivery). Writers choose the
// names of their streams. A stream is forgotten five minutes after its end, and with its session.
// No method restarts a session's idle time.
type EventLog interface {
	// Append adds events in one step, and creates the stream with its first one; data are copied.
	// Seq is that of the last one; those of the others come directly before it. It grows over all
	// streams of a session and never repeats, so it can be part of an event id. The first one is 1.
	// Errors: ErrNotFound if the session has ended, ErrEnded if the stream has, ErrUnavailable.
	Append(ctx context.Context, h *home.Home, stream string, data ...[]byte) (seq uint64, err error)
	// Begin is Append for a stream that answers a request. The request's id must not be empty.
	// It is kept until the stream is forgotten, whatever becomes of its events.
	Begin(ctx context.Context, h *home.Home, stream string, request []byte, data ...[]byte) (seq uint64, err error)
	// Request returns the id that a stream was begun with, nil for none. Errors: ErrNotFound,
	// ErrUnavailable.
	Request(ctx context.Context, h *home.Home, stream string) ([]byte, error)
	// Finish adds the last events and ends the stream, in one step. Of several callers that
	// finish a stream the first one succeeds; the others, even its writer, get ErrEnded.
	// Errors: as Append. A last event that could not be kept leaves a gap at the end, but the
	// stream has ended.
	Finish(ctx context.Context, h *home.Home, stream string, data ...[]byte) (seq uint64, err error)
	// End ends a stream without a further event. A store that is unavailable records the end
	// as soon as it can. Errors: ErrNotFound, ErrUnavailable.
	End(ctx context.Context, h *home.Home, stream string) error
	// Read returns the events after a position, in order, and whether the stream has ended.
	// Unless it has, more is closed as soon as there is news: an event, the end of the stream,
	// or the end of the session. Position 0 is the beginning. With ErrGap the other results
	// are valid and hold what is still kept. Errors: ErrForgotten; ErrNotFound for any other
	// stream that is not there, and for a position that this stream never reached; and
	// ErrUnavailable.
	Read(ctx context.Context, h *home.Home, stream string, after uint64) (events []Event, ended bool,
		more <-chan struct{}, err error)
}
