package front

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/refuse"
	"github.com/gatehouse-mcp/gatehouse/gateway/front/stream"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/session"
)

const (
	// maxStanding is how many GET streams of a session may be open: the connections
	// of clients that vanished count until they fail. The oldest goes first.
	maxStanding = 16
	// reconnect is what a client is told to wait before it comes back.
	reconnect = time.Second
)

// standing is an open GET stream of a session.
type standing struct {
	name   string // in the event log
	stream *stream.Stream
	done   chan struct{} // closed when another one takes its place
	plain  bool          // its events have no ids: it cannot be gone on with
}

// get answers a GET: the session's stream for what belongs to no request, or an
// earlier stream from where it broke off.
func (f *Front) get(w http.ResponseWriter, r *http.Request) {
	record, rev, caller, ref := f.ofSession(w, r)
	if ref == nil && !readAccept(r.Header["Accept"]).stream {
		ref = refuse.Accept("text/event-stream")
	}
	var after stream.Position
	if ref == nil {
		after, ref = readPosition(r.Header)
	}
	if ref == nil && closed(f.drain) && !after.IsCall() {
		ref = refuse.Closing()
	}
	g := &getting{f: f, record: record, rev: rev, caller: caller, after: after}
	if ref == nil {
		g.live, ref = f.liveOf(r.Context(), record)
	}
	if ref == nil {
		ref = g.find()
	}
	if ref == nil {
		ref = g.countIn()
	}
	if ref != nil {
		f.refuse(w, nil, ref)
		return
	}
	g.live.saw(caller)
	stream.CloseAfter(w, r)
	g.stream = f.writer.Begin(w, http.NewResponseController(w), "", func() { f.touch(record) })
	f.writer.Outlast(r, g.serve)
}

// getting is a GET request that is answered by a stream.
type getting struct {
	f      *Front
	record session.Record
	rev    *wire.Revision
	caller mcp.Caller
	after  stream.Position // where the client was, if it has been here before
	live   *live
	stream *stream.Stream
	known  bool             // after is in the stream of a call, of which
	first  reading          // this was read
	expire <-chan time.Time // tells once that the caller's proof has expired
}

// find looks for the stream of a call that is to be gone on with.
func (g *getting) find() *refuse.Refusal {
	if !g.after.IsCall() {
		return nil
	}
	var err error
	g.first, err = g.read(g.after.Name, g.after.Seq)
	if err != nil && !errors.Is(err, session.ErrNotFound) { // a new stream would never have the call's answer
		return g.f.refuseSession(err)
	}
	g.known = err == nil
	return nil
}

// countIn counts the stream in, among those that last; countOut counts it out.
func (g *getting) countIn() *refuse.Refusal {
	if !g.f.count(&g.f.streams) {
		return refuse.Closing()
	}
	if !g.f.streamLimit.take(&g.caller) && (g.after.IsCall() || !g.live.giveWay(g.after.Name) || !g.f.streamLimit.takeMore(&g.caller)) {
		g.f.streams.Done()
		return refuse.Streams(refuse.NoID)
	}
	return nil
}

func (g *getting) countOut() {
	g.f.streamLimit.give(&g.caller)
	g.f.streams.Done()
}

// serve writes the stream.
func (g *getting) serve(ctx context.Context, lasts func(*stream.Stream)) {
	defer g.countOut()
	stop := g.limit()
	defer stop()
	if g.known {
		lasts(g.stream)
		g.follow(ctx, g.first)
		return
	}
	g.prepare(ctx) // whose stack is not kept for as long as the stream is open
	g.stand(ctx, lasts)
}

// prepare does what comes before a stream for what belongs to no request.
func (g *getting) prepare(ctx context.Context) {
	if id := stream.RequestOf(g.live.key, g.after.Name); id != nil { // its answer was kept for as long as it is
		g.send("", wire.AppendError(nil, id, g.f.readable(g.rev, "", stream.CallOf(g.after.Name), refuse.DroppedError())))
	}
	if g.record.Initialized {
		g.live.listen(ctx, g.record, g.caller)
	}
}

// limit begins to watch the time; stop ends that.
func (g *getting) limit() (stop func()) {
	if g.caller.Expires.IsZero() {
		return func() {}
	}
	timer := time.NewTimer(time.Until(g.caller.Expires))
	g.expire = timer.C
	return func() { timer.Stop() }
}

// expired reports whether nothing may be delivered any more.
func (g *getting) expired() bool { return past(g.caller.Expires) }

// stand keeps the session's stream open until somebody ends it.
func (g *getting) stand(ctx context.Context, lasts func(*stream.Stream)) {
	st := &standing{name: stream.SessionName(g.f.callID()), stream: g.stream, done: make(chan struct{})}
	g.live.add(st, g.after, g.rev.Priming)
	g.stream.Open()
	lasts(g.stream)
	g.wait(ctx, st.done)
	g.live.remove(st)
	g.end()
}

// wait returns when the stream is to end, or more was closed.
func (g *getting) wait(ctx context.Context, more <-chan struct{}) (ended bool) {
	if g.expired() {
		return true
	}
	select {
	case <-g.expire:
	case <-more:
		return false
	case <-ctx.Done():
	case <-g.stream.Broken():
	case <-g.live.gone:
	case <-g.f.quiet:
		select {
		case <-more: // the end of the call that it follows, say
			return false
		default:
		}
	}
	return true
}

// end ends the connection. A client that reconnects by itself is told when; when its
// token has expired, it needs a new one for that.
func (g *getting) end() {
	expired := g.expired()
	if expired {
		g.stream.Raw(wire.AppendComment(nil, "the access token has expired"))
	}
	if g.rev.Priming || expired {
		g.stream.Raw(wire.AppendRetry(nil, reconnect))
	}
	g.stream.End("", nil)
}

// add makes the stream the one that events go to, and sends it what a stream before
// it did not get across, or what came while there was none.
func (l *live) add(st *standing, after stream.Position, priming bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if priming {
		if id := l.keep(st.name, nil); id != "" {
			st.stream.Send(id, nil)
		}
	}
	if after.Name != "" { // the client has given that one up
		l.streams = slices.DeleteFunc(l.streams, func(old *standing) bool {
			if old.name == after.Name {
				close(old.done)
			}
			return old.name == after.Name
		})
		// An error means that nothing is left of it: this is then a new stream.
		events, _, _, err := l.f.sessions.Log().Read(context.Background(), l.key, after.Name, after.Seq)
		l.f.metrics.resume(err)
		for _, e := range events {
			if len(e.Data) > 0 {
				st.stream.Send(l.keep(st.name, e.Data), e.Data)
			}
		}
	}
	if len(l.streams) == maxStanding {
		close(l.streams[0].done)
		l.streams = l.streams[1:]
	}
	l.streams = append(l.streams, st)
	for _, e := range l.waiting.take() {
		l.deliver(e)
	}
}

// Recall ends the GET streams of all sessions, and what is heard on their behalf, in good
// order: their clients come back and say anew who they are.
func (f *Front) Recall() {
	for _, l := range f.all() {
		l.stopListening()
		l.endStreams()
	}
}

func (l *live) endStreams() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, st := range l.streams {
		close(st.done)
	}
	l.streams = nil
}

// giveWay ends a stream of a session for a new one of its client: the one that the client
// has given up, else the oldest; false when it has none. Connections of clients that
// vanished count until they fail, and the clients come back before that.
func (l *live) giveWay(givenUp string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.streams) == 0 || l.streams[0].plain { // that one's end would be the session's
		return false
	}
	at := max(0, slices.IndexFunc(l.streams, func(st *standing) bool { return st.name == givenUp }))
	close(l.streams[at].done)
	l.streams = slices.Delete(l.streams, at, at+1)
	return true
}

func (l *live) remove(st *standing) {
	l.mu.Lock()
	l.streams = slices.DeleteFunc(l.streams, func(s *standing) bool { return s == st })
	l.mu.Unlock()
	_ = l.f.sessions.Log().End(context.Background(), l.key, st.name) // there may be no log of it
}

// keep puts an event into a stream's log and returns its id, "" without one.
func (l *live) keep(name string, data []byte) string {
	seq, err := l.f.sessions.Log().Append(context.Background(), l.key, name, data)
	if err != nil {
		return ""
	}
	return stream.EventID(name, seq)
}

// event takes what the session's listener hears.
func (l *live) event(e mcp.Event) {
	switch e.Method {
	case mcp.NoteToolsListChanged, mcp.NotePromptsListChanged, mcp.NoteResourcesListChanged, mcp.NoteSkillsListChanged, mcp.NoteResourceUpdated,
		mcp.NoteElicitationComplete:
	case mcp.NoteTask:
		l.taskStatus(e)
		return
	default:
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		l.deliver(e)
	}
}

// deliver is called with mu held. An event goes to one stream, or waits for one.
func (l *live) deliver(e mcp.Event) {
	if !l.send(e) && !l.waiting.put(e) {
		l.f.log.Warn("too many events wait for a client that has no stream open: one was dropped", "method", e.Method)
	}
}

// send is called with mu held. It sends an event on the newest stream that takes it
// (2025-11-25 basic/transports#multiple-connections); false when none does.
func (l *live) send(e mcp.Event) bool {
	for _, st := range slices.Backward(l.streams) {
		if !st.stream.Usable() {
			continue
		}
		data := wire.AppendNotification(nil, e.Method, e.Params)
		id := ""
		if !st.plain {
			id = l.keep(st.name, data)
		}
		if st.stream.Send(id, data) {
			return true
		}
	}
	return false
}

// redeliver tries again what a stream had no room for.
func (l *live) redeliver() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.waiting.take() {
		l.deliver(e)
	}
}
