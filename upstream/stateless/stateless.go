// Package stateless speaks to servers of 2026-07-28. Every request is self-contained, and a server
// that needs input answers with its questions.
//
// It owns the connections, the requests, the tasks that it waits for, and what it has to
// know of tools to write the headers of their calls. It leaves to upstream when to call and
// what the server speaks. It starts goroutines only through Env.Spawn.
package stateless

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"sync/atomic"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/upstream/dialect"
	"github.com/gatehouse-mcp/gatehouse/upstream/pool"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
)

// Dialect speaks to one server. Its methods may be called concurrently.
type Dialect struct {
	env    *dialect.Env
	said   *transport.Chatter
	links  *pool.Pool[string, *transport.Identity, *link] // keyed by the user of their credential
	probed atomic.Pointer[mcp.Raw]                        // see Probed
	tools  tools
}

// New returns a Dialect.
func New(env *dialect.Env) *Dialect {
	d := &Dialect{env: env, said: transport.NewChatter(env.Log)}
	d.links = dialect.NewPool(env, func(l *link) bool { return dialect.Lost(l.Conn) }, d.end)
	return d
}

// Handle makes a call to a server of this era. Errors are dialect.ErrWrongEra, errors of
// transports, and errors that the client may read.
func (d *Dialect) Handle(ctx context.Context, e *dialect.Era, c *mcp.Call) (*mcp.Reply, error) {
	if c.Method == mcp.MethodDiscover {
		return d.discover(ctx, e, c)
	}
	step := c.Trail.Begin("session", d.env.Upstream)
	l, err := d.connect(ctx, e, c)
	if step.End(""); err != nil {
		return nil, err
	}
	defer d.links.Release(l.at)
	if c.Method == mcp.MethodListen {
		return d.listen(ctx, l.Conn, e.Rev, c)
	}
	reply, err := d.call(ctx, l.Conn, e, c)
	if err == nil && reply.Ask != nil && reply.Ask.Round.Top().Kind == mcp.FrameTask {
		task := c.Clone()
		task.Round = reply.Ask.Round
		reply.Ask.Drop = func(string) { d.env.Spawn(func() { d.cancelTask(e, task) }) } // no revision has a reason here
	}
	return reply, err
}

// call makes a call on a connection.
func (d *Dialect) call(ctx context.Context, conn transport.Conn, e *dialect.Era, c *mcp.Call) (*mcp.Reply, error) {
	rev, waits := e.Rev, c.Round.Top().Kind
	if mcp.IsTaskMethod(c.Method) && c.Tasks != mcp.ExtensionTasks {
		return nil, mcp.ErrUnknown(c.Method, c.Name) // the server speaks another era by now
	}
	if waits != mcp.FrameTask {
		for _, why := range c.Refused { // which this dialect cannot tell a server
			return unanswered(d.env.Upstream, c, why)
		}
	}
	switch waits {
	case "", mcp.FrameServer:
	case mcp.FrameTask:
		return d.waiting(conn, rev, c).resume(ctx)
	default: // it began when the server spoke another revision
		return nil, mcp.ErrRound()
	}
	declared := dialect.Declare(c.Caps, rev)
	if c.Session == "" && !mcp.CanAsk(c.Method) {
		declared = dialect.Neutral(c, rev)
	}
	reply, err := d.roundTrip(ctx, conn, rev, c, declared)
	if refused, ok := errors.AsType[*mcp.Error](err); ok && insistsOnTasks(c, declared, refused) {
		return d.callInTask(ctx, conn, rev, c, declared.WithTasks())
	} else if ok {
		reply, err = d.repair(ctx, conn, e, c, declared, refused)
	}
	if err != nil {
		return nil, err
	}
	return d.reply(c, declared, reply)
}

// unanswered ends a call if its client did not answer a question, and says why.
func unanswered(upstream string, c *mcp.Call, why *mcp.Error) (*mcp.Reply, error) {
	return dialect.Unasked(upstream, c, "The client did not give the input that upstream %s needs for this call: %s",
		upstream, why.Message)
}

// repair reacts to an error that concerns our hop, and makes the request once more: it was
// refused, so it did not run. Such errors are never passed on.
func (d *Dialect) repair(ctx context.Context, conn transport.Conn, e *dialect.Era, c *mcp.Call,
	declared dialect.Capabilities, refused *mcp.Error) (*mcp.Reply, error) {
	rev := e.Rev
	switch refused.Code {
	case mcp.CodeHeaderMismatch:
		if err := d.relist(ctx, conn, rev, c); err != nil {
			return nil, err
		}
	case mcp.CodeUnsupportedVersion:
		if rev = dialect.Newest(refused.Data.At("supported")); rev == nil {
			return nil, dialect.ErrWrongEra
		}
		d.env.Learn(e, &dialect.Era{Rev: rev})
	case mcp.CodeMissingCapability:
		if required := refused.Data.At("requiredCapabilities"); required.IsObject() && declared.Has(required) {
			return nil, dialect.HopError(d.env.Upstream, refused)
		}
		return nil, refused
	case mcp.CodeURLElicitation: // not in this dialect
		return nil, dialect.HopError(d.env.Upstream, refused)
	default:
		return nil, refused
	}
	reply, err := d.roundTrip(ctx, conn, rev, c, declared)
	if again, ok := errors.AsType[*mcp.Error](err); ok && again.Code == refused.Code {
		return nil, dialect.HopError(d.env.Upstream, again)
	}
	return reply, err
}

// roundTrip sends the call and reads on to its result. Over HTTP it makes exactly one POST.
func (d *Dialect) roundTrip(ctx context.Context, conn transport.Conn, rev *wire.Revision, c *mcp.Call,
	declared dialect.Capabilities) (*mcp.Reply, error) {
	life, err := d.env.Life(ctx, false)
	if err != nil {
		return nil, err
	}
	life.Room.Store(c.Room)
	c.Reached()
	return d.send(life, conn, rev, c, declared)
}

// send makes a round trip of this life.
func (d *Dialect) send(life *transport.Life, conn transport.Conn, rev *wire.Revision, c *mcp.Call,
	declared dialect.Capabilities) (*mcp.Reply, error) {
	id, level := d.env.NextID(), c.LogLevel
	if level == "" && c.Session != "" && !c.Ephemeral { // a client with a session that set no level gets all messages
		level = wire.LogDebug
	}
	out := dialect.Request{ID: id, Call: c, Rev: rev, Answers: true, Meta: d.meta(rev, declared.Raw, level)}
	request := &transport.Request{
		ID: id, Method: c.Method, Caller: &c.Caller, Trace: c.Trace, Trail: c.Trail, Life: life,
		Body:   out.Encode(),
		Header: d.callHeader(conn, rev, c),
	}
	c.Trail.ToServer(request.Header, request.Body)
	m, stream, err := dialect.Exchange(conn, request, func(m wire.Message) {
		// This dialect has no requests of servers; other messages do not concern us. Servers without
		// subscriptions tell of changed lists here.
		if m.Kind == wire.Notification && (m.Method == mcp.NoteMessage || mcp.ListsChanged(m.Method) != 0 ||
			m.Method == mcp.NoteProgress && dialect.HasToken(m, id)) {
			c.Notify(mcp.Event{Method: m.Method, Params: m.Params})
		}
	})
	if err := refusal(m, err); err != nil {
		return nil, err
	}
	return stream.Reply(m.Result), nil
}

// refusal returns why a request has no result, nil if it has one. A JSON-RPC error that comes
// with the status of a refusal is the answer.
func refusal(m wire.Message, err error) error {
	if err == nil && m.Error != nil {
		return wire.ReadError(m.Error)
	}
	status, ok := errors.AsType[*transport.StatusError](err)
	if !ok {
		return err
	}
	absent := status.Status == http.StatusNotFound || status.Status == http.StatusMethodNotAllowed
	switch {
	case absent && !status.HasError():
		return dialect.ErrWrongEra
	case !absent && status.Status != http.StatusBadRequest, !status.HasError():
		return err
	}
	e := wire.ReadError(status.Message.Error)
	if !absent && (e.Code == -32000 || e.Code == -32001) {
		return dialect.ErrWrongEra // a server with sessions that misses one
	}
	return e
}

// Probed stores the result of server/discover from the probe, nil for none. It is the
// answer to the first call that asks for it.
func (d *Dialect) Probed(result mcp.Raw) {
	d.probed.Store(&result)
}

func (d *Dialect) discover(ctx context.Context, e *dialect.Era, c *mcp.Call) (*mcp.Reply, error) {
	var result mcp.Raw
	if c.Caps == nil { // as the probe asked
		if probed := d.probed.Swap(nil); probed != nil {
			result = *probed
		}
	}
	if result == nil {
		l, err := d.connect(ctx, e, c)
		if err != nil {
			return nil, err
		}
		defer d.links.Release(l.at)
		m, err := d.Exchange(ctx, l.Conn, e.Rev, c)
		if err := refusal(m, err); err != nil {
			return nil, err
		}
		result = m.Result
	}
	info := result.At("_meta", wire.MetaServerInfo)
	d.env.Meet(e.Rev, info, result.At("capabilities"))
	return dialect.Discovered(e.Rev, result, info)
}

// Exchange makes a request of the gateway's own, with the method and the capabilities of a
// call, and returns its response.
func (d *Dialect) Exchange(ctx context.Context, conn transport.Conn, rev *wire.Revision,
	c *mcp.Call) (wire.Message, error) {
	meta := "{" + d.meta(rev, dialect.Neutral(c, rev).Raw, "") + "}"
	return d.env.Ask(ctx, conn, header(conn, rev, c.Method, ""), c.Method, mcp.Object("_meta", mcp.Raw(meta)), nothing)
}

// nothing drops messages and events that concern no client.
func nothing[T any](T) {}

// meta encodes the members of _meta that every request has, without braces.
func (d *Dialect) meta(rev *wire.Revision, caps, logLevel string) string {
	before, after := `,"`+wire.MetaLogLevel+`":"`, `"`
	if !wire.ValidLogLevel(logLevel) {
		before, logLevel, after = "", "", ""
	}
	return `"` + wire.MetaVersion + `":"` + rev.Name + `","` + wire.MetaClientInfo + `":` + string(d.env.ClientInfo) +
		`,"` + wire.MetaClientCaps + `":` + caps + before + logLevel + after
}

// header returns the headers that every request has, nil if the transport has none.
func header(conn transport.Conn, rev *wire.Revision, method, name string) http.Header {
	base := conn.Header()
	if base == nil {
		return nil
	}
	header := make(http.Header, len(base)+3)
	maps.Copy(header, base)
	values := [3]string{rev.Name, method, ""}
	header[wire.HeaderVersion] = values[0:1:1]
	header[wire.HeaderMethod] = values[1:2:2]
	if name != "" {
		values[2] = wire.EncodeHeader(name)
		header[wire.HeaderName] = values[2:3:3]
	}
	return header
}
