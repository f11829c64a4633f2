package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/upstream/dialect"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
)

// This file is the dialect of 2026-07-28: every request tells all about itself, and a
// server that wants input answers with what it asks.

// Values of resultType, 2026-07-28 basic/index#resulttype.
const (
	resultComplete      = "complete"
	resultInputRequired = "input_required"
)

// statelessConn returns the connection to a stateless server: over HTTP none that
// matters, over stdio the one process.
func (u *Upstream) statelessConn(ctx context.Context, e *era, c *mcp.Call) (conn transport.Conn, release func(), err error) {
	s, err := u.acquire(ctx, poolKey{}, &c.Caller, dialect.Capabilities{}, e, false)
	if err != nil {
		return nil, nil, err
	}
	return s.conn, func() { u.pool.release(s) }, nil
}

func (u *Upstream) callStateless(ctx context.Context, e *era, c *mcp.Call) (*mcp.Reply, error) {
	if mcp.IsTaskMethod(c.Method) && c.Tasks != mcp.ExtensionTasks {
		return nil, mcp.ErrUnknown(c.Method, c.Name) // its server is another one by now
	}
	if len(c.Refused) > 0 && !strings.HasPrefix(c.State, taskState) {
		// Nothing in this dialect says that the client refused to answer.
		return u.unasked(c, "The client refused the input that upstream %s needs for this call", u.cfg.Name)
	}
	conn, release, err := u.statelessConn(ctx, e, c)
	if err != nil {
		return nil, err
	}
	defer release()
	if w := u.waiting(conn, e, c); w != nil {
		return w.resume(ctx)
	}
	declared := dialect.Declare(c.Caps, e.rev)
	if c.Session == "" && !mcp.CanAsk(c.Method) {
		declared = u.neutral(e.rev)
	}
	result, stream, err := u.roundTrip(ctx, conn, e, c, declared)
	if refused, ok := errors.AsType[*mcp.Error](err); ok && insistsOnTasks(c, declared, refused) {
		return u.callInTask(ctx, conn, e, c, declared.WithTasks())
	} else if ok {
		result, err = u.repair(ctx, conn, e, c, declared, refused)
	}
	if err != nil {
		return nil, err
	}
	reply := &mcp.Reply{Result: result}
	if stream != nil { // not after a repair
		reply = stream.Reply(result)
	}
	return u.statelessReply(c, declared, reply)
}

// repair does what can be done about an error that is about our hop, and makes the
// request once more: it was refused, so it did not run. Such errors are not passed on.
func (u *Upstream) repair(ctx context.Context, conn transport.Conn, e *era, c *mcp.Call, declared dialect.Capabilities, refused *mcp.Error) (mcp.Raw, error) {
	switch refused.Code {
	case mcp.CodeHeaderMismatch:
		if err := u.relist(ctx, conn, e, c); err != nil {
			return nil, err
		}
	case mcp.CodeUnsupportedVersion:
		supported, _ := refused.Data.Member("supported")
		rev := newestStateless(supported)
		if rev == nil {
			return nil, errWrongEra
		}
		better := &era{rev: rev}
		u.learnEra(e, better)
		e = better
	case mcp.CodeMissingCapability:
		if wasDeclared(declared, refused) {
			return nil, dialect.HopError(u.cfg.Name, refused)
		}
		return nil, refused
	case mcp.CodeURLElicitation: // not in this dialect
		return nil, dialect.HopError(u.cfg.Name, refused)
	default:
		return nil, refused
	}
	result, _, err := u.roundTrip(ctx, conn, e, c, declared)
	if again, ok := errors.AsType[*mcp.Error](err); ok && again.Code == refused.Code {
		return nil, dialect.HopError(u.cfg.Name, again)
	}
	return result, err
}

// wasDeclared reports whether the server asks for capabilities that it was told of.
func wasDeclared(declared dialect.Capabilities, refused *mcp.Error) bool {
	required, _ := refused.Data.Member("requiredCapabilities")
	return required.IsObject() && declared.Has(required)
}

// roundTrip sends the call and reads on to its result, of which the stream, closed by
// now, knows the Outline and the Release. Over HTTP it is exactly one POST.
func (u *Upstream) roundTrip(ctx context.Context, conn transport.Conn, e *era, c *mcp.Call, declared dialect.Capabilities) (result mcp.Raw, of transport.Stream, err error) {
	life, err := u.life(ctx, false)
	if err != nil {
		return nil, nil, err
	}
	life.Room.Store(c.Room)
	id := u.ids.Add(1)
	out := dialect.Request{
		ID: id, Call: c, Rev: e.rev, Answers: true, State: serverState(c.State),
		Meta: u.statelessMeta(e.rev, declared.Raw, c.LogLevel),
	}
	stream, err := conn.Start(&transport.Request{
		ID: id, Method: c.Method, Caller: &c.Caller, Life: life,
		Body:   out.Append(make([]byte, 0, out.Size())),
		Header: u.callHeader(conn, e.rev, c),
	})
	if err != nil {
		return nil, nil, statelessRefusal(life.Why(err))
	}
	defer stream.Close()
	for {
		m, err := stream.Next()
		if err != nil {
			return nil, nil, life.Why(err)
		}
		switch {
		case answers(m, id):
			if m.Error != nil {
				return nil, nil, wire.ReadError(m.Error)
			}
			return m.Result, stream, nil
		case m.Kind == wire.Notification && (m.Method == mcp.NoteMessage || m.Method == mcp.NoteProgress && dialect.HasToken(m, id)):
			c.Notify(mcp.Event{Method: m.Method, Params: m.Params})
		}
		// Requests do not exist in this dialect, and other messages are none of ours.
	}
}

// statelessRefusal sorts the statuses with which a server refuses a request. A
// JSON-RPC error that came with it is the answer.
func statelessRefusal(err error) error {
	status, ok := errors.AsType[*transport.StatusError](err)
	if !ok {
		return err
	}
	switch status.Status {
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		if !status.HasError() {
			return errWrongEra
		}
	case http.StatusBadRequest:
		if !status.HasError() {
			break
		}
		if code := wire.ReadError(status.Message.Error).Code; code == -32000 || code == -32001 {
			return errWrongEra // a server with sessions, that misses one
		}
	default:
		return err
	}
	if status.HasError() {
		return wire.ReadError(status.Message.Error)
	}
	return err
}

// statelessReply judges a reply by the resultType of its result.
func (u *Upstream) statelessReply(c *mcp.Call, declared dialect.Capabilities, reply *mcp.Reply) (*mcp.Reply, error) {
	result := reply.Result
	kind, ok := reply.Outline.Member(result, "resultType")
	switch {
	case !ok, kind.Text() == resultComplete:
	case kind.Text() == resultInputRequired && mcp.CanAsk(c.Method):
		reply, err := u.askReply(declared, result)
		if err == nil && !u.admit.MayAsk(c, reply.Ask.Requests...) {
			return nil, u.admit.AskedTooMuch()
		}
		return reply, err
	case kind.Text() == resultTask && c.Method == mcp.MethodToolsCall && declared.Tasks && isTask(result):
		reply.Task = true
		return reply, nil
	default:
		return nil, fmt.Errorf("%w: resultType %.40q", transport.ErrGarbage, kind.Text())
	}
	if c.Method == mcp.MethodTasksGet {
		task, err := u.openTask(declared, result)
		if err != nil {
			return nil, err
		}
		reply.Result = task
		return reply, nil
	}
	if mcp.ListMember(c.Method) == "" {
		return reply, nil
	}
	list, err := dialect.ReadList(c.Method, result)
	if err != nil {
		return nil, err
	}
	if c.Method == mcp.MethodToolsList && u.cfg.Transport != transportStdio {
		list = u.tools.learn(u, c.Params, list)
	}
	return &mcp.Reply{List: list}, nil
}

// askReply makes the Ask of an InputRequiredResult (2026-07-28 basic/patterns/mrtr).
// Keys and state stay as they are, unless they look like the gateway's own.
func (u *Upstream) askReply(declared dialect.Capabilities, result mcp.Raw) (*mcp.Reply, error) {
	ask := &mcp.Ask{}
	var err error
	requests, hasRequests := result.Member("inputRequests")
	requests.Each(func(key string, request mcp.Raw) bool {
		method, _ := request.Member("method")
		params, _ := request.Member("params")
		if why := declared.Refuses(method.Text(), params); why != nil {
			err = mcp.UpstreamError(mcp.CodeInternal, u.cfg.Name, mcp.ExecutedUnknown,
				"Upstream %s asks what it was told cannot be asked: %s", u.cfg.Name, why.Message)
			return false
		}
		if method.Text() == mcp.MethodElicit { // which has no id here: ours must not be made up
			params = params.Without("elicitationId")
		}
		params, why := u.voice.Put(method.Text(), params)
		if why != nil {
			err = mcp.UpstreamError(mcp.CodeInternal, u.cfg.Name, mcp.ExecutedUnknown,
				"Upstream %s asks what the user cannot be asked: %s", u.cfg.Name, why.Message)
			return false
		}
		ask.Requests = append(ask.Requests, mcp.InputRequest{Key: dialect.PublicKey(unescape(key)), Method: method.Text(), Params: params})
		return true
	})
	if err != nil {
		return nil, err
	}
	state, hasState := result.Member("requestState")
	ask.State = ownState(state.Text())
	if !hasRequests && !hasState {
		return nil, fmt.Errorf("%w: an input_required result without inputRequests and requestState", transport.ErrGarbage)
	}
	return &mcp.Reply{Ask: ask}, nil
}

// unescape reads a member's name as Raw.Each gives it.
func unescape(name string) string {
	if !strings.Contains(name, `\`) {
		return name
	}
	return mcp.Raw(`"` + name + `"`).Text()
}

func (u *Upstream) discoverStateless(ctx context.Context, e *era, c *mcp.Call) (*mcp.Reply, error) {
	result := u.takeDiscover(e)
	if result == nil {
		conn, release, err := u.statelessConn(ctx, e, c)
		if err != nil {
			return nil, err
		}
		defer release()
		m, err := u.exchange(ctx, conn, e.rev, mcp.MethodDiscover, nil)
		if err != nil {
			return nil, statelessRefusal(err)
		}
		if m.Error != nil {
			return nil, wire.ReadError(m.Error)
		}
		result = m.Result
	}
	meta, _ := result.Member("_meta")
	info, _ := meta.Member(wire.MetaServerInfo)
	u.health.meet(e.rev.Name, false, info)
	return dialect.Discovered(e.rev, result, info)
}

// takeDiscover returns the result that the probe got, to the first who wants it.
func (u *Upstream) takeDiscover(e *era) mcp.Raw {
	u.probe.mu.Lock()
	defer u.probe.mu.Unlock()
	result := e.discover
	e.discover = nil
	return result
}

// statelessMeta writes the members of _meta that each request has, without braces.
func (u *Upstream) statelessMeta(rev *wire.Revision, caps, logLevel string) string {
	var b strings.Builder
	b.Grow(len(caps) + len(u.clientInfo) + 200)
	b.WriteString(`"` + wire.MetaVersion + `":"`)
	b.WriteString(rev.Name)
	b.WriteString(`","` + wire.MetaClientInfo + `":`)
	b.Write(u.clientInfo)
	b.WriteString(`,"` + wire.MetaClientCaps + `":`)
	b.WriteString(caps)
	if wire.ValidLogLevel(logLevel) {
		b.WriteString(`,"` + wire.MetaLogLevel + `":"`)
		b.WriteString(logLevel)
		b.WriteByte('"')
	}
	return b.String()
}

// neutral is what the gateway declares where it looks at a server for itself: many servers
// list some of their tools only to clients that can be asked. It answers what it is asked
// then (forNobody). A process that clients share declares nothing, since their calls run
// there, and which of them it asks nobody knows.
func (u *Upstream) neutral(rev *wire.Revision) dialect.Capabilities {
	if rev.Stateful && u.cfg.Shared && u.cfg.Transport == transportStdio {
		return dialect.Capabilities{Raw: "{}"}
	}
	return dialect.Declare(mcp.Raw(`{"roots":{},"sampling":{"tools":{}},"elicitation":{"form":{},"url":{}}}`), rev)
}
