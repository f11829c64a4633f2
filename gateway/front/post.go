package front

import (
	"cmp"
	"net/http"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/exchange"
	"github.com/gatehouse-mcp/gatehouse/gateway/front/refuse"
	"github.com/gatehouse-mcp/gatehouse/gateway/front/stream"
	"github.com/gatehouse-mcp/gatehouse/internal/cluster"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/home"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// posted is one POSTed message on its way to one of the two dialects, or a GET or DELETE, which has
// no message.
type posted struct {
	exchange.Request
	body    []byte // as far as it was read; nil for none
	header  string // the revision that the header names, "" for none
	params  params
	batch   []wire.Message // in place of Message
	errs    []error        // of the messages of batch
	inBatch bool           // it is one message of a batch
	old     bool           // HTTP+SSE: the answer, if any, goes to the stream of another request
	on      *oldStream     // that stream
	home    *home.Home     // in use by the request; nil for none
	room    *mcp.Room      // for a large body, nil for a small one
	counted bool           // among the requests of its user
	// anywhere says that this replica serves the request if nobody can tell who owns its home:
	// it is a call of a client without a session, and it answers no question.
	anywhere bool
}

// runs reports whether the body contains requests, which may have run even if their answers are lost.
func (p *posted) runs() bool { return p.batch != nil || p.Message.Kind == wire.Request }

// awaited returns the id of the only request, if the response to this POST answers it.
func (p *posted) awaited() mcp.Raw {
	if p.old || p.batch != nil || p.Message.Kind != wire.Request {
		return nil
	}
	return p.Message.ID
}

// lasts reports whether the answer is an endless stream: it ends when this replica stops.
func (p *posted) lasts() bool {
	return p.R.Method == http.MethodGet || p.awaited() != nil && p.Message.Method == mcp.MethodListen
}

// revision returns the revision that the header names. For a client with a session that names
// none, it is the newest stateful revision.
func (p *posted) revision() *wire.Revision {
	return cmp.Or(wire.Lookup(p.header), wire.NewestStateful())
}

// endUse ends the request's use of its home: before it is counted out, so that a replica that stops has
// given the home up when it waits for nothing more.
func (p *posted) endUse() {
	if p.home != nil {
		p.home.Done()
		p.home = nil
	}
}

// release gives back what was taken for the message.
func (p *posted) release(f *Front) {
	p.room.Free()
	p.endUse()
	if p.counted {
		f.requestLimit.Give(&p.Caller)
	}
}

// params are the members of a message's params that the front itself reads; nil for absent ones.
type params struct {
	name, uri, ref, notifications, answers, state, task, taskID, arguments mcp.Raw
	// Members of _meta.
	version, clientInfo, caps, logLevel, token mcp.Raw
}

// readParams reads params. It refuses objects that two readers could read differently. It takes
// null members out of them, and an empty cursor: many clients write so what is not there.
func readParams(m *wire.Message) (p params, err error) {
	if m.Params == nil {
		return p, nil
	}
	var meta, cursor, context, caps, info mcp.Raw
	members := [...]*mcp.Raw{&meta, &p.name, &p.uri, &p.ref, &p.notifications, &p.answers, &p.state, &p.task, &p.taskID,
		&p.arguments, &cursor, &context, &caps, &info}
	names := [...]string{"_meta", "name", "uri", "ref", "notifications", "inputResponses", "requestState",
		"task", "taskId",
		"arguments", "cursor", "context", "capabilities", "clientInfo"}
	if err = wire.ReadObject(m.Params, m.Outline, members[:], names[:]...); err != nil {
		return p, err
	}
	for i, value := range members {
		if *value != nil && (value.IsNull() || value == &cursor && string(cursor) == `""`) {
			*value, m.Params = nil, m.Params.Without(names[i])
		}
	}
	ofMeta := [...]*mcp.Raw{&p.version, &p.clientInfo, &p.caps, &p.logLevel, &p.token}
	err = wire.ReadObject(meta, nil, ofMeta[:],
		wire.MetaVersion, wire.MetaClientInfo, wire.MetaClientCaps, wire.MetaLogLevel, wire.MetaProgressToken)
	if err != nil {
		return p, err
	}
	for _, value := range ofMeta {
		if value.IsNull() {
			*value = nil
		}
	}
	if m.Method == mcp.MethodComplete {
		return p, wire.CheckObject(p.ref, "type", "name", "uri")
	}
	return p, nil
}

// routingName returns the name that the method is routed by, "" if the method has none. It
// refuses arguments for it that are none.
func (p params) routingName(method string) (string, error) {
	if p.arguments != nil && !p.arguments.IsObject() {
		return "", refuse.InvalidParams("arguments is no object")
	}
	var raw mcp.Raw
	switch member := mcp.NameMember(method); {
	case member == "name":
		raw = p.name
	case member == "uri":
		raw = p.uri
	case member == "taskId":
		raw = p.taskID
	case method == mcp.MethodSkillsGet: // a URI in one spelling, a name in the other
		if (p.uri != nil) == (p.name != nil) {
			return "", refuse.InvalidParams("skills/get needs either a uri or a name")
		}
		if raw = p.uri; raw == nil {
			raw = p.name
		}
		if !wire.NameOK(raw) {
			return "", refuse.InvalidParams("uri and name are strings")
		}
	case method == mcp.MethodComplete:
		switch p.ref.At("type").Text() {
		case "ref/prompt":
			raw = p.ref.At("name")
		case "ref/resource":
			raw = p.ref.At("uri")
		default:
			return "", refuse.InvalidParams("ref.type is neither ref/prompt nor ref/resource")
		}
	default:
		return "", nil
	}
	if !wire.NameOK(raw) {
		return "", refuse.InvalidParams("%s needs a name, URI or id that is a string", method)
	}
	return raw.Text(), nil
}

// post answers a POST. One of HTTP+SSE (old) is only told whether its message is accepted: the
// answer comes on the stream.
func (f *Front) post(w http.ResponseWriter, r *http.Request, old bool) {
	p := &posted{Request: exchange.Request{W: w, RC: http.NewResponseController(w), R: r}, old: old}
	if f.Trails != nil {
		p.Known = time.Now()
	}
	defer p.release(f)
	defer func() {
		if cause := recover(); cause != nil {
			f.Recovered(cause, "")
			f.Refuse(p.W, p.Message.ID, refuse.Internal(""))
		}
	}()
	ref := p.read(f)
	if ref == nil {
		if p.old {
			ref = f.onStream(p)
		} else {
			ref = f.inEra(p)
		}
		if ref != nil && ref != answered && p.Message.Kind == wire.Response {
			ref.ID = refuse.NullID // the id is one of ours, or unknown
		}
	}
	if ref != nil {
		f.turnAway(p.W, p.Caller, p.Message, ref)
	}
}

// inEra passes the message to its dialect.
func (f *Front) inEra(p *posted) *refuse.Refusal {
	modern, ref := p.era()
	switch {
	case ref != nil:
		return ref
	case modern && p.batch != nil:
		return refuse.Invalid("Invalid request: this revision has no batches")
	case modern:
		return f.stateless(p)
	case f.cfg.Clients == ClientsStateless:
		return p.refuseStateful()
	case p.batch != nil:
		return f.batch(p)
	}
	return f.stateful(p)
}

// read reads the message, or the batch. With a refusal it keeps the message's id, if it saw it.
func (p *posted) read(f *Front) (ref *refuse.Refusal) {
	if p.Caller, ref = f.caller(p.R); ref != nil {
		return ref
	}
	if p.counted = f.requestLimit.Take(&p.Caller); !p.counted {
		return refuse.Busy()
	}
	if p.Accept, ref = checkPost(p.R, !p.old); ref != nil {
		p.Message.ID = f.peek(p.RC, p.R)
		return ref
	}
	if ref = p.readBody(f); ref != nil {
		return ref
	}
	f.Metrics.Received.Add(float64(len(p.body)))
	var err error
	if wire.IsBatch(p.body) {
		p.batch, p.errs, err = wire.ScanBatch(p.body)
	} else if p.Message, err = wire.Scan(p.body); err == nil {
		p.params, err = readParams(&p.Message)
	}
	if err != nil {
		return refuse.Bad(err)
	}
	return nil
}

// caller returns the caller of a request, as auth has determined.
func (f *Front) caller(r *http.Request) (mcp.Caller, *refuse.Refusal) {
	caller, ok := mcp.CallerFrom(r.Context())
	if !ok {
		f.Log.Error("a request came past authentication", failure.Internal.Attr())
		return caller, refuse.Internal("")
	}
	return caller, nil
}

// newExchange prepares the answer to a request. The call has the id that another replica gave it, or a
// new one.
func (f *Front) newExchange(p *posted, rev *wire.Revision) *exchange.Exchange {
	id := p.R.Header.Get(callHeader)
	if _, _, fromReplica := cluster.Forwarded(p.R); !fromReplica || !strings.HasPrefix(id, f.Replica+"-") {
		id = f.CallID()
	}
	var on *stream.Stream
	if p.on != nil {
		on = p.on.stream
	}
	return f.New(&p.Request, id, rev, p.params.token, on)
}

// era decides which dialect a message is in: stateless if its _meta or its header says so, which
// must agree (2026-07-28 basic/versioning). It notes what the header says.
func (p *posted) era() (modern bool, ref *refuse.Refusal) {
	lines := p.R.Header[wire.HeaderVersion]
	modern = p.params.version != nil
	known := true
	for _, line := range lines {
		rev := wire.Lookup(line)
		known = known && rev != nil
		modern = modern || rev != nil && !rev.Stateful
	}
	switch {
	case len(lines) > 1 && modern:
		return true, refuse.Bad(refuse.HeaderMismatch("%s stands there twice", wire.HeaderVersion))
	case len(lines) > 1:
		return false, refuse.Invalid("Invalid request: %s stands there twice", wire.HeaderVersion)
	case len(lines) == 1:
		p.header = lines[0]
	}
	if !modern && !known && p.Message.Method != mcp.MethodInitialize {
		return false, refuse.Version(clip(p.header))
	}
	return modern, nil
}

// refuseStateful refuses a client that would need a session if there are none. An older client
// can tell its user; a newer one that began with initialize can continue without (2026-07-28
// basic/versioning#backward-compatibility-with-initialization-based-versions).
func (p *posted) refuseStateful() *refuse.Refusal {
	requested := p.header
	if p.Message.Method == mcp.MethodInitialize {
		requested = p.Message.Params.At("protocolVersion").Text()
	}
	ref := refuse.Version(clip(requested))
	ref.Err.Message = "Unsupported protocol version: this server serves no clients with sessions"
	return ref
}

// clip bounds how much of a client's text is repeated.
func clip(s string) string { return s[:min(len(s), 64)] }
