package stateful

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/trail"
	"github.com/gatehouse-mcp/gatehouse/upstream/admit"
	"github.com/gatehouse-mcp/gatehouse/upstream/dialect"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
)

const (
	// roundWindow is how long a round of questions stays open for more of them.
	roundWindow = 50 * time.Millisecond
	// maxResumes is how many times in a row a broken stream is resumed.
	maxResumes = 3
)

// exchange is one call under way at a stateful server.
type exchange struct {
	s      *session
	id     int64
	number int64 // among the calls of the session; it does not change once it is shared
	call   *mcp.Call
	life   *transport.Life
	first  transport.Stream // the response to the POST; closing it ends life
	stream transport.Stream // the stream being read: first, or the one that resumes it
	wake   chan struct{}
	// task is the task that the call waits for, "" for none. ours says that the task was
	// made here, for a caller that knows nothing of it. Neither changes.
	task string
	ours bool
	// keys is the prefix of the keys of the call's questions. It does not change.
	keys string
	// token is the progress token of the call that made the task, 0 for none. It does not
	// change.
	token int64
	// elsewhere says that questions may come outside of the stream. So the caller cannot simply
	// read it, and waits for wake from the beginning. It does not change.
	elsewhere bool
	pumped    chan struct{} // closed when the goroutine that reads the stream has ended; nil for none

	mu     sync.Mutex // guards the fields below
	notify func(mcp.Event)
	trail  *trail.Trail // of the call that waits
	room   *mcp.Room    // for questions, and for messages while no caller waits; nil for none yet
	minted int
	open   []question
	done   bool
	result mcp.Raw
	err    error
}

// call makes a call, after the question for roots if one has to come first. It releases the
// session, unless the call is parked.
func (s *session) call(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
	if len(c.Round) > 0 {
		s.roots.give(c)
	} else if reply := s.roots.before(c); reply != nil {
		s.release()
		return reply, nil
	}
	s.roots.settle()
	x := &exchange{call: c}
	if c.Method == mcp.MethodTasksResult {
		x.task = c.Name
	}
	return s.begin(ctx, x, c, nil)
}

// begin sends the request of an exchange and waits for it. For an exchange that waits for a task
// made here, the request is not the call itself. meanwhile, if not nil, starts what runs at the
// same time, until the exchange's life ends.
func (s *session) begin(ctx context.Context, x *exchange, request *mcp.Call, meanwhile func()) (*mcp.Reply, error) {
	x.s, x.id, x.notify, x.trail, x.wake = s, s.env.NextID(), x.call.Notify, x.call.Trail, make(chan struct{}, 1)
	x.elsewhere = s.declared.Any() && (x.task != "" || !s.shared() && s.getStream.mayAsk.Load())
	if x.elsewhere {
		s.getStream.want()
	}
	life, err := s.env.Life(ctx, false)
	if err != nil {
		x.dropTask()
		s.release()
		return nil, err
	}
	x.life = life
	s.calls.add(x)
	if x.call.LogLevel != "" && !s.shared() {
		s.setLevel(ctx, s.calls.level())
		if ctx.Err() != nil { // its caller did not wait for that: nothing is sent
			life.End()
			s.calls.remove(x)
			x.dropTask()
			s.release()
			return nil, context.Cause(ctx)
		}
	}
	life.Room.Store(x.call.Room)
	if x.task != "" {
		life.Patiently()
	}
	if meanwhile != nil {
		meanwhile()
	}
	message := dialect.Request{ID: x.id, Call: request, Rev: s.rev, Task: s.taskParams(request)}
	body := message.Encode()
	x.call.Trail.ToServer(s.conn.Header(), body)
	x.call.Reached()
	out := &transport.Request{
		ID: x.id, Method: request.Method, Caller: &request.Caller, Trace: request.Trace, Trail: x.call.Trail,
		Life: life, Body: body,
	}
	if x.elsewhere { // the server may ask before it begins its response
		return x.wait(ctx, out)
	}
	for x.send(out); !x.done; x.read() { // without a pump, only this goroutine writes done
		if x.asks() {
			return x.wait(ctx, nil)
		}
	}
	return x.finish(ctx)
}

// send sends the request of the exchange.
func (x *exchange) send(out *transport.Request) {
	stream, err := x.s.conn.Start(out)
	if err != nil {
		dialect.SawRefusal(out.Trail, err)
		x.end(nil, x.life.Why(err))
		return
	}
	x.first, x.stream = stream, stream
}

// pump sends the request, nil if it was sent. It reads on while the caller waits for questions, or
// has left.
func (x *exchange) pump(out *transport.Request) {
	defer close(x.pumped)
	if out != nil {
		x.send(out)
	}
	for ; !x.over(); x.signal() {
		x.read()
	}
	x.signal()
}

// read reads and handles the next message.
func (x *exchange) read() {
	m, err := x.next()
	if err == nil {
		dialect.Saw(x.follows(), m)
	}
	switch {
	case err != nil:
		x.end(nil, x.life.Why(err))
	case m.Kind == wire.Response:
		if dialect.Answers(m, x.id) {
			if m.Error != nil {
				x.end(nil, x.s.declared.NotOurs(wire.ReadError(m.Error)))
			} else {
				x.end(m.Result, nil)
			}
		}
	case m.Kind == wire.Request:
		x.s.serve(m, x, true)
	case m.Method != mcp.NoteProgress || x.owns(m):
		x.s.note(m, x)
	}
}

// follows returns the trail of the call that waits, nil for none.
func (x *exchange) follows() *trail.Trail {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.trail
}

// owns reports whether a progress message has the token of this call.
func (x *exchange) owns(m wire.Message) bool {
	return dialect.HasToken(m, x.id) || x.token != 0 && dialect.HasToken(m, x.token)
}

// next reads the next message. If the stream broke and can be resumed, it reads from the
// new stream (2025-11-25 basic/transports#resumability-and-redelivery).
func (x *exchange) next() (wire.Message, error) {
	for resumes := 0; ; resumes++ {
		m, err := x.stream.Next()
		ended := errors.Is(err, io.EOF) || errors.Is(err, transport.ErrBroken)
		if !ended || x.life.Err() != nil {
			return m, err
		}
		lastID, pause := x.stream.Resumption()
		if lastID == "" || resumes == maxResumes {
			return m, fmt.Errorf("%w: %w", transport.ErrBroken, err)
		}
		if pause == 0 {
			pause = admit.FirstPause << resumes
		}
		if err := dialect.Wait(x.life, pause); err != nil {
			return m, err
		}
		stream, err := x.s.conn.OpenGET(x.life, lastID, x.life.Touch)
		if err != nil {
			continue
		}
		x.release()
		x.stream = stream
	}
}

// release closes the stream being read, unless it is the first one.
func (x *exchange) release() {
	if x.stream != x.first {
		x.stream.Close()
	}
}

func (x *exchange) end(result mcp.Raw, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.done {
		return
	}
	x.done, x.result, x.err = true, result, err
	for _, q := range x.open { // these need no answers any more
		x.tellWithdrawn(q)
	}
}

// unanswered reports whether a call that ended with err got no answer from the server.
func unanswered(err error) bool {
	_, answered := errors.AsType[*mcp.Error](err)
	return err != nil && !answered
}

func (x *exchange) over() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.done
}

func (x *exchange) asks() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.open) > 0
}

func (x *exchange) signal() {
	select {
	case x.wake <- struct{}{}:
	default:
	}
}

// await waits until what done reports is true, or for as long as ctx lasts.
func (x *exchange) await(ctx context.Context, done func() bool) {
	for !done() {
		select {
		case <-x.wake:
		case <-ctx.Done():
			return
		}
	}
}

// tell sends an event to the caller, if one waits, and reports whether it did. The lock is
// held, so that nothing follows the caller's reply.
func (x *exchange) tell(e mcp.Event) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.notify == nil || x.done {
		return false
	}
	x.notify(e)
	return true
}

// wait waits, while a goroutine pumps, for the result or for a round of questions. For
// questions it parks the call.
func (x *exchange) wait(ctx context.Context, out *transport.Request) (*mcp.Reply, error) {
	if x.pumped == nil {
		x.pumped = make(chan struct{})
		x.s.env.Spawn(func() { x.pump(out) })
	}
	for {
		x.await(context.Background(), func() bool { return x.asks() || x.over() })
		if x.over() {
			return x.finish(ctx)
		}
		window, cancel := context.WithTimeout(context.Background(), roundWindow)
		x.await(window, x.over)
		cancel()
		if x.asks() && !x.over() {
			return x.park()
		}
	}
}

// finish makes the reply of a call that is done, and frees everything.
func (x *exchange) finish(ctx context.Context) (*mcp.Reply, error) {
	if x.pumped != nil {
		<-x.pumped
	}
	x.mu.Lock()
	result, err := x.result, x.err
	open, answered := x.open, !unanswered(x.err)
	x.notify, x.open = nil, nil
	x.mu.Unlock()
	if len(open) > 0 { // the server did not wait for the answers, but still gets them
		x.s.env.Spawn(func() {
			for _, q := range open {
				switch {
				case q.request.Method == mcp.MethodRootsList:
					x.s.roots.ask(q.id)
				case q.params != nil && answered: // another call has asked it
					x.s.calls.remove(x)
					x.s.deliver(wire.Message{Kind: wire.Request, ID: q.id, Method: q.request.Method, Params: q.params})
				default:
					x.s.post(unrelated(q.id))
				}
			}
		})
	}
	if unanswered(err) {
		if x.first != nil || ctx.Err() != nil || errors.Is(err, transport.ErrTimeout) || errors.Is(err, transport.ErrBroken) {
			x.sayCancelled(ctx)
		}
		x.dropTask()
		err = x.overdue(err)
	}
	if err == nil && x.s.taskParams(x.call) != nil && x.task == "" {
		if task, ok := wire.ReadCreatedTask(result); ok {
			return x.created(ctx, task)
		}
	}
	x.free()
	if err != nil {
		err = x.s.refusal(err)
		if e, ok := errors.AsType[*mcp.Error](err); ok && e.Code == mcp.CodeURLElicitation {
			return x.urlRequired(e)
		}
		return nil, err
	}
	if mcp.ListMember(x.call.Method) == "" {
		x.s.listsAfter(x.call)
		return x.first.Reply(x.taskReply(result)), nil
	}
	return dialect.ReadList(x.call.Method, result)
}

// free ends the exchange. Its streams are not read any more.
func (x *exchange) free() {
	x.s.calls.remove(x)
	x.release()
	if x.first != nil {
		x.first.Close()
	}
	x.mu.Lock()
	x.room.Free()
	x.mu.Unlock()
	x.s.release()
}

// sayCancelled tells the server that its answer is no longer awaited. It does not depend on the
// caller, who may have left. Closing the connection would not tell the server (2025-11-25
// basic/utilities/cancellation). Over stdio the stream does it.
func (x *exchange) sayCancelled(ctx context.Context) {
	if x.s.env.Process {
		return
	}
	why := "the call timed out or its connection was lost"
	if ctx.Err() != nil {
		why = "the caller cancelled"
	}
	var taken <-chan struct{}
	if x.first != nil {
		taken = x.first.Taken()
	}
	x.s.hold() // keeps the session open until then
	x.s.env.Farewell(func() {
		defer x.s.release()
		if taken != nil { // a cancellation that arrives before its request has no effect
			select {
			case <-taken:
			case <-time.After(500 * time.Millisecond): // some servers are late to acknowledge a request
			case <-x.s.env.Base.Done():
			}
		}
		x.s.post(transport.Cancelled(x.id, context.Cause(ctx), why))
	})
}
