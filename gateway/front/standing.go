package front

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"time"

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
	stream *stream
	done   chan struct{} // closed when another one takes its place
	plain  bool          // its events have no ids: it cannot be gone on with
}

// get answers a GET: the session's stream for what belongs to no request, or an
// earlier stream from where it broke off.
func (f *Front) get(w http.ResponseWriter, r *http.Request) {
	record, rev, caller, ref := f.ofSession(r)
	if ref == nil && !readAccept(r.Header["Accept"]).stream {
		ref = refuseAccept("text/event-stream")
	}
	var after position
	if ref == nil {
		after, ref = readPosition(r.Header)
	}
	if ref == nil && (closed(f.drain) && !after.isCall() || !f.count(&f.streams)) {
		ref = refuseClosing()
	} else if ref == nil {
		defer f.streams.Done()
	}
	var l *live
	if ref == nil {
		l, ref = f.liveOf(r.Context(), record)
	}
	if ref == nil && !f.openStream(caller, false) && (after.isCall() || !l.giveWay(after.name) || !f.openStream(caller, true)) {
		ref = refuseStreams(noID)
	}
	if ref != nil {
		f.refuse(w, nil, ref)
		return
	}
	defer f.closeStream(caller)
	l.saw(caller)
	g := &getting{f: f, r: r, record: record, rev: rev, live: l, until: caller.Expires}
	stop := g.limit()
	defer stop()
	known, first := false, reading{}
	if after.isCall() {
		var err error
		first, err = g.read(after.name, after.seq)
		if errors.Is(err, session.ErrUnavailable) { // a new stream would never have the call's answer
			f.refuse(w, nil, f.refuseSession(err))
			return
		}
		known = err == nil
	}
	g.stream = f.newStream(w, http.NewResponseController(w), func() { f.touch(record) })
	if known {
		g.follow(after, first)
		return
	}
	if id := requestOf(l.key, after.name); id != nil { // its answer was kept for as long as it is
		g.send("", wire.AppendError(nil, id, f.readable(rev, "", callOf(after.name), droppedError())))
	}
	if record.Initialized {
		l.listen(r.Context(), record, caller)
	}
	g.stand(after)
}

// getting is a GET request that is answered by a stream.
type getting struct {
	f      *Front
	r      *http.Request
	record session.Record
	rev    *wire.Revision
	live   *live
	stream *stream
	until  time.Time        // when its caller's proof expires, zero for never
	expire <-chan time.Time // tells of it once
}

// limit begins to watch the time; stop ends that.
func (g *getting) limit() (stop func()) {
	if g.until.IsZero() {
		return func() {}
	}
	timer := time.NewTimer(time.Until(g.until))
	g.expire = timer.C
	return func() { timer.Stop() }
}

// expired reports whether nothing may be delivered any more.
func (g *getting) expired() bool { return past(g.until) }

// stand keeps the session's stream open until somebody ends it.
func (g *getting) stand(after position) {
	st := &standing{name: standStream + g.f.callID(), stream: g.stream, done: make(chan struct{})}
	g.live.add(st, after, g.rev.Priming)
	g.stream.open()
	unclaim := g.live.claimStream(g.r.Context(), after.name)
	g.wait(st.done, nil)
	g.live.remove(st)
	g.end()
	unclaim()
}

// wait returns when the stream is to end, or more or gone was closed.
func (g *getting) wait(more, gone <-chan struct{}) (ended bool) {
	if g.expired() {
		return true
	}
	select {
	case <-g.expire:
	case <-more:
		return false
	case <-gone:
		return false
	case <-g.r.Context().Done():
	case <-g.stream.brokenOff():
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
		g.stream.sendRaw(wire.AppendComment(nil, "the access token has expired"))
	}
	if g.rev.Priming || expired {
		g.stream.sendRaw(wire.AppendRetry(nil, reconnect))
	}
	g.stream.end("", nil)
}

// add makes the stream the one that events go to, and sends it what a stream before
// it did not get across, or what came while there was none.
func (l *live) add(st *standing, after position, priming bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if priming {
		if id := l.keep(st.name, nil); id != "" {
			st.stream.send(id, nil)
		}
	}
	if after.name != "" { // the client has given that one up
		l.streams = slices.DeleteFunc(l.streams, func(old *standing) bool {
			if old.name == after.name {
				close(old.done)
			}
			return old.name == after.name
		})
		// An error means that nothing is left of it: this is then a new stream.
		events, _, _, err := l.f.sessions.Log().Read(context.Background(), l.key, after.name, after.seq)
		l.f.metrics.resume(err)
		for _, e := range events {
			if len(e.Data) > 0 {
				st.stream.send(l.keep(st.name, e.Data), e.Data)
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
	f.mu.Lock()
	lives := slices.Collect(maps.Values(f.lives))
	f.mu.Unlock()
	for _, l := range lives {
		l.stopListening()
		l.mu.Lock()
		for _, st := range l.streams {
			close(st.done)
		}
		l.streams = nil
		l.mu.Unlock()
	}
}

func (l *live) remove(st *standing) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.streams = slices.DeleteFunc(l.streams, func(s *standing) bool { return s == st })
	_ = l.f.sessions.Log().End(context.Background(), l.key, st.name) // there may be no log of it
}

// keep puts an event into a stream's log and returns its id, "" without one.
func (l *live) keep(name string, data []byte) string {
	seq, err := l.f.sessions.Log().Append(context.Background(), l.key, name, data)
	if err != nil {
		return ""
	}
	return eventID(name, seq)
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
		if !st.stream.usable() {
			continue
		}
		data := wire.AppendNotification(nil, e.Method, e.Params)
		id := ""
		if !st.plain {
			id = l.keep(st.name, data)
		}
		if st.stream.send(id, data) {
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
