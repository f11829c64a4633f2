package stateful

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/upstream/dialect"
	"github.com/gatehouse-mcp/gatehouse/upstream/stateful/restore"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
)

// session is one session at a server.
type session struct {
	d        *Dialect
	env      *dialect.Env
	at       *entry
	state    *restore.State // of the entry
	id       string         // unique across processes; not the server's id of it
	conn     transport.Conn
	rev      *wire.Revision
	result   mcp.Raw // of initialize; for a resumed session only the capabilities
	server   dialect.Server
	declared dialect.Capabilities

	base   context.Context // of the session's own requests
	cancel context.CancelFunc

	began   time.Time     // here
	agreed  atomic.Bool   // the server has answered initialize, now or to another process
	ended   sync.Once     // the end has been told; see lists
	deaf    atomic.Bool   // see missed
	setting chan struct{} // holds one while logging/setLevel is under way
	level   atomic.Pointer[string]

	calls     calls
	getStream getStream
	roots     roots
	doubt     doubt
}

func newSession(d *Dialect, at *entry, conn transport.Conn, rev *wire.Revision) *session {
	s := &session{
		d: d, env: d.env, at: at, state: at.Data.state, id: rand.Text(), conn: conn, rev: rev, declared: at.Data.declared,
		began: time.Now(), setting: make(chan struct{}, 1), calls: calls{all: make(map[int64]*exchange)},
	}
	base, cancel := context.WithCancel(d.env.Base)
	s.base, s.cancel = base, func() {
		cancel()
		s.ended.Do(func() {
			s.lists(mcp.SessionLists{Over: true})
			if s.agreed.Load() {
				d.cfg.Lasted(s.rev.Name, time.Since(s.began))
			}
		})
	}
	s.getStream = getStream{
		env: d.env, conn: conn, base: s.base,
		deliver: s.deliver, missed: s.missed, gone: s.lose, wanted: make(chan struct{}, 1),
	}
	s.getStream.mayAsk.Store(dialect.Piped(conn))
	s.roots = roots{env: d.env, known: &s.state.Roots, declared: s.declared, post: s.post, answer: s.answer, over: s.over}
	s.doubt.s, s.doubt.looking = s, make(chan struct{}, 1)
	return s
}

// handshake sends initialize and notifications/initialized (2025-11-25 basic/lifecycle).
func (s *session) handshake(ctx context.Context, offer *wire.Revision) error {
	params := mcp.Object("protocolVersion", mcp.String(offer.Name),
		"capabilities", mcp.Raw(s.declared.Raw), "clientInfo", s.env.ClientInfo)
	m, err := s.roundTrip(ctx, mcp.MethodInitialize, params)
	if err != nil {
		status, refused := errors.AsType[*transport.StatusError](err)
		if refused && !dialect.Piped(s.conn) { // otherwise the probe found that the server speaks this revision
			switch status.Status {
			case http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed:
				return dialect.ErrWrongEra
			}
		}
		return err
	}
	if m.Error != nil {
		e := wire.ReadError(m.Error)
		switch e.Code {
		case mcp.CodeMethodNotFound, mcp.CodeUnsupportedVersion, mcp.CodeHeaderMismatch, mcp.CodeMissingCapability:
			return dialect.ErrWrongEra
		}
		return mcp.UpstreamError(failure.UpstreamBadAnswer, s.env.Upstream, mcp.ExecutedNo,
			"Upstream %s refused to initialize: %s", s.env.Upstream, dialect.Clip(e.Message))
	}
	if len(m.Result) > dialect.MaxHello {
		return fmt.Errorf("%w: initialize", transport.ErrTooLarge)
	}
	version, _ := m.Result.Member("protocolVersion")
	rev := wire.Lookup(version.Text())
	if rev == nil || !rev.Stateful {
		return mcp.UpstreamError(failure.UpstreamBadAnswer, s.env.Upstream, mcp.ExecutedNo,
			"Upstream %s wants to speak protocol revision %.40q, which the gateway does not know",
			s.env.Upstream, version.Text())
	}
	s.rev = rev
	s.learn(m.Result)
	s.conn.Bind(rev)
	return s.conn.Post(ctx, wire.AppendNotification(nil, mcp.NoteInitialized, nil))
}

// learn reads the server's answer to initialize.
func (s *session) learn(result mcp.Raw) {
	s.result = result
	caps, _ := result.Member("capabilities")
	s.server = dialect.ReadServer(dialect.ValidTasks(s.rev, caps))
	s.env.Meet(s.rev, result.At("serverInfo"), caps)
	s.agreed.Store(true)
}

// restore brings a new session to the state of the one before it.
func (s *session) restore(ctx context.Context) {
	level, uris := s.state.Restore()
	if s.shared() && !s.at.Brief || s.declared.Any() || level != "" || len(uris) > 0 {
		s.getStream.open()
	}
	if level != "" {
		s.setLevel(ctx, level)
	}
	uris = slices.DeleteFunc(uris, func(uri string) bool { return s.subscribeAgain(ctx, uri) == nil })
	if len(uris) > 0 {
		s.env.Spawn(func() { s.resubscribe(uris) })
	}
}

// request makes a request of the gateway's own and returns its result. Clients may read an
// error of the server.
func (s *session) request(ctx context.Context, method string, params mcp.Raw) (mcp.Raw, error) {
	m, err := s.roundTrip(ctx, method, params)
	if err == nil && m.Error != nil {
		err = s.declared.NotOurs(wire.ReadError(m.Error))
	}
	return m.Result, err
}

// roundTrip makes a request of the gateway's own and returns its response.
func (s *session) roundTrip(ctx context.Context, method string, params mcp.Raw) (wire.Message, error) {
	return s.env.Ask(ctx, s.conn, nil, method, params, s.deliver)
}

// setLevel sets the server's log level, if the server supports logging. A server that
// refuses, or keeps silent, keeps its level and is not asked for this one again.
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
	s.state.SetLevel(level)
	s.getStream.open()
	_, err := s.request(ctx, mcp.MethodSetLevel, mcp.Object("level", mcp.String(level)))
	if err != nil {
		s.env.Log.Debug("log level not set", "error", err)
	}
	if _, refused := errors.AsType[*mcp.Error](err); err == nil || refused || errors.Is(err, transport.ErrTimeout) {
		s.level.Store(&level)
	}
}

// post sends a message that has no answer. It has its own time limit, because the message
// belongs to the session and not to a call.
func (s *session) post(body []byte) {
	ctx, cancel := s.env.Goodbye()
	defer cancel()
	if err := s.conn.Post(ctx, body); err != nil {
		s.env.Log.Debug("message not sent", "error", err)
	}
}

// answer encodes the answer to a question in the server's revision.
func (s *session) answer(id mcp.Raw, method string, answer mcp.Raw) []byte {
	answer, err := s.rev.Answer(method, answer)
	if err != nil {
		return wire.AppendError(nil, id, mcp.Errorf(failure.QuestionUnanswered,
			"the client's answer cannot be passed on: %v", err))
	}
	return wire.AppendResult(nil, id, answer)
}

// shared reports whether calls of several clients may use the session. Messages of the
// server that name no call then go to none of them.
func (s *session) shared() bool { return s.at.Key.session == "" }

// over reports whether the session has ended.
func (s *session) over() bool { return s.base.Err() != nil || dialect.Lost(s.conn) }

// refusal classifies the errors with which a server refuses a call.
func (s *session) refusal(err error) error {
	status, ok := errors.AsType[*transport.StatusError](err)
	switch {
	case !ok || errors.Is(err, transport.ErrSessionGone):
		return err
	case status.HasError() && status.Status != http.StatusUnauthorized && status.Status != http.StatusForbidden &&
		status.Status != http.StatusTooManyRequests:
		e := wire.ReadError(status.Message.Error)
		if e.Code == mcp.CodeHeaderMismatch || dialect.Offered(status.Message) != nil {
			return fmt.Errorf("%w: %w", dialect.ErrWrongEra, err) // a server that once had sessions
		}
		return fmt.Errorf("%w: %w", s.declared.NotOurs(e), err)
	case dialect.Piped(s.conn):
	case status.Status == http.StatusNotFound || status.Status == http.StatusMethodNotAllowed:
		return fmt.Errorf("%w: %w", dialect.ErrWrongEra, err)
	}
	return err
}

// serverID is the server's id of the session, "" if there is none.
func (s *session) serverID() string { return s.conn.Header().Get(wire.HeaderSession) }

// windUp cancels the calls of a session, and waits for a limited time until it is idle.
func (s *session) windUp(idle <-chan struct{}) {
	s.cancel()
	why := dialect.ErrClosed
	if s.env.Base.Err() == nil { // only the session ends, such as when another replica owns it now
		why = dialect.ErrSessionEnded
	}
	for _, x := range s.calls.list() {
		if x.life.WaitedFor() { // the table of parked calls handles the others
			x.life.Cancel(why)
		}
	}
	select {
	case <-idle:
	case <-time.After(dialect.Goodbye):
	case <-s.env.Last.Done():
	}
}

// hold holds the caller's session once more; it must be released once more.
func (s *session) hold() { s.d.pool.Hold(s.at) }

// release releases the session.
func (s *session) release() { s.d.pool.Release(s.at) }

// lose removes a session that the server no longer knows. The next acquire opens a new one.
func (s *session) lose() {
	if s.d.pool.Lose(s.at, s) {
		s.d.cfg.Lost()
	}
	s.cancel()
	if dialect.Piped(s.conn) {
		s.env.Spawn(func() { s.env.CloseConn(s.conn) })
	}
}

// doubtEvery is how often forgotten looks at the sessions of a place.
const doubtEvery = time.Minute

// doubt finds out whether the server still knows a session.
type doubt struct {
	s       *session
	worked  atomic.Bool   // a call was answered in it, here or in another process
	looking chan struct{} // holds one while a caller looks
}

// forgotten reports whether the server has lost a session that has worked, and loses it here. Many
// servers say that otherwise than the specification does, such as with 401, 410 or 503: a ping in
// the session is refused, too, while another session can be opened.
func (d *doubt) forgotten(ctx context.Context, e *dialect.Era, err error) bool {
	s := d.s
	if !d.worked.Load() || s.serverID() == "" || !refuses(err) {
		return false
	}
	select {
	case d.looking <- struct{}{}:
		defer func() { <-d.looking }()
	case <-ctx.Done():
		return false
	}
	if s.over() { // another call has found that
		return true
	}
	now := time.Now()
	if now.Sub(time.Unix(0, s.at.Data.looked.Load())) < doubtEvery {
		return false
	}
	s.at.Data.looked.Store(now.UnixNano())
	ctx, cancel := context.WithTimeout(ctx, dialect.Goodbye)
	defer cancel()
	m, err := s.roundTrip(ctx, mcp.MethodPing, nil)
	if err == nil && m.Error != nil {
		err = wire.ReadError(m.Error)
	}
	if !refuses(err) || s.d.Try(e, s.at.Data.owner) != nil {
		return false
	}
	s.env.Log.Info("upstream has lost a session", "cause", err)
	s.lose()
	return true
}

// refuses reports whether an error may be about the session as a whole.
func refuses(err error) bool {
	if status, ok := errors.AsType[*transport.StatusError](err); ok {
		return status.Status != http.StatusTooManyRequests
	}
	e, ok := errors.AsType[*mcp.Error](err)
	return ok && e.Code == codeSessionLost
}

// codeSessionLost is the code with which the official SDKs say that they do not know a session.
const codeSessionLost = -32001

// neverRan reports whether a server that answered with this error cannot have run the call.
func neverRan(err error) bool {
	status, ok := errors.AsType[*transport.StatusError](err)
	return ok && status.Status/100 == 4
}
