package handover

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/feature/listchange"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// spread is the time over which listening calls move to a new Pipeline, to avoid a burst of work
// at a reload.
const spread = 500 * time.Millisecond

// listening is a subscriptions/listen call that moves from Pipeline to Pipeline.
type listening struct {
	call  *mcp.Call
	acked *mcp.Filter // the filter acknowledged to the client, nil before
}

// listen answers subscriptions/listen until the client or the last Pipeline ends it. If its caller is
// no longer valid on a new Pipeline, the call ends normally: the client listens and authenticates
// again.
func (s *Switch) listen(ctx context.Context, c *mcp.Call, pipeline *Pipeline) (*mcp.Reply, error) {
	l := &listening{call: c}
	var before *Pipeline
	for {
		reply, err := s.listenOn(ctx, l, before, pipeline)
		next := s.now.Load()
		if ctx.Err() != nil || next == pipeline {
			return reply, err
		}
		holds := false
		mcp.Aside(func() { holds = next.Holds(ctx, &c.Caller) })
		if !holds {
			return &mcp.Reply{Result: mcp.Raw(`{}`)}, nil
		}
		if l.acked != nil {
			before = pipeline
			pause(ctx)
			next = s.now.Load()
		}
		pipeline = next
	}
}

// listenOn listens on a Pipeline until that ends. If the Pipeline has been replaced, and a server of it was
// closed before it could be asked, it ends at once: the next Pipeline is asked.
func (s *Switch) listenOn(ctx context.Context, l *listening, before, pipeline *Pipeline) (*mcp.Reply, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	call := l.on(ctx, before, pipeline)
	notify := call.Notify
	var closed atomic.Bool
	call.Notify = func(e mcp.Event) {
		if e.Method == mcp.NoteAcknowledged && l.acked == nil && s.now.Load() != pipeline && anyClosed(e.Failed) {
			closed.Store(true)
			cancel()
		}
		if !closed.Load() { // when the client ends it, earlier events are still passed on
			notify(e)
		}
	}
	return pipeline.Handler.Handle(ctx, call)
}

// anyClosed reports whether a resource is not honoured because its upstream was being closed.
func anyClosed(failed map[string]error) bool {
	for _, err := range failed {
		if closedBefore(err) {
			return true
		}
	}
	return false
}

func pause(ctx context.Context) {
	timer := time.NewTimer(rand.N(spread))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// on returns the call to make on a Pipeline; before is the previous Pipeline, nil for the first.
func (l *listening) on(ctx context.Context, before, pipeline *Pipeline) *mcp.Call {
	call := l.call.Clone()
	if before != nil { // never more than what was acknowledged
		call.Params = l.acked.In(call.Params)
	}
	call.Notify = func(e mcp.Event) {
		switch {
		case e.Method != mcp.NoteAcknowledged:
		case before != nil:
			l.compare(ctx, before, pipeline, e.Params)
			return
		default:
			acked, _ := mcp.FilterOf(e.Params)
			l.acked = &acked
		}
		l.call.Notify(e)
	}
	return call
}

// compare tells the client which lists look different on the new Pipeline. Changes of resources
// in between are unknown, so each resource counts as updated.
func (l *listening) compare(ctx context.Context, before, pipeline *Pipeline, acked mcp.Raw) {
	reader := listchange.NewReader(l.call)
	for _, change := range l.acked.Lists.Events() {
		list := mcp.ListsChanged(change.Method)
		was, knownBefore := reader.Sum(ctx, before.Lists, list)
		is, known := reader.Sum(ctx, pipeline.Lists, list)
		if !known || !knownBefore || was != is {
			l.call.Notify(change)
		}
	}
	honoured, _ := mcp.FilterOf(acked)
	for _, uri := range honoured.URIs {
		l.call.Notify(mcp.ResourceUpdated(uri))
	}
}
