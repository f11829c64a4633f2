package front

import (
	"net/http"
	"sync"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/exchange"
	"github.com/gatehouse-mcp/gatehouse/gateway/front/refuse"
	"github.com/gatehouse-mcp/gatehouse/gateway/front/request"
	"github.com/gatehouse-mcp/gatehouse/gateway/front/stateful"
	"github.com/gatehouse-mcp/gatehouse/internal/home"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// stateful serves a message of a client with a session (2024-11-05 to 2025-11-25), or of one
// that wants to begin a session.
func (f *Front) stateful(p *posted) *refuse.Refusal {
	isRequest := p.Message.Kind == wire.Request
	if isRequest && p.Message.Method == mcp.MethodInitialize {
		return stateful.Initialize(f.endpoint, &p.Request)
	}
	if isRequest && p.Message.Method == mcp.MethodPing && len(p.R.Header[wire.HeaderSession]) == 0 {
		f.endpoint.WriteJSON(p.W, http.StatusOK, wire.AppendResult(nil, p.Message.ID, nil))
		return nil
	}
	if ref := f.session(p); ref != nil {
		return ref
	}
	if isRequest {
		return f.request(p)
	}
	return stateful.Accept(f.endpoint, &p.Request, p.home)
}

// session finds the session that a request names; if another replica owns it, the request is
// answered there. The session exists for its user and client alone, with any of their tokens, and
// at the endpoint of its view: a stolen id gives no access.
func (f *Front) session(p *posted) *refuse.Refusal {
	id, ref := sessionID(p.R.Header)
	if ref != nil {
		return ref
	}
	if ref := f.use(p, home.Key{User: p.Caller.User(), ID: id}); ref != nil {
		return ref
	}
	record := session.Of(p.home)
	rev := wire.Lookup(record.Revision)
	if rev == nil || record.Client != p.Caller.ClientID || record.View != p.Caller.View {
		// It belongs to another version of the gateway, another client, or another view.
		return f.endpoint.RefuseSession(session.ErrNotFound)
	}
	if p.header != "" && p.header != rev.Name {
		// Clients SHOULD send the negotiated version; some send the newest they know.
		f.deps.Log.Debug("a version header differs from what was negotiated", "header", p.header, "negotiated", rev.Name)
	}
	return nil
}

// request serves a request within a session.
func (f *Front) request(p *posted) *refuse.Refusal {
	if p.Message.Method == mcp.MethodPing {
		f.endpoint.WriteJSON(p.W, http.StatusOK, wire.AppendResult(nil, p.Message.ID, nil))
		return nil
	}
	if !f.endpoint.Running.Begin() {
		return refuse.Closing()
	}
	defer f.endpoint.Running.Done()
	defer p.endUse()
	x, ref := stateful.Call(f.endpoint, &p.Request, p.home)
	if x != nil {
		defer x.Running.Stop()
		x.Serve(x.Running.Context())
	}
	return ref
}

// ofSession answers a GET or DELETE; both are about a session. Stateless clients have neither
// method (2026-07-28 basic/transports/streamable-http).
func (f *Front) ofSession(p *posted) (ref *refuse.Refusal) {
	if p.Caller, ref = f.caller(p.R); ref != nil {
		return ref
	}
	modern, ref := p.era()
	switch {
	case modern:
		return refuse.Method(http.MethodPost)
	case ref != nil:
		return ref
	}
	if ref = f.session(p); ref != nil {
		return ref
	}
	if p.R.Method == http.MethodGet {
		return stateful.Get(f.endpoint, &p.Request, p.home)
	}
	if err := p.home.End(p.R.Context(), home.Ended); err != nil {
		return f.endpoint.RefuseSession(err)
	}
	p.W.WriteHeader(http.StatusNoContent)
	return nil
}

// sessionID reads the session's id from its header. It refuses without a lookup what the gateway
// cannot have made.
func sessionID(h http.Header) (id string, ref *refuse.Refusal) {
	lines := h[wire.HeaderSession]
	switch {
	case len(lines) == 0:
		return "", refuse.Invalid("Invalid request: %s is missing: start with initialize, or send _meta as a stateless client does", wire.HeaderSession)
	case len(lines) > 1:
		return "", refuse.Invalid("Invalid request: %s stands there twice", wire.HeaderSession)
	}
	if id = lines[0]; !home.ValidID(id) {
		ref, _ = refuse.Session(session.ErrNotFound)
	}
	return id, ref
}

// batch serves several messages in one POST, which the first revisions allow (2025-03-26
// basic/index#batching), each as if it had come alone, all at the same time. Without a stream
// there is no progress, and no question can be asked.
func (f *Front) batch(p *posted) *refuse.Refusal {
	ref := f.session(p)
	if ref == nil {
		ref = p.CheckBatch(wire.Lookup(session.Of(p.home).Revision))
	}
	if ref != nil {
		return ref
	}
	answers := make([]exchange.Collected, len(p.Batch))
	var members sync.WaitGroup
	for i := range p.Batch {
		members.Go(func() { f.answerMember(p, i, &answers[i]) })
	}
	members.Wait()
	var bodies []mcp.Raw
	for i, m := range p.Batch {
		// Notifications and responses have no answers.
		if (m.Kind == wire.Request || m.Kind == 0) && answers[i].Body != nil {
			bodies = append(bodies, answers[i].Body)
		}
	}
	if bodies == nil {
		f.endpoint.Writer.Deadline(p.RC) // the server's deadline may be over by now
		p.W.WriteHeader(http.StatusAccepted)
		return nil
	}
	f.endpoint.WriteJSON(p.W, http.StatusOK, mcp.Array(bodies...))
	return nil
}

func (f *Front) answerMember(p *posted, i int, w *exchange.Collected) {
	defer func() {
		if cause := recover(); cause != nil {
			f.endpoint.Recovered(cause, "")
			f.endpoint.Refuse(w, p.Batch[i].ID, refuse.Internal(""))
		}
	}()
	one, ref := p.member(i, w)
	if ref == nil {
		one.Accept = request.Accept{JSON: true}
		defer one.release(f)
		ref = f.stateful(one)
	}
	f.turnAway(w, one.Caller, one.Message, ref)
}

// member returns one message of a batch, which is answered to w.
func (p *posted) member(i int, w http.ResponseWriter) (one *posted, ref *refuse.Refusal) {
	one = &posted{header: p.header, inBatch: true, old: p.old}
	one.Request, ref = p.Member(i, w)
	return one, ref
}
