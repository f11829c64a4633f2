package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

const (
	// minMaxDocument is the size up to which any message is read, however small the limit
	// for answers; a larger one than both ends the pipe.
	minMaxDocument = wire.DefaultMaxResult
	// garbageLimit is how many documents may be no messages, at once and in garbageWindow.
	garbageLimit  = 100
	garbageWindow = time.Minute
)

// Words are a Pipe's words for what happens on it.
type Words struct {
	// Ended is the error of requests that have no answer when the pipe ends.
	Ended error
	// TooLong, NoRoom, Skipped and Garbage are log lines.
	TooLong, NoRoom, Skipped, Garbage string
}

// Pipe is the reading part of a Conn where everything comes on one pipe: a process's output or an
// event stream. A message goes to the request that has its id, progress token or subscription id.
// All three are the same number. A log message has none. The Pipe takes what it reads from a Room;
// answers to calls are taken from the calls' own rooms, too.
type Pipe struct {
	words     Words
	log       *slog.Logger
	garbage   *atomic.Int64
	from      io.Reader
	meter     mcp.Meter
	maxResult int64
	giveUp    func(id int64, cause error) // see NewPipe
	lost      chan struct{}               // closed when nothing more can be read

	// Room provides the memory for messages.
	Room *mcp.Room
	// Quitting ends with Quit: the end of the pipe is wanted from then on.
	Quitting context.Context
	Quit     context.CancelFunc

	mu      sync.Mutex            // guards the fields below
	streams map[int64]*PipeStream // nil when the pipe has ended
	stopped bool                  // no more requests begin; lost is closed
	deliver func(wire.Message)
	private bool // all requests are of one client
}

// NewPipe makes the Pipe of an owner's connection that reads from there. giveUp tells the server
// that the answer to a request is no longer awaited, and why; nil where it learns that otherwise.
// End must be called in the end.
func NewPipe(env Env, owner *Identity, from io.Reader, words Words, giveUp func(id int64, cause error)) *Pipe {
	quitting, quit := context.WithCancel(context.Background())
	return &Pipe{
		words: words, log: env.Log, garbage: env.Garbage, from: from, maxResult: env.ResultBytes, giveUp: giveUp,
		lost: make(chan struct{}), Room: env.Room(owner), Quitting: quitting, Quit: quit,
		streams: make(map[int64]*PipeStream), deliver: func(wire.Message) {},
	}
}

// MaxDocument returns the size of the largest line or event that is read.
func (p *Pipe) MaxDocument() int { return max(minMaxDocument, int(p.maxResult)) }

// Read reads what comes, for wire's readers. Its error is ErrNoRoom where there is no room
// for more of a message.
func (p *Pipe) Read(b []byte) (int, error) {
	n, err := p.from.Read(b)
	if !p.meter.Read(p.Room, n) {
		return 0, ErrNoRoom
	}
	return n, err
}

// Sort reads the messages and sorts them until the pipe ends. next returns the next line or
// event, valid until the next call; an empty one is skipped. buffered returns how many bytes of
// the following ones were read. Sort returns the error of requests that have no answer, for End,
// when the caller has cleaned up.
func (p *Pipe) Sort(next func() ([]byte, error), buffered func() int) (lost error) {
	garbage := rate.NewLimiter(rate.Every(garbageWindow/garbageLimit), garbageLimit)
	for {
		text, err := next()
		switch {
		case errors.Is(err, wire.ErrTooLarge):
			p.log.Warn(p.words.TooLong, "limit", p.MaxDocument())
			return p.words.Ended
		case errors.Is(err, ErrNoRoom):
			p.log.Warn(p.words.NoRoom)
			return fmt.Errorf("%w: %w", ErrNoRoom, p.words.Ended)
		case err != nil:
			return p.words.Ended
		}
		p.meter.Next(p.Room, buffered(), false)
		if len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		if err = p.take(text); err == nil {
			continue
		}
		level := slog.LevelDebug
		if first := p.garbage.Add(1) == 1; p.spoils(text, err) || first {
			level = slog.LevelWarn
		}
		p.log.Log(context.Background(), level, p.words.Skipped, "bytes", len(text), "cause", err)
		if !garbage.Allow() {
			p.log.Warn(p.words.Garbage)
			return p.words.Ended
		}
	}
}

// Deliver says who takes messages that belong to no request; see Conn.
func (p *Pipe) Deliver(private bool, deliver func(wire.Message)) {
	p.mu.Lock()
	p.private, p.deliver = private, deliver
	p.mu.Unlock()
}

// Begin makes a request known and returns its stream, nil when the pipe has ended or is stopped. taken is
// for Stream.Taken, nil where the server takes messages in their order.
func (p *Pipe) Begin(req *Request, taken chan struct{}) *PipeStream {
	s := &PipeStream{pipe: p, id: req.ID, method: req.Method, life: req.Life, taken: taken, wake: make(chan struct{}, 1)}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.streams == nil || p.stopped {
		return nil
	}
	p.streams[s.id] = s
	return s
}

// Stop ends the pipe for new requests, unless a call is under way, and reports whether it did.
// Subscriptions are none: they begin again elsewhere.
func (p *Pipe) Stop() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.streams {
		if s.method != mcp.MethodListen {
			return false
		}
	}
	if p.streams == nil || p.stopped {
		return false
	}
	p.stopped = true
	close(p.lost)
	return true
}

// take sorts the messages of a line or an event. Errors: ErrGarbage.
func (p *Pipe) take(text []byte) error {
	var one [1]wire.Message
	messages, err := Scan(one[:0], text)
	for _, m := range messages {
		p.route(m, len(text))
	}
	return err
}

// spoils fails the request if its answer is no message, and reports whether there is one: there
// will be no other answer.
func (p *Pipe) spoils(text []byte, why error) bool {
	id := AnswerTo(text)
	p.mu.Lock()
	s := p.streams[id] // no request has the id 0
	p.mu.Unlock()
	if s != nil {
		s.Fail(why)
	}
	return s != nil
}

// route hands a message on; size is that of its line.
func (p *Pipe) route(m wire.Message, size int) {
	p.mu.Lock()
	s, deliver := p.streamOf(m), p.deliver
	p.mu.Unlock()
	switch {
	case s != nil && m.Kind == wire.Response && int64(size) > p.maxResult:
		s.Fail(ErrTooLarge)
	case s != nil && m.Kind == wire.Response && size >= mcp.CountedBytes && !s.life.Room.Load().Take(int64(size)):
		s.Fail(ErrNoRoom)
	case s != nil:
		s.Put(m)
	case m.Kind != wire.Response: // a response without a waiting request is late
		deliver(m)
	}
}

// streamOf finds the request that a message belongs to. p.mu is held.
func (p *Pipe) streamOf(m wire.Message) *PipeStream {
	var key mcp.Raw
	switch {
	case m.Kind == wire.Response:
		key = m.ID
	case m.Kind == wire.Request:
		return nil
	case m.Method == mcp.NoteProgress:
		key = m.Params.At(wire.MetaProgressToken)
	case m.Method == mcp.NoteMessage:
		return p.onlyCall()
	default:
		key = m.Params.At("_meta", wire.MetaSubscriptionID)
	}
	id, ok := ReadID(key)
	if !ok {
		return nil
	}
	return p.streams[id]
}

// onlyCall returns the one request that a log message can belong to, nil when that is not
// certain. Subscriptions have none. Where several clients share the pipe it never is: what
// comes during one client's call may be of another's that has just ended.
func (p *Pipe) onlyCall() (found *PipeStream) {
	if !p.private {
		return nil
	}
	for _, s := range p.streams {
		if s.method == mcp.MethodListen {
			continue
		}
		if found != nil {
			return nil
		}
		found = s
	}
	return found
}

// End notes the end of the pipe and fails the requests that have no answer. It reports
// whether the end was wanted.
func (p *Pipe) End(lost error) (wanted bool) {
	wanted = p.Quitting.Err() != nil // before callers learn of the end, since they may close us then
	p.mu.Lock()
	if !p.stopped {
		close(p.lost) // first: a caller that learns of the end below and calls again gets another pipe
	}
	for _, s := range p.streams {
		s.Fail(lost)
	}
	p.streams = nil
	p.mu.Unlock()
	p.Room.Free()
	return wanted
}

// Lost is closed when nothing more can be read.
func (p *Pipe) Lost() <-chan struct{} { return p.lost }

// OpenGET returns ErrNoGETStream: everything comes on the one pipe.
func (p *Pipe) OpenGET(context.Context, string, func()) (Stream, error) {
	return nil, ErrNoGETStream
}

// Resume does nothing: the pipe is the session.
func (p *Pipe) Resume(_, _ string) {}
