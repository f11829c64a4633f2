package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/upstream/admit"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
)

// maxPending and pendingBytes bound the events that wait for a listener; more are the same
// as a lost stream.
const (
	maxPending   = 1000
	pendingBytes = 1 << 20
)

// keep is what outlives a session in its slot: the log level, the subscriptions, who
// listens, and where the user was sent.
type keep struct {
	pages  pages
	shared bool // by several clients; not changed

	mu      sync.Mutex // guards the fields below
	roots   roots
	level   string
	uris    map[string]int // by how many listeners
	listens map[*listening]struct{}
	leaving map[string]chan struct{} // resources that are being unsubscribed; closed when they are
	asking  map[string]*asking       // of uris: the last request that subscribes to it; nil for one that has
}

// listening is one subscriptions/listen at a stateful server.
type listening struct {
	want  mcp.Filter // as far as the server has it
	tasks bool       // also all that the session has
	wake  chan struct{}

	mu      sync.Mutex // guards the fields below
	pending []mcp.Event
	bytes   int // of them
	err     error
}

func newKeep(shared bool) *keep {
	return &keep{
		shared: shared,
		uris:   make(map[string]int), listens: make(map[*listening]struct{}), leaving: make(map[string]chan struct{}), asking: make(map[string]*asking),
	}
}

func (k *keep) setLevel(level string) {
	k.mu.Lock()
	k.level = level
	k.mu.Unlock()
}

func (k *keep) state() (level string, uris []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for uri := range k.uris {
		uris = append(uris, uri)
	}
	return k.level, uris
}

func (k *keep) add(l *listening) {
	k.mu.Lock()
	k.listens[l] = struct{}{}
	k.mu.Unlock()
}

func (k *keep) remove(l *listening) {
	k.mu.Lock()
	delete(k.listens, l)
	k.mu.Unlock()
}

// expect has updates of resources kept for a listener.
func (k *keep) expect(l *listening, uris []string) {
	k.mu.Lock()
	l.want.URIs = uris
	k.mu.Unlock()
}

// event hands a notification to the listeners that want it.
func (k *keep) event(m wire.Message) {
	event := mcp.Event{Method: m.Method, Params: mcp.Raw(`{}`)}
	var updated string
	switch m.Method {
	case mcp.NoteResourceUpdated:
		uri, _ := m.Params.Member("uri")
		event.Params, updated = mcp.Object("uri", uri), uri.Text()
	case wire.NoteTaskStatus:
		event = mcp.Event{Method: mcp.NoteTask, Params: bytes.Clone(wire.ReadTask(m.Params.Without("_meta")))}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	whose := updated != "" && (k.shared || k.subscribed(updated))
	for l := range k.listens {
		if l.wants(event) && (!whose || l.subscribed(updated)) {
			l.put(event)
		}
	}
}

// subscribed reports whether anybody subscribed to a resource or to what it is a part of.
// Where nobody did as far as its URI tells, the server means a part of something, and every
// subscriber may have, if all are the same client. k.mu is held.
func (k *keep) subscribed(uri string) bool {
	for own := range k.uris {
		if partOf(uri, own) {
			return true
		}
	}
	return false
}

func (l *listening) subscribed(uri string) bool {
	return slices.ContainsFunc(l.want.URIs, func(own string) bool { return partOf(uri, own) })
}

// partOf reports whether a resource is another one or, by its path, below it.
func partOf(uri, whole string) bool {
	rest, ok := strings.CutPrefix(uri, whole)
	return ok && (rest == "" || strings.HasSuffix(whole, "/") || strings.ContainsRune("/?#", rune(rest[0])))
}

// missed tells the listeners that everything may have changed while nobody heard it.
func (k *keep) missed() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for l := range k.listens {
		for _, event := range l.want.Missed() {
			l.put(event)
		}
	}
}

// end ends all listening.
func (k *keep) end(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for l := range k.listens {
		l.fail(err)
	}
}

// wants reports whether the listener asked for this, of whatever resource.
func (l *listening) wants(e mcp.Event) bool {
	if e.Method == mcp.NoteTask {
		return l.tasks || slices.Contains(l.want.Tasks, mcp.TaskID(e.Params))
	}
	return l.want.Lets(e.Method)
}

// put queues an event, unless the same one waits already.
func (l *listening) put(event mcp.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, waiting := range l.pending {
		if waiting.Method == event.Method && bytes.Equal(waiting.Params, event.Params) {
			return
		}
	}
	if len(l.pending) >= maxPending || l.bytes+len(event.Params) > pendingBytes {
		l.err = fmt.Errorf("%w: too many events", transport.ErrBroken)
	} else {
		l.pending = append(l.pending, event)
		l.bytes += len(event.Params)
	}
	l.signal()
}

func (l *listening) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = err
	l.signal()
}

func (l *listening) signal() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (l *listening) take() ([]mcp.Event, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	events := l.pending
	l.pending, l.bytes = nil, 0
	return events, l.err
}

// listenStateful makes a subscription out of what stateful servers have: the
// standing stream and resources/subscribe. It outlives a session that is lost.
func (u *Upstream) listenStateful(ctx context.Context, e *era, c *mcp.Call) (*mcp.Reply, error) {
	want, err := mcp.FilterOf(c.Params)
	if err != nil {
		return nil, err
	}
	s, err := u.sessionFor(ctx, e, c)
	if err != nil {
		return nil, err
	}
	l := &listening{wake: make(chan struct{}, 1), tasks: c.Tasks == mcp.CoreTasks && s.server.tasks}
	k := s.slot.keep
	defer func() {
		k.remove(l)
		s.unsubscribe(l)
		u.pool.release(s)
	}()
	k.add(l)
	s.stand()
	ack, ok := s.honour(ctx, l, want)
	if !ok { // the session is lost; another one has what this one had
		u.pool.lose(s)
		if s, err = u.another(ctx, e, c, s); err != nil {
			return nil, err
		}
		s.stand()
		if ack, ok = s.honour(ctx, l, want); !ok {
			return nil, transport.ErrEnded
		}
	}
	c.Notify(ack)
	for {
		select {
		case <-l.wake:
			events, err := l.take()
			for _, event := range events {
				if event, ok := s.inForm(ctx, c, event); ok {
					c.Notify(event)
				}
			}
			if err != nil {
				return nil, err
			}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-s.base.Done():
			if u.base.Err() != nil {
				return nil, errClosed
			}
			if _, err := l.take(); err != nil { // the client's session has ended, not only this one
				return nil, err
			}
			if s, err = u.another(ctx, e, c, s); err != nil {
				return nil, err
			}
			k.missed()
		}
	}
}

// another returns the session that takes the place of a lost one, which is released. With
// an error it returns the lost one.
func (u *Upstream) another(ctx context.Context, e *era, c *mcp.Call, lost *session) (*session, error) {
	next, err := u.sessionFor(ctx, e, c)
	if err != nil {
		return lost, err
	}
	if next.slot != lost.slot {
		u.pool.release(next)
		return lost, transport.ErrEnded
	}
	u.pool.release(lost)
	return next, nil
}

// honour subscribes to what the server has of what is wanted, and returns what is to be
// said of that. It reports false, and nothing is subscribed, where the session turns out to
// be lost.
func (s *session) honour(ctx context.Context, l *listening, want mcp.Filter) (said mcp.Event, ok bool) {
	k := s.slot.keep
	honoured := mcp.Filter{Lists: want.Lists & s.server.lists}
	var failed map[string]error
	var err error
	honoured.URIs, failed, err = s.subscribeAll(ctx, l, want.URIs)
	if errors.Is(err, transport.ErrSessionGone) {
		for _, uri := range honoured.URIs {
			k.unsubscribe(uri)
		}
		k.expect(l, nil)
		return said, false
	}
	if s.server.tasks {
		honoured.Tasks = want.Tasks[:min(len(want.Tasks), maxPending/2)]
	}
	k.mu.Lock()
	l.want = honoured
	k.mu.Unlock()
	return mcp.Event{Method: mcp.NoteAcknowledged, Params: honoured.In(nil), Failed: failed}, true
}

// listenStateless passes a subscription through (2026-07-28 basic/patterns/subscriptions).
func (u *Upstream) listenStateless(ctx context.Context, e *era, c *mcp.Call) (*mcp.Reply, error) {
	conn, release, err := u.statelessConn(ctx, e, c)
	if err != nil {
		return nil, err
	}
	defer release()
	life, err := u.life(ctx, true)
	if err != nil {
		return nil, err
	}
	room := u.memory.Outside(u.cfg.Name, admit.User(&c.Caller))
	defer room.Free()
	life.Room.Store(room)
	id := u.ids.Add(1)
	declared := capabilities{raw: "{}"}
	if c.Session == "" {
		declared = u.neutral(e.rev)
	} else if want, _ := mcp.FilterOf(c.Params); len(want.Tasks) > 0 {
		declared = declare(c.Caps, e.rev)
	}
	out := outgoing{id: id, call: c, rev: e.rev, meta: u.statelessMeta(e.rev, declared.raw, "")}
	stream, err := conn.Start(&transport.Request{
		ID: id, Method: c.Method, Caller: &c.Caller, Life: life,
		Body: out.appendRequest(nil), Header: statelessHeader(conn, e.rev, c.Method, ""),
	})
	if err != nil {
		return nil, statelessRefusal(life.Why(err))
	}
	defer stream.Close()
	for {
		m, err := stream.Next()
		switch {
		case err != nil:
			return nil, life.Why(err)
		case answers(m, id) && m.Error != nil:
			return nil, wire.ReadError(m.Error)
		case answers(m, id):
			return &mcp.Reply{Result: mcp.Raw(`{}`)}, nil
		}
		switch m.Method {
		case mcp.NoteAcknowledged, mcp.NoteToolsListChanged, mcp.NotePromptsListChanged,
			mcp.NoteResourcesListChanged, mcp.NoteSkillsListChanged, mcp.NoteResourceUpdated:
			params := m.Params.Without("_meta")
			if params == nil {
				params = mcp.Raw(`{}`)
			}
			c.Notify(mcp.Event{Method: m.Method, Params: params})
		case mcp.NoteTask:
			// What asks what it was told cannot be asked is nothing to be told of.
			if task, err := u.openTask(declared, m.Params.Without("_meta")); err == nil && declared.tasks {
				c.Notify(mcp.Event{Method: m.Method, Params: task})
			}
		}
	}
}
