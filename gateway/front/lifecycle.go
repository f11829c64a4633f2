package front

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/refuse"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// lifecycle counts what runs at the endpoint, and says when long-lived requests have to end.
type lifecycle struct {
	requests   atomic.Int64    // what begin and countMore have counted in
	running    sync.WaitGroup  // requests, listeners and calls that wait for answers; see begin
	streams    sync.WaitGroup  // GET streams; likewise
	draining   context.Context // ended by Drain: nothing long-lived begins, and subscriptions end
	beginDrain context.CancelFunc
	quiet      context.Context // ends when nothing runs any more, or may run any longer: streams end
	endStreams context.CancelFunc

	mu      sync.Mutex // guards closing
	closing bool
}

// begin counts a request in; done counts it out. It returns false if the endpoint is closing:
// then only countMore counts.
func (l *lifecycle) begin() bool {
	if !l.count(&l.running) {
		return false
	}
	l.requests.Add(1)
	return true
}

// countMore counts something in even if the endpoint is closing. The caller is itself counted.
func (l *lifecycle) countMore() {
	l.running.Add(1)
	l.requests.Add(1)
}

func (l *lifecycle) done() {
	l.requests.Add(-1)
	l.running.Done()
}

// Calls returns how many calls and other requests run here, including those that wait for
// their user. Streams do not count.
func (l *lifecycle) Calls() int64 { return l.requests.Load() }

func (l *lifecycle) count(in *sync.WaitGroup) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closing {
		return false
	}
	in.Add(1)
	return true
}

// countStream counts a stream of a session in, unless its user is at the bound and makeRoom,
// which then takes one, fails. uncountStream counts it out.
func (f *Front) countStream(c *mcp.Caller, makeRoom func() bool) *refuse.Refusal {
	if !f.count(&f.streams) {
		return refuse.Closing()
	}
	if !f.streamLimit.take(c) && !makeRoom() {
		f.streams.Done()
		return refuse.Streams(refuse.NoID)
	}
	return nil
}

func (f *Front) uncountStream(c *mcp.Caller) {
	f.streamLimit.give(c)
	f.streams.Done()
}

// drains reports whether nothing long-lived may begin.
func (l *lifecycle) drains() bool { return l.draining.Err() != nil }

// Drain refuses new sessions, GET streams and subscriptions, which should begin elsewhere, and
// ends the subscriptions of stateless clients. Calls continue, and new ones are accepted.
// elsewhere says that another replica can continue the sessions: then those for which nothing
// runs are given up, as far as ctx allows, and their GET streams end, so that their clients come
// back there. Close is the next step.
func (f *Front) Drain(ctx context.Context, elsewhere bool) {
	f.beginDrain()
	if elsewhere {
		f.EndStreams()
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
	f.beginDrain()
	f.lifecycle.mu.Lock()
	f.closing = true
	f.lifecycle.mu.Unlock()
	f.StopListening()
	ended := make(chan struct{})
	go func() { // ends with the last request and the last stream
		f.running.Wait()
		f.endStreams()
		f.streams.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
	}
	cut := f.CancelAll() + f.waiting.dropAll()
	select {
	case <-ended:
		if cut > 0 {
			return fmt.Errorf("front: calls were cut off (%d): %w", cut, ctx.Err())
		}
		return nil
	case <-time.After(time.Second):
		f.endStreams()
		f.writer.CutHijacked()
		return fmt.Errorf("front: requests still run: %w", ctx.Err())
	}
}
