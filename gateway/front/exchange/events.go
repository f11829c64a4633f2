package exchange

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/live"
	"github.com/gatehouse-mcp/gatehouse/gateway/front/stream"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// pending collects the events of a call until they are written to the event log together, as the
// stream writes to its client. None is sent before it is there. Questions and answers do not wait.
type pending struct {
	events  [][]byte
	size    int // in bytes
	written time.Time
	timer   *time.Timer // nil as long as none had to wait
}

// send sends an event on the stream. If there is an event log, the event is kept there first,
// whether or not the client is still connected. The caller holds mu.
func (x *Exchange) send(data []byte) {
	if x.fenced {
		return
	}
	x.sent(0, data)
	if x.logged == "" {
		x.deliver("", data)
		return
	}
	p := &x.pending
	p.events, p.size = append(p.events, bytes.Clone(data)), p.size+len(data)
	switch wait := stream.Gather - time.Since(p.written); {
	case wait <= 0 || p.size >= stream.Enough:
		x.flush()
	case p.timer == nil:
		p.timer = time.AfterFunc(wait, x.flushGathered)
	default:
		p.timer.Reset(wait)
	}
}

// flush keeps the pending events in the event log and sends them. The caller holds mu.
func (x *Exchange) flush() {
	p := &x.pending
	events := p.events
	if len(events) == 0 {
		return
	}
	p.events, p.size = nil, 0
	ids, ours := x.keep(events, false)
	p.written = time.Now()
	for i, data := range events {
		if ours {
			x.deliver(ids(i), data)
		}
	}
}

func (x *Exchange) flushGathered() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.over {
		x.flush()
	}
}

func (x *Exchange) deliver(id string, data []byte) {
	if !x.stream.Send(id, data) && x.stream.Usable() {
		x.e.Metrics.SlowEvents.Inc()
	}
}

// keep adds events to the event log. ids returns the id of each, "" if the session has ended or the
// stream cannot be resumed. ours is false if another replica, which considered this one gone, owns
// the session or has ended the stream. The caller holds mu.
func (x *Exchange) keep(events [][]byte, last bool) (ids func(int) string, ours bool) {
	log, h := x.e.Store.Log(), x.Home
	var seq uint64
	var err error
	switch ctx := context.Background(); {
	case last:
		seq, err = log.Finish(ctx, h, x.logged, events...)
	case x.begun:
		seq, err = log.Append(ctx, h, x.logged, events...)
	default:
		seq, err = log.Begin(ctx, h, x.logged, x.ID, events...)
		x.begun = err == nil
	}
	switch {
	case errors.Is(err, session.ErrEnded), errors.Is(err, session.ErrMoved):
		if !x.fenced { // the client has an answer that the call is lost: this would be a second one
			x.fenced = true
			x.e.Metrics.Fenced.Inc()
			x.e.Log.Warn("a call was taken to be lost with this replica, which was cut off: it is cancelled",
				failure.CallLost.Attr(), "call", x.Call.ID)
			x.Running.Cancel(live.ErrMoved)
		}
		return nil, false
	case err != nil:
		return func(int) string { return "" }, true
	}
	first := seq - uint64(len(events)-1)
	return func(i int) string { return stream.EventID(x.logged, first+uint64(i)) }, true
}

// last sends the events before the end of the stream, and returns the last one, nil for none.
func (x *Exchange) last(m message) (id string, data []byte) {
	if m.size() > 0 {
		data = m.appendTo(make([]byte, 0, m.size()))
	}
	switch {
	case x.logged == "":
		return "", data
	case data == nil:
		x.flush()
		_ = x.e.Store.Log().End(context.Background(), x.Home, x.logged) // fails if the log ended with its session
		return "", nil
	}
	before := x.pending.events
	ids, ours := x.keep(append(before, data), true)
	if !ours {
		return "", nil
	}
	for i, event := range before {
		x.deliver(ids(i), event)
	}
	return ids(len(before)), data
}
