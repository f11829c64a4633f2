package upstream

import (
	"bytes"
	"context"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
)

// A session has one standing stream, at one replica: many servers take no second one, and
// of several each message comes on one only. What comes on it may be for a call, or for
// somebody who listens, at another replica: the others are told. So are they of what one
// of them says to the server and what changes what the others know.
const (
	aboutMessage    = 'm' // a message that came on the standing stream
	aboutLevel      = 'l' // the log level was set
	aboutSubscribed = 's' // somebody listens to a resource there
	aboutLeft       = 'f' // nobody does any more
	aboutGone       = 'u' // nor is it subscribed any more
	aboutMissed     = 'x' // some of this could not be told
	aboutFree       = 'o' // the standing stream is nobody's
	aboutYielded    = 'y' // the place of a session that only one can have is free; its tag
	aboutAsked      = 'q' // a question waits at this replica
)

const (
	// claimWait is how long another replica has to say that a question is for a call there.
	claimWait = 300 * time.Millisecond
	// maxTold bounds what others told and nobody has looked at yet.
	maxTold = 1000
)

// told is what another replica said of a session.
type told struct {
	at      bindingKey
	message []byte
}

// Hear takes what another replica told (Shared.Tell) of the session at a place. It does
// not wait, and keeps the message.
func (u *Upstream) Hear(session, server string, message []byte) {
	if tag, ok := bytes.CutPrefix(message, []byte{aboutYielded}); ok {
		u.pool.yielded(bindingKey{session, server}, string(tag))
		return
	}
	s := u.pool.at(bindingKey{session, server})
	if u.told == nil || s == nil {
		return
	}
	select {
	case u.told <- told{bindingKey{session, server}, message}:
	default:
		u.log.Warn("too much comes from other replicas at a time: a message of a session was dropped")
		s.slot.keep.missed()
	}
}

// Rejoin is told that what other replicas told (Shared.Tell) may have been lost. Who
// listens here is told that everything may have changed, and whose the places are that were
// this replica's is looked up.
func (u *Upstream) Rejoin() {
	u.spawn(func() { u.pool.keepClaims(true) })
	if u.told == nil {
		return
	}
	var sessions []*session
	u.pool.mu.Lock()
	for _, sl := range u.pool.places {
		if s := sl.current; s != nil && s.bound != nil && !s.bound.open && sl.keep.heard() {
			sessions = append(sessions, s)
		}
	}
	u.pool.mu.Unlock()
	u.spawn(func() { u.inherit(u.pool.askable(), "") })
	if len(sessions) == 0 {
		return
	}
	u.spawn(func() {
		for _, s := range sessions {
			s.catchUp()
		}
	})
}

// heed takes, one after the other, what others told, until Close.
func (u *Upstream) heed() {
	for {
		select {
		case t := <-u.told:
			if s := u.pool.at(t.at); s != nil && len(t.message) > 0 {
				s.heed(t.message[0], t.message[1:])
			}
		case <-u.base.Done():
			return
		}
	}
}

func (s *session) heed(about byte, text []byte) {
	switch about {
	case aboutLevel:
		level := string(text)
		s.level.Store(&level)
	case aboutFree:
		select {
		case s.freed <- struct{}{}:
		default:
		}
	case aboutAsked:
		s.asksAt(string(text))
	case aboutMissed:
		if s.slot.keep.heard() {
			s.u.spawn(s.catchUp)
		}
	case aboutSubscribed:
		replica, uri, _ := strings.Cut(string(text), " ")
		s.slot.keep.wantedBy(uri, replica)
	case aboutLeft:
		replica, uri, _ := strings.Cut(string(text), " ")
		if to, all := s.slot.keep.leftBy(uri, replica); all {
			s.u.spawn(func() { s.letGo(uri, s.u.shared.Self() > to) })
		}
	case aboutGone:
		if uri := string(text); s.slot.keep.gone(uri) {
			s.u.spawn(func() { s.mend(s.resubscribe([]string{uri})) })
		}
	case aboutMessage:
		m, err := transport.Scan(text)
		switch {
		case err != nil:
			s.u.log.Debug("message of another replica not read", "error", err)
		case m.Kind == wire.Request:
			if s.answerable(m) {
				m = transport.Owned(m)
				s.u.spawn(func() { s.answerFirst(m) })
			}
		case m.Kind == wire.Notification:
			s.deliver(m)
		}
	}
}

// tellOthers tells the other replicas something of the session.
func (s *session) tellOthers(ctx context.Context, about byte, text []byte) {
	if s.bound == nil || s.u.pool.only(s) {
		return
	}
	message := append(append(make([]byte, 0, len(text)+1), about), text...)
	if err := s.u.shared.Tell(ctx, s.bound.at, message); err != nil {
		s.u.log.Debug("other replicas not told of a session", "error", err)
		s.u.pool.setUntold(s, true)
	}
}

// tellMissed makes up for what the others could not be told.
func (s *session) tellMissed(ctx context.Context) {
	if s.u.pool.setUntold(s, false) {
		s.tellOthers(ctx, aboutMissed, nil)
	}
}

func (p *pool) setUntold(s *session, is bool) (was bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	was, s.bound.untold = s.bound.untold, is
	return was
}

// hear takes what came on the standing stream.
func (s *session) hear(m wire.Message) {
	switch {
	case m.Kind == wire.Response:
	case s.bound == nil:
		s.deliver(m)
	case m.Kind == wire.Notification:
		s.deliver(m)
		s.tellOthers(s.base, aboutMessage, wire.AppendNotification(nil, m.Method, m.Params))
	case m.Method == mcp.MethodPing, s.declared.refuses(m.Method, m.Params) != nil, s.answerable(m):
		s.deliver(m)
	default:
		s.ask(m)
	}
}

// ask offers the others a question that no call here is there for.
func (s *session) ask(m wire.Message) {
	m = transport.Owned(m)
	if m.Method == mcp.MethodRootsList { // the next call here may answer as well
		s.deliver(m)
	}
	s.tellOthers(s.base, aboutMessage, wire.AppendRequest(nil, m.ID, m.Method, m.Params))
	if m.Method == mcp.MethodRootsList {
		return
	}
	s.u.spawn(func() {
		if wait(s.base, claimWait) == nil && s.mine(m.ID) {
			s.deliver(m)
		}
	})
}

// answerable reports whether a question of the server can be answered here.
func (s *session) answerable(m wire.Message) bool {
	if m.Method == mcp.MethodRootsList && s.slot.keep.knownRoots().answer != nil {
		return true
	}
	if x := s.taskOf(m); x != nil {
		return !x.over()
	}
	x := s.sole()
	return x != nil && x.elsewhere && !x.over() && mcp.CanAsk(x.call.Method)
}

// answerFirst takes a question that came on another replica's stream, unless another one does.
func (s *session) answerFirst(m wire.Message) {
	if s.mine(m.ID) {
		s.deliver(m)
	}
}

// mine reports whether this replica is to answer a question of the server. Where that
// cannot be told it is the one that heard it.
func (s *session) mine(id mcp.Raw) bool {
	if s.bound == nil {
		return true
	}
	ours, err := s.u.shared.Claim(s.base, s.bound.at, s.bound.kept.Tag+string(id))
	return ours || err != nil && s.u.pool.streams(s)
}

// streams reports whether the standing stream of a session is open here.
func (p *pool) streams(s *session) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return s.bound.open
}

// setStream notes whether the standing stream is open here.
func (s *session) setStream(open bool) {
	if s.bound == nil {
		return
	}
	s.u.pool.mu.Lock()
	defer s.u.pool.mu.Unlock()
	s.bound.open = open
}

// unstand gives the standing stream to whoever wants it next.
func (s *session) unstand() {
	if s.bound == nil {
		return
	}
	s.u.pool.mu.Lock()
	stands := s.bound.stands
	s.u.pool.mu.Unlock()
	if !stands {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.base), goodbye)
	defer cancel()
	if _, err := s.u.pool.keep(ctx, s, -1, ""); err == nil { // or its time ends it
		s.tellOthers(ctx, aboutFree, nil)
	}
}

// heard reports whether anybody listens.
func (k *keep) heard() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.listens) > 0
}

// catchUp has those who listen know that something may have been missed, and what they
// subscribed to is subscribed, whatever another replica did.
func (s *session) catchUp() {
	_, uris := s.slot.keep.state()
	uris = s.resubscribe(uris)
	s.slot.keep.missed()
	s.mend(uris)
}
