package front

import (
	"cmp"
	"net/http"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/refuse"
	"github.com/gatehouse-mcp/gatehouse/gateway/front/request"
	"github.com/gatehouse-mcp/gatehouse/gateway/front/sse2024"
	"github.com/gatehouse-mcp/gatehouse/internal/cluster"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/home"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// posted is one POSTed message on its way to one of the two dialects, or a GET or DELETE, which has
// no message.
type posted struct {
	request.Request
	header  string     // the revision that the header names, "" for none
	inBatch bool       // it is one message of a batch
	old     bool       // HTTP+SSE: the answer, if any, goes to the stream of another request
	home    *home.Home // in use by the request; nil for none
	counted bool       // among the requests of its user
	// anywhere allows this replica to serve the request when the owner of its home is unknown. It
	// is a call of a client without a session, and it answers no question.
	anywhere bool
}

// runs reports whether the body contains requests, which may have run even if their answers are lost.
func (p *posted) runs() bool { return p.Batch != nil || p.Message.Kind == wire.Request }

// awaited returns the id of the only request, if the response to this POST answers it.
func (p *posted) awaited() mcp.Raw {
	if p.old || p.Batch != nil || p.Message.Kind != wire.Request {
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
	p.Room.Free()
	p.endUse()
	if p.counted {
		f.requestLimit.Give(&p.Caller)
	}
}

// post answers a POST. With HTTP+SSE (old) the response says only whether the message is accepted:
// the answer comes on the stream.
func (f *Front) post(w http.ResponseWriter, r *http.Request, old bool) {
	p := &posted{Request: request.Request{W: w, RC: http.NewResponseController(w), R: r}, old: old}
	if f.deps.Trails != nil {
		p.Known = time.Now()
	}
	id := r.Header.Get(callHeader)
	if _, _, fromReplica := cluster.Forwarded(r); fromReplica && strings.HasPrefix(id, f.endpoint.Replica+"-") {
		p.CallID = id
	}
	defer p.release(f)
	defer func() {
		if cause := recover(); cause != nil {
			f.endpoint.Recovered(cause, "")
			f.endpoint.Refuse(p.W, p.Message.ID, refuse.Internal(""))
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
	f.turnAway(p.W, p.Caller, p.Message, ref)
}

// onStream passes what was posted for a stream of HTTP+SSE to the replica that has the stream.
func (f *Front) onStream(p *posted) *refuse.Refusal {
	if _, _, fromReplica := cluster.Forwarded(p.R); !fromReplica {
		if _, replica, ours := sse2024.StreamOf(p.R); ours && replica != f.endpoint.Replica {
			return cmp.Or(f.forward(p, replica, home.Key{}), refuse.NoStream()) // its streams end with it
		}
	}
	return f.sse.Post(&p.Request)
}

// inEra passes the message to the dialect of its revision.
func (f *Front) inEra(p *posted) *refuse.Refusal {
	modern, ref := p.era()
	switch {
	case ref != nil:
		return ref
	case modern && p.Batch != nil:
		return refuse.Invalid("Invalid request: this revision has no batches")
	case modern:
		return f.stateless(p)
	case f.cfg.Clients == ClientsStateless:
		return p.refuseStateful()
	case p.Batch != nil:
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
	if ref = p.ReadBody(&f.limits, !p.old); ref != nil {
		return ref
	}
	f.deps.Metrics.Received.Add(float64(len(p.Body)))
	return p.Scan()
}

// caller returns the caller that auth found for a request.
func (f *Front) caller(r *http.Request) (mcp.Caller, *refuse.Refusal) {
	caller, ok := mcp.CallerFrom(r.Context())
	if !ok {
		f.deps.Log.Error("a request came past authentication", failure.Internal.Attr())
		return caller, refuse.Internal("")
	}
	return caller, nil
}

// era decides which dialect a message is in: stateless if its _meta or its header says so, which
// must agree (2026-07-28 basic/versioning). It notes what the header says.
func (p *posted) era() (modern bool, ref *refuse.Refusal) {
	lines := p.R.Header[wire.HeaderVersion]
	modern = p.Params.Version != nil
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

// clip shortens a client's text before it is repeated.
func clip(s string) string { return s[:min(len(s), 64)] }
