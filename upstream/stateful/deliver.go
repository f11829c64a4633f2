package stateful

import (
	"bytes"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/upstream/dialect"
)

// deliver handles a message that came outside of a call's own stream.
func (s *session) deliver(m wire.Message) {
	switch m.Kind {
	case wire.Request:
		x := s.calls.ofTask(m)
		if !namesTask(m) {
			x = s.calls.asker()
		}
		if x != nil {
			dialect.Saw(x.follows(), m)
		}
		s.serve(m, x, false)
	case wire.Notification:
		var x *exchange // nil if it is unclear
		switch {
		case m.Method == mcp.NoteProgress:
			x = s.calls.find(func(x *exchange) bool { return x.owns(m) })
		case !s.shared():
			x = s.calls.only()
		}
		s.note(m, x)
	}
}

// note handles a notification; x is the call that it belongs to, nil for none.
func (s *session) note(m wire.Message, x *exchange) {
	switch m.Method {
	case mcp.NoteProgress, mcp.NoteMessage:
		e := mcp.Event{Method: m.Method, Params: m.Params}
		if x != nil && x.ours { // its caller knows of no task
			e.Params = unrelate(e.Params)
		}
		switch {
		case x != nil && x.tell(e), m.Method == mcp.NoteProgress:
		case s.shared():
			dialect.LogOnly(s.d.said, m)
		default: // the session is one client's alone
			s.tell(e)
		}
	case mcp.NoteCancelled:
		id, _ := m.Params.Member("requestId")
		for _, x := range s.calls.list() {
			x.withdraw(id)
		}
	case mcp.NoteElicitationComplete:
		s.completed(m)
	case mcp.NoteToolsListChanged, mcp.NotePromptsListChanged, mcp.NoteResourcesListChanged, mcp.NoteSkillsListChanged:
		s.state.Tell(mcp.Event{Method: m.Method, Params: mcp.Raw(`{}`)})
		s.lists(mcp.SessionLists{Lists: mcp.ListsChanged(m.Method), Told: true})
	case mcp.NoteResourceUpdated:
		s.state.Tell(mcp.Event{Method: m.Method, Params: mcp.Object("uri", m.Params.At("uri"))})
	case wire.NoteTaskStatus:
		s.state.Tell(mcp.Event{Method: mcp.NoteTask, Params: bytes.Clone(wire.ReadTask(m.Params.Without("_meta")))})
	}
}

// serve answers a request of the server, or makes it a question of a call. certain says that no
// other call can have asked it.
func (s *session) serve(m wire.Message, x *exchange, certain bool) {
	if waits := s.calls.ofTask(m); waits != nil {
		x, certain = waits, true
	}
	if m.Method == mcp.MethodPing {
		s.post(wire.AppendResult(nil, m.ID, nil))
		return
	}
	why := s.declared.Refuses(m.Method, m.Params)
	switch {
	case why != nil:
	case s.shared():
		s.post(forNobody(m))
		return
	case m.Method == mcp.MethodRootsList && (x == nil || x.over() || !mcp.CanAsk(x.call.Method)):
		s.roots.ask(m.ID)
		return
	case x == nil || x.over():
		s.post(unrelated(m.ID))
		return
	default:
		if why = x.ask(m, certain); why != nil && !certain && x.over() { // it has ended just now
			s.deliver(m)
			return
		}
	}
	if why != nil {
		s.post(wire.AppendError(nil, m.ID, why))
	}
}

// forNobody answers a question in one of the gateway's own sessions, which has no user.
func forNobody(m wire.Message) []byte {
	switch m.Method {
	case mcp.MethodRootsList:
		return wire.AppendResult(nil, m.ID, mcp.Raw(`{"roots":[]}`))
	case mcp.MethodElicit:
		return wire.AppendResult(nil, m.ID, mcp.Raw(`{"action":"cancel"}`))
	}
	return wire.AppendError(nil, m.ID, mcp.Errorf(failure.QuestionRefused,
		"this session has no user who could be asked").WithCode(codeRejected))
}

// unrelated answers a request of the server for which no call is left: the client cannot be
// asked outside of a call.
func unrelated(id mcp.Raw) []byte { return wire.AppendError(nil, id, errUnrelated) }

var errUnrelated = mcp.Errorf(failure.QuestionRefused,
	"the request belongs to no call that is under way").WithCode(mcp.CodeInvalidParams)

// completed reports that the user is done at a URL: to the call that asked, if it still
// runs, otherwise to the client's session. Clients without a session come back by
// themselves.
func (s *session) completed(m wire.Message) {
	ours, request, ok := s.state.Pages.Complete(m.Params.At("elicitationId").Text())
	if !ok {
		return
	}
	event := mcp.Event{Method: m.Method, Params: mcp.Object("elicitationId", mcp.String(ours))}
	if x := s.calls.find(func(x *exchange) bool { return x.id == request }); x != nil && x.tell(event) {
		return
	}
	s.tell(event)
}

// tell passes on an event to the client's session that owns this session at the server, if there is
// one.
func (s *session) tell(e mcp.Event) {
	if tell := s.d.cfg.Tell; tell != nil && !s.shared() && !s.at.Sweeps {
		tell(s.at.Key.session, e)
	}
}

// A server may show something else in a client's own session than to others, because of what was
// done there. It says so by list_changed, which is heard on the pipe or the GET stream. Where it
// does not declare that it would, or the gateway would not hear it, lists may have changed after
// each call of a tool.

// lists passes on news of the lists of a client's own session.
func (s *session) lists(news mcp.SessionLists) {
	if !s.shared() {
		news.Session, news.At = s.at.Key.session, s.id
		s.d.cfg.Lists(news)
	}
}

// listsAfter reports which lists may have changed because of a call that was answered.
func (s *session) listsAfter(c *mcp.Call) {
	news := mcp.SessionLists{Lists: s.server.Offers}
	if s.getStream.mayAsk.Load() {
		news.Lists &^= s.server.Lists
	}
	switch {
	case news.Lists == 0:
		return
	case c.Method == mcp.MethodToolsCall:
		news.Tool = c.Name
	case c.Method != mcp.MethodTasksResult:
		return
	}
	s.lists(news)
}

// missed is called when the server may have sent something unheard.
func (s *session) missed() {
	s.state.Missed()
	if s.deaf.Swap(true) { // the first time, nothing was done in the session yet
		s.lists(mcp.SessionLists{Lists: s.server.Lists})
	}
}
