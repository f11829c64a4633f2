package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/upstream/dialect"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
)

const (
	// standingWait is how long a new session waits for its standing stream to open
	// before it takes calls: some servers drop what they have to say while nobody
	// listens, some answer nothing until there is something.
	standingWait = 250 * time.Millisecond
	maxQuestions = 20 // open ones of a call
)

// session is one session at a stateful server. Of a stateless one it is only the
// connection.
type session struct {
	u        *Upstream
	slot     *slot
	conn     transport.Conn
	rev      *wire.Revision
	result   mcp.Raw // of initialize; of a resumed session the capabilities
	server   dialect.Server
	declared dialect.Capabilities
	began    time.Time

	base   context.Context // of what the session does on its own
	cancel context.CancelFunc

	setting chan struct{} // holds one while logging/setLevel is under way
	level   atomic.Pointer[string]

	mu       sync.Mutex // guards the fields below
	calls    map[int64]*exchange
	standing bool          // questions may come from outside of a call's own stream
	opened   chan struct{} // closed when the first attempt at a standing stream is over; nil before it
	asked    time.Time     // when that began
	// Questions for roots outside of a call: those that wait for one, and whether the
	// server was told none.
	held      []question
	holding   *time.Timer
	rootsOwed bool
	// Questions of which it is not clear yet what call they are of; see attribute.
	unattributed []unattributed
	attributing  *time.Timer
}

// openSession connects and, if the server is stateful, shakes hands.
func (u *Upstream) openSession(ctx context.Context, sl *slot, e *era) (*session, error) {
	conn := u.takeSpare()
	if conn == nil || lost(conn) {
		var err error
		if conn, err = u.dial(ctx, sl.owner, e); err != nil {
			return nil, err
		}
	}
	s, err := u.beginSession(ctx, sl, e, conn)
	if errors.Is(err, dialect.ErrWrongEra) && u.mayBeSSE(e) {
		older := &era{rev: e.rev, sse: true}
		if conn, err = u.dial(ctx, sl.owner, older); err != nil {
			return nil, err
		}
		if s, err = u.beginSession(ctx, sl, older, conn); err == nil {
			u.learnEra(e, older)
			u.log.Info("upstream speaks HTTP+SSE")
		}
	}
	return s, err
}

// beginSession makes a session of a connection, or closes that.
func (u *Upstream) beginSession(ctx context.Context, sl *slot, e *era, conn transport.Conn) (*session, error) {
	s := u.newSession(sl, conn, e.rev)
	conn.Deliver(!s.shared(), func(m wire.Message) { s.deliver(m) })
	if e.rev.Stateful {
		if err := s.handshake(ctx, e.rev); err != nil {
			s.cancel()
			closeConn(conn)
			return nil, err
		}
		u.save(ctx, s, e)
		s.restore(ctx)
	} else {
		u.health.meet(e.rev.Name, false, nil)
	}
	if done := conn.Lost(); done != nil {
		u.spawn(func() { s.watch(done) })
	}
	return s, nil
}

func (u *Upstream) newSession(sl *slot, conn transport.Conn, rev *wire.Revision) *session {
	s := &session{
		u: u, slot: sl, conn: conn, rev: rev, declared: sl.declared, began: time.Now(),
		setting: make(chan struct{}, 1), calls: make(map[int64]*exchange), standing: piped(conn),
	}
	s.base, s.cancel = context.WithCancel(u.base)
	return s
}

// handshake is initialize and notifications/initialized (2025-11-25 basic/lifecycle).
func (s *session) handshake(ctx context.Context, offer *wire.Revision) error {
	params := mcp.Object("protocolVersion", mcp.String(offer.Name),
		"capabilities", mcp.Raw(s.declared.Raw), "clientInfo", s.u.clientInfo)
	m, err := s.request(ctx, mcp.MethodInitialize, params)
	if err != nil && piped(s.conn) {
		return err // the server was found to speak this
	}
	if err != nil {
		return initializeRefusal(err)
	}
	if m.Error != nil {
		e := wire.ReadError(m.Error)
		switch e.Code {
		case mcp.CodeMethodNotFound, mcp.CodeUnsupportedVersion, mcp.CodeHeaderMismatch, mcp.CodeMissingCapability:
			return dialect.ErrWrongEra
		}
		return mcp.UpstreamError(mcp.CodeUpstreamBadAnswer, s.u.cfg.Name, mcp.ExecutedNo,
			"Upstream %s refused to initialize: %s", s.u.cfg.Name, dialect.Clip(e.Message))
	}
	if len(m.Result) > dialect.MaxHello {
		return fmt.Errorf("%w: initialize", transport.ErrTooLarge)
	}
	version, _ := m.Result.Member("protocolVersion")
	rev := wire.Lookup(version.Text())
	if rev == nil || !rev.Stateful {
		return mcp.UpstreamError(mcp.CodeUpstreamBadAnswer, s.u.cfg.Name, mcp.ExecutedNo,
			"Upstream %s wants to speak protocol revision %.40q, which the gateway does not know", s.u.cfg.Name, version.Text())
	}
	s.rev = rev
	s.learn(m.Result)
	s.conn.Bind(rev)
	return s.conn.Post(ctx, wire.AppendNotification(nil, mcp.NoteInitialized, nil))
}

// learn takes what the server answered to initialize.
func (s *session) learn(result mcp.Raw) {
	s.result = result
	caps, _ := result.Member("capabilities")
	s.server = dialect.ReadServer(dialect.ValidTasks(s.rev, caps))
	info, _ := result.Member("serverInfo")
	s.u.health.meet(s.rev.Name, true, info)
}

// initializeRefusal sorts the statuses with which a server refuses initialize.
func initializeRefusal(err error) error {
	status, ok := errors.AsType[*transport.StatusError](err)
	if !ok {
		return err
	}
	switch status.Status {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed:
		return dialect.ErrWrongEra
	}
	return err
}

// restore brings a new session to where the one before it was.
func (s *session) restore(ctx context.Context) {
	level, uris := s.slot.state.Restore()
	if s.slot.Key.session == "" || s.declared.Any() || level != "" || len(uris) > 0 {
		s.stand()
	}
	if level != "" {
		s.setLevel(ctx, level)
	}
	var failed []string
	for _, uri := range uris {
		if s.subscribeAgain(ctx, uri) != nil {
			failed = append(failed, uri)
		}
	}
	if len(failed) > 0 {
		s.u.spawn(func() { s.resubscribe(failed) })
	}
}

// request makes a request of the gateway's own and returns its response.
func (s *session) request(ctx context.Context, method string, params mcp.Raw) (wire.Message, error) {
	id := s.u.ids.Add(1)
	life := transport.NewLife(ctx, s.u.cfg.Timeout.Call, s.u.cfg.Timeout.Total)
	stream, err := s.conn.Start(&transport.Request{ID: id, Method: method, Life: life, Body: dialect.Own(id, method, params)})
	if err != nil {
		return wire.Message{}, life.Why(err)
	}
	defer stream.Close()
	for {
		m, err := stream.Next()
		switch {
		case err != nil:
			return wire.Message{}, life.Why(err)
		case dialect.Answers(m, id):
			return m, nil
		default:
			s.deliver(m)
		}
	}
}

// setLevel brings the server's log level to this one, if it has logging at all. A
// server that refuses, or keeps silent, keeps its level and is not asked for this one
// again.
func (s *session) setLevel(ctx context.Context, level string) {
	if !s.server.Logging || !wire.ValidLogLevel(level) {
		return
	}
	if now := s.level.Load(); now != nil && *now == level {
		return
	}
	select {
	case s.setting <- struct{}{}:
	case <-ctx.Done():
		return
	}
	defer func() { <-s.setting }()
	if now := s.level.Load(); now != nil && *now == level {
		return
	}
	s.slot.state.SetLevel(level)
	s.stand()
	m, err := s.request(ctx, mcp.MethodSetLevel, mcp.Object("level", mcp.String(level)))
	if err != nil || m.Error != nil {
		s.u.log.Debug("log level not set", "error", err)
	}
	if err != nil && !errors.Is(err, transport.ErrTimeout) {
		return
	}
	s.level.Store(&level)
}

// wantedLevel is the least severe level that a call under way wants: the session has
// one for all of them, and each hears only what it asked for.
func (s *session) wantedLevel() (least string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.calls {
		if level := x.call.LogLevel; level != "" && (least == "" || wire.LogLevelAtLeast(least, level)) {
			least = level
		}
	}
	return least
}

// deliver takes what came outside of a call's own stream.
func (s *session) deliver(m wire.Message) {
	switch m.Kind {
	case wire.Request:
		if !s.rev.Stateful {
			return // not in this dialect, which has no way to answer
		}
		x := s.onlyCall()
		if x != nil && !x.elsewhere {
			x = nil // its caller reads its own stream and cannot be interrupted
		}
		if x == nil && s.unclear(m) {
			return
		}
		s.serve(m, x)
	case wire.Notification:
		x := s.onlyCall()
		if m.Method == mcp.NoteProgress {
			x = s.inProgress(m)
		}
		s.note(m, x)
	}
}

// note takes a notification; x is the call that it belongs to, nil for none.
func (s *session) note(m wire.Message, x *exchange) {
	switch m.Method {
	case mcp.NoteProgress, mcp.NoteMessage:
		if x == nil {
			if m.Method == mcp.NoteMessage && s.shared() {
				s.logOnly(m)
			}
			return
		}
		params := m.Params
		if x.ours { // for its caller there is no task
			params = unrelate(params)
		}
		x.tell(mcp.Event{Method: m.Method, Params: params})
	case mcp.NoteCancelled:
		id, _ := m.Params.Member("requestId")
		for _, x := range s.all() {
			x.withdraw(id)
		}
		s.withdrawUnattributed(id)
	case mcp.NoteElicitationComplete:
		s.completed(m)
	case mcp.NoteToolsListChanged, mcp.NotePromptsListChanged, mcp.NoteResourcesListChanged, mcp.NoteSkillsListChanged:
		s.slot.state.Tell(mcp.Event{Method: m.Method, Params: mcp.Raw(`{}`)})
	case mcp.NoteResourceUpdated:
		uri, _ := m.Params.Member("uri")
		s.slot.state.Tell(mcp.Event{Method: m.Method, Params: mcp.Object("uri", uri)})
	case wire.NoteTaskStatus:
		s.slot.state.Tell(mcp.Event{Method: mcp.NoteTask, Params: bytes.Clone(wire.ReadTask(m.Params.Without("_meta")))})
	}
}

// serve answers a request of the server, or makes a question of the call of it.
func (s *session) serve(m wire.Message, x *exchange) {
	if waits := s.taskOf(m); waits != nil {
		x = waits
	}
	if m.Method == mcp.MethodPing {
		s.post(wire.AppendResult(nil, m.ID, nil))
		return
	}
	why := s.declared.Refuses(m.Method, m.Params)
	switch {
	case why != nil:
	case s.slot.Key.session == "":
		s.post(forNobody(m))
		return
	case m.Method == mcp.MethodRootsList && (x == nil || x.over() || !mcp.CanAsk(x.call.Method)):
		s.strayRoots(m.ID)
		return
	case x == nil || x.over():
		s.post(unrelated(m.ID))
		return
	default:
		why = x.ask(m, false)
	}
	if why != nil {
		s.post(wire.AppendError(nil, m.ID, why))
	}
}

// forNobody answers a question in a session of the gateway's own, which has no user.
func forNobody(m wire.Message) []byte {
	switch m.Method {
	case mcp.MethodRootsList:
		return wire.AppendResult(nil, m.ID, mcp.Raw(`{"roots":[]}`))
	case mcp.MethodElicit:
		return wire.AppendResult(nil, m.ID, mcp.Raw(`{"action":"cancel"}`))
	}
	return wire.AppendError(nil, m.ID, mcp.Errorf(codeRejected, "this session has no user who could be asked"))
}

// unrelated answers a request of the server for which no call is left: outside of a
// call the client cannot be asked.
func unrelated(id mcp.Raw) []byte { return wire.AppendError(nil, id, errUnrelated) }

var errUnrelated = mcp.Errorf(mcp.CodeInvalidParams, "the request belongs to no call that is under way")

// post sends what has no answer, with its own limit of time: it is sent for the sake
// of the session, not of a call.
func (s *session) post(body []byte) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.base), dialect.Goodbye)
	defer cancel()
	if err := s.conn.Post(ctx, body); err != nil {
		s.u.log.Debug("message not sent", "error", err)
	}
}

// add makes a call known, so that what comes outside of its stream finds it.
func (s *session) add(x *exchange) {
	s.mu.Lock()
	s.calls[x.id] = x
	s.mu.Unlock()
}

func (s *session) remove(x *exchange) {
	s.mu.Lock()
	delete(s.calls, x.id)
	s.mu.Unlock()
}

// shared reports whether the session's calls may be of several clients. What it says that
// belongs to no call is then for none of them.
func (s *session) shared() bool { return s.slot.Key.session == "" }

// logOnly writes a log message that is for no client into the gateway's log.
func (s *session) logOnly(m wire.Message) {
	level, _ := m.Params.Member("level")
	data, _ := m.Params.Member("data")
	s.u.said.Say("log message", "level", dialect.Clip(level.Text()), "data", transport.ClipLine(data))
}

// onlyCall returns the one call that is under way, nil when there is none or more than
// one: then nothing says which one a message is for. What waits for a task counts only
// where there is no other: a message of a task says of which (taskOf).
func (s *session) onlyCall() *exchange {
	if s.shared() {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var call, task *exchange
	calls, tasks := 0, 0
	for _, x := range s.calls {
		if x.task == "" {
			call = x
			calls++
		} else {
			task = x
			tasks++
		}
	}
	switch {
	case calls == 1:
		return call
	case calls == 0 && tasks == 1:
		return task
	}
	return nil
}

// inProgress returns the call that progress is of, nil for none.
func (s *session) inProgress(m wire.Message) *exchange {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.calls {
		if x.owns(m) {
			return x
		}
	}
	return nil
}

func (s *session) all() []*exchange {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*exchange, 0, len(s.calls))
	for _, x := range s.calls {
		out = append(out, x)
	}
	return out
}

// askedElsewhere reports whether questions of a call may come from outside of its own
// stream, so that its caller cannot simply read that.
func (s *session) askedElsewhere() bool {
	if !s.declared.Any() || s.slot.Key.session == "" {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.standing
}

// over reports whether the session has ended.
func (s *session) over() bool { return s.base.Err() != nil || lost(s.conn) }

// watch waits for the end of a process, or of an event stream.
func (s *session) watch(done <-chan struct{}) {
	select {
	case <-done:
		if s.base.Err() == nil {
			s.u.pool.crashed(s.slot, time.Since(s.began))
			s.cancel()
		}
	case <-s.base.Done():
	}
}

// refusal sorts the errors with which a server refuses a call.
func (s *session) refusal(err error) error {
	status, ok := errors.AsType[*transport.StatusError](err)
	switch {
	case !ok || errors.Is(err, transport.ErrSessionGone):
		return err
	case status.HasError() && status.Status != http.StatusUnauthorized && status.Status != http.StatusForbidden &&
		status.Status != http.StatusTooManyRequests:
		e := wire.ReadError(status.Message.Error)
		if e.Code == mcp.CodeHeaderMismatch || offered(status.Message) != nil {
			return fmt.Errorf("%w: %w", dialect.ErrWrongEra, err) // a server that had sessions once
		}
		return s.declared.NotOurs(e)
	case piped(s.conn):
	case status.Status == http.StatusNotFound || status.Status == http.StatusMethodNotAllowed:
		return fmt.Errorf("%w: %w", dialect.ErrWrongEra, err)
	}
	return err
}
