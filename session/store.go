package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
)

// What a store answers. Anything else is trouble of ours.
var (
	// ErrNotFound: no such session, no longer, or not this user's; the three are
	// not told apart. Also for a stream that is not known.
	ErrNotFound = errors.New("session: not found")
	// ErrTooMany: the user, or the store, is at its limit of sessions.
	ErrTooMany = errors.New("session: too many sessions")
	// ErrTooLarge: the record would hold more than MaxRecordBytes.
	ErrTooLarge = errors.New("session: record too large")
	// ErrUnavailable: the store cannot tell. It must never be shown as a missing
	// session, or the client drops one that is still there.
	ErrUnavailable = errors.New("session: store unavailable")
	// ErrUnsure, beside ErrUnavailable: it may have been done, or may be yet.
	ErrUnsure = redisdb.ErrUnsure
	// ErrMoved: another replica owns the session, and nothing was written. This store has
	// dropped what it held of it.
	ErrMoved = errors.New("session: another replica owns it")
	// ErrEnded: the stream has ended, perhaps not by its writer. It is an ErrNotFound.
	ErrEnded = fmt.Errorf("%w: the stream has ended", ErrNotFound)
	// ErrGap: events after the position asked for are no longer kept.
	ErrGap = errors.New("session: events are missing")
)

// Store keeps session records. All methods are safe for concurrent use, of one process:
// of the replicas that share a Redis, only the owner of a session uses it. To any other,
// each method but Create may return ErrMoved. Every back end passes the suite in
// session/sessiontest.
type Store interface {
	// Create begins a session. The id is minted here, whatever the record says. A user
	// at the limit gets room by the session of theirs that was used longest ago, if
	// that was not used for a minute.
	// Errors: ErrTooMany, ErrTooLarge, ErrUnavailable.
	Create(ctx context.Context, r Record) (Record, error)
	// Get returns the user's session and restarts its idle time. A stream that is
	// open counts as use only if whoever serves it calls Get from time to time.
	// Errors: ErrNotFound, ErrUnavailable.
	Get(ctx context.Context, user, id string) (Record, error)
	// Update changes the session as one step, restarts its idle time and returns
	// what it has become. The function must not call the store; changes to User, ID and
	// Created are ignored. A session that has ended stays ended. Errors: as Get, and
	// ErrTooLarge. With ErrUnsure the change holds here, and may be lost with this replica.
	Update(ctx context.Context, user, id string, change func(*Record)) (Record, error)
	// Delete ends the session. Errors: as Get.
	Delete(ctx context.Context, user, id string) error
	// Log is the event log of the same sessions.
	Log() EventLog
	// Close releases what the store holds. Sessions are not ended by it. It may be
	// called twice; the other methods then return ErrUnavailable.
	Close() error
}

// Bounds of an event log. An event that is larger than a whole log is kept alone.
const (
	LogEvents  = 256     // events kept of a stream
	LogBytes   = 1 << 20 // bytes kept of a stream
	LogStreams = 64      // streams kept of a session; the oldest that has ended goes first
)

// Event is one entry of a stream's log. Data must not be changed.
type Event struct {
	Seq  uint64
	Data []byte
}

// EventLog keeps the last events of each stream of a session, so that a client
// whose connection broke can go on (2025-11-25 basic/transports#resumability-and-redelivery).
// Streams are named by whoever writes them. They are forgotten five minutes after
// their end, and with their session. Keys are Record.Key. Nothing here restarts a
// session's idle time.
type EventLog interface {
	// Append adds an event, and the stream with its first one; data is copied. Seq
	// grows over all streams of a session and never repeats, so that it can be part
	// of an event id; the first is 1. Errors: ErrNotFound when the session has ended,
	// ErrEnded when the stream has, ErrUnavailable.
	Append(ctx context.Context, key, stream string, data []byte) (seq uint64, err error)
	// Begin is Append for a stream that answers a request. The request's id, which must
	// not be empty, is kept until the stream is forgotten, whatever becomes of its events.
	Begin(ctx context.Context, key, stream string, request, data []byte) (seq uint64, err error)
	// Request returns the id that a stream was begun with, nil for none. Errors:
	// ErrNotFound, ErrUnavailable.
	Request(ctx context.Context, key, stream string) ([]byte, error)
	// Finish adds the last event and ends the stream, as one step: of all who finish a
	// stream the first one does, and the others, its writer too, get ErrEnded. Errors: as
	// Append. A last event that could not be kept is a gap at the stream's end, which is
	// its end all the same.
	Finish(ctx context.Context, key, stream string, data []byte) (seq uint64, err error)
	// End says that nothing more comes; a store that is not available keeps that as soon as
	// it is. Errors: ErrNotFound, ErrUnavailable.
	End(ctx context.Context, key, stream string) error
	// Read returns the events after a position, in order, and whether the stream
	// has ended. Unless it has, more is closed as soon as there is something new:
	// an event, the end, or that the session is gone. Position 0 is the beginning.
	// With ErrGap the other values are valid and what is still there. Errors:
	// ErrNotFound also for a position that this stream never reached,
	// ErrUnavailable.
	Read(ctx context.Context, key, stream string, after uint64) (events []Event, ended bool, more <-chan struct{}, err error)
}
