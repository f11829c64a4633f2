package front

import (
	"errors"
	"net/http"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/refuse"
	"github.com/gatehouse-mcp/gatehouse/internal/cluster"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// A session has one owner, the replica of the gateway that has everything of it in memory. Front
// asks once for each request whose it is, after authentication and before the pipeline. A
// replica that is not the owner forwards the whole request to it.

// maxOwners bounds how many owners of one session a request tries: each try finds that the
// owner before has gone, or has not answered what may be done twice.
const maxOwners = 3

// forwarded is what own returns for a request that another replica has answered.
var forwarded = &refuse.Refusal{}

// arrival is a request whose owner is not known yet.
type arrival struct {
	w      http.ResponseWriter
	r      *http.Request
	caller mcp.Caller
	body   []byte // as far as it was read; nil for a request without one
	// runs says that there are requests in the body, which may have run when their answers
	// are lost. id is that of the only one, if it is answered in this response.
	runs bool
	id   mcp.Raw
	// lasts says that the answer is a stream without an end: it ends when this replica stops.
	lasts bool
	// anywhere says that while nobody can tell whose it is this replica serves it: a call of a
	// client without a session, which answers no question.
	anywhere bool
}

// arrivalOf is the arrival of a POST.
func arrivalOf(p *posted) arrival {
	a := arrival{w: p.w, r: p.r, caller: p.caller, body: p.body}
	a.runs = p.batch != nil || p.message.Kind == wire.Request
	if a.runs && p.batch == nil && !p.old {
		a.id, a.lasts = p.message.ID, p.message.Method == mcp.MethodListen
	}
	return a
}

// revisionOf is the revision that a request names, of a client with a session the newest
// where it names none.
func revisionOf(r *http.Request) *wire.Revision {
	if rev := wire.Lookup(r.Header.Get(wire.HeaderVersion)); rev != nil {
		return rev
	}
	return wire.NewestStateful()
}

// homeOf is the home of a user's session.
func (f *Front) homeOf(user, id string) cluster.Home {
	h := cluster.Home{User: user, ID: id}
	if f.recordKey != nil {
		h.Record = f.recordKey(h.Key())
	}
	return h
}

// own returns nil when this replica serves a: it owns the home, or nobody can tell who does and
// a may be served anywhere. Any other request was answered by its owner (forwarded), or is
// refused.
func (f *Front) own(a arrival, home cluster.Home) *refuse.Refusal {
	_, _, came := cluster.Forwarded(a.r)
	if came && f.Leaving() && home.Record != "" && f.GiveUp(a.r.Context(), home.Key()) { // the other one can have it
		cluster.Moved(a.w)
		return forwarded
	}
	for range maxOwners {
		owner, err := f.cluster.Own(a.r.Context(), home)
		switch {
		case errors.Is(err, cluster.ErrNoHome):
			return f.refuseSession(session.ErrNotFound)
		case err != nil && a.anywhere:
			return nil
		case err != nil:
			f.homeless.Do(func() { f.log.Warn("it is not known which replica owns a session", "error", err) })
			return f.refuseSession(session.ErrUnavailable)
		case owner.Here():
			return nil
		case came: // a forwarded request is never forwarded again
			cluster.Moved(a.w)
			return forwarded
		}
		if ref, again := f.forward(a, owner); !again {
			return ref
		}
	}
	return f.refuseSession(session.ErrUnavailable)
}

// Forwarded serves the requests that other replicas forward here. The path says which of
// the endpoint's they are.
func (f *Front) Forwarded(w http.ResponseWriter, r *http.Request) {
	text, _, ok := cluster.Forwarded(r)
	caller, err := f.callers.Read(text)
	if !ok || err != nil {
		f.log.Error("a request came from another replica without who makes it", "error", err)
		f.refuse(w, nil, refuse.Internal(""))
		return
	}
	r = r.WithContext(mcp.WithCaller(r.Context(), caller))
	if _, messages := f.SSEPaths(); messages != "" && r.URL.Path == messages {
		f.postOld(w, r)
		return
	}
	f.serve(w, r)
}
