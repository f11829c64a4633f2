package stateful

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/upstream/admit"
	"github.com/gatehouse-mcp/gatehouse/upstream/dialect"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
)

const (
	// getStreamWait is how long a new session waits for its GET stream to open before it takes
	// calls. Some servers drop messages while there is no listener; some send no response headers
	// until there is a message.
	getStreamWait = 250 * time.Millisecond
	// leastPause is the shortest pause before a GET stream is opened again, even if
	// its server asks for less.
	leastPause = time.Second
	// lasting is how long a GET stream must live for the next pause to be short again.
	lasting = 30 * time.Second
)

// getStream is the stream for what a session's server sends outside of calls.
type getStream struct {
	env     *dialect.Env
	conn    transport.Conn
	base    context.Context // of the session
	deliver func(wire.Message)
	missed  func() // the server may have sent something unheard
	gone    func() // the server no longer knows the session

	mayAsk atomic.Bool   // questions may come on it, or on the pipe that stands for it
	wanted chan struct{} // holds one: a call needs the stream now

	mu     sync.Mutex    // guards the fields below
	opened chan struct{} // closed when the first attempt is over; nil before it
	begun  time.Time     // when the first attempt began
}

// open opens the stream, once, and waits a moment for it, so that nothing that the server sends is
// missed. Callers that arrive during that time wait, too.
func (t *getStream) open() {
	if dialect.Piped(t.conn) || t.base.Err() != nil {
		return
	}
	t.mu.Lock()
	first := t.opened == nil
	if first {
		t.opened, t.begun = make(chan struct{}), time.Now()
	}
	opened, left := t.opened, getStreamWait-time.Since(t.begun)
	t.mu.Unlock()
	if first {
		t.env.Spawn(func() { t.read(opened) })
	}
	select {
	case <-opened:
	case <-time.After(left):
	}
}

// read reads the stream until the session ends, and opens it again when it breaks. It
// closes opened when the first attempt is over.
func (t *getStream) read(opened chan struct{}) {
	pauses := admit.NewBackoff()
	lastID := ""
	// Until the server is known to have no such stream, questions may come on it.
	t.mayAsk.Store(true)
	for first := true; t.base.Err() == nil; first = false {
		stream, err := t.conn.OpenGET(t.base, lastID, nil)
		if first && errors.Is(err, transport.ErrNoGETStream) {
			t.mayAsk.Store(false)
		}
		if err == nil && lastID == "" { // also the first time: the stream may open after callers stopped waiting
			t.missed()
		}
		if first { // after missed: a caller that waited has missed nothing
			close(opened)
		}
		var pause time.Duration
		switch {
		case errors.Is(err, transport.ErrNoGETStream):
			return
		case errors.Is(err, transport.ErrSessionGone):
			t.gone()
			return
		case err == nil:
			var why error
			opened := time.Now()
			lastID, pause, why = t.drain(stream)
			if errors.Is(why, transport.ErrNoRoom) || errors.Is(why, transport.ErrTooLarge) {
				t.env.Log.Warn("server sent a large event outside of a call, its stream is closed",
					failure.UpstreamMisbehaves.Attr(), "cause", why)
				pause = 0 // the next stream may fail as soon
			} else if time.Since(opened) >= lasting {
				pauses.Reset()
			}
		default:
			if status, ok := errors.AsType[*transport.StatusError](err); ok && lastID != "" && status.Status/100 == 4 {
				lastID = "" // the stream cannot be resumed
			}
		}
		if pause > 0 && lastID != "" { // its server has it polled, and nothing is missed
			pause = max(pause, leastPause)
		} else {
			pause = max(pause, pauses.NextBackOff())
		}
		if !t.rest(pause) {
			return
		}
	}
}

// rest waits before the stream is opened again, not for long if a call needs it. It reports
// false when the session ends.
func (t *getStream) rest(pause time.Duration) bool {
	least := min(pause, leastPause)
	if dialect.Wait(t.base, least) != nil {
		return false
	}
	select {
	case <-t.wanted:
	case <-time.After(pause - least):
	case <-t.base.Done():
		return false
	}
	return true
}

// want has the stream opened soon if it is not open.
func (t *getStream) want() {
	select {
	case t.wanted <- struct{}{}:
	default:
	}
}

// drain reads a stream to its end, and returns where and when to resume, and why it ended.
func (t *getStream) drain(stream transport.Stream) (lastID string, pause time.Duration, why error) {
	defer stream.Close()
	for {
		m, err := stream.Next()
		if err != nil {
			lastID, pause = stream.Resumption()
			return lastID, pause, err
		}
		if m.Kind != wire.Response {
			t.deliver(m)
		}
	}
}
