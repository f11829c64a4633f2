package front

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/refuse"
	"github.com/gatehouse-mcp/gatehouse/internal/cluster"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// A session has one owner: the replica that has everything of the session in memory. Front
// looks up the owner once for each request, after authentication and before the pipeline. A
// replica that is not the owner forwards the whole request to it.

// maxOwners bounds how many owners of one session a request tries. Each further try follows an
// owner that has gone, or that did not answer a request which may be repeated.
const maxOwners = 3

// forwarded is the result of own for a request that another replica has answered.
var forwarded = &refuse.Refusal{}

// homeOf returns the home of a user's session.
func (f *Front) homeOf(user, id string) cluster.Home {
	return cluster.Home{User: user, ID: id, Record: f.deps.RecordKey}
}

// own returns nil if this replica serves p: it owns the home, or nobody can tell who does and
// p may be served anywhere. Any other request was answered by its owner (forwarded), or is
// refused.
func (f *Front) own(p *posted, home cluster.Home) *refuse.Refusal {
	_, _, fromReplica := cluster.Forwarded(p.r)
	// The other replica can have it.
	if fromReplica && !p.inBatch && f.Leaving() && home.RecordKey() != "" && f.GiveUp(p.r.Context(), home.Key()) {
		cluster.Moved(p.w)
		return forwarded
	}
	last := ""
	for range maxOwners {
		owner, err := f.deps.Cluster.Own(p.r.Context(), home)
		switch {
		case errors.Is(err, cluster.ErrNoHome):
			if key := home.Key(); f.Known(key) != nil { // it has ended without this replica
				f.deps.Leave(key)
				f.EndSession(key)
			}
			return f.refuseSession(session.ErrNotFound)
		case errors.Is(err, cluster.ErrTooMany):
			return refuse.Clients()
		case err != nil && p.anywhere:
			return nil
		case err != nil:
			return f.refuseHomeless(err)
		case owner.Here():
			if owner.Fresh && f.deps.Arrived != nil {
				f.deps.Arrived(home.Key())
			}
			return nil
		case p.inBatch: // the batch was for this replica, and only a whole one can be sent to another
			return f.refuseSession(session.ErrMoved)
		case fromReplica: // a forwarded request is never forwarded again
			cluster.Moved(p.w)
			return forwarded
		}
		if ref := f.forward(p, owner, home.Key()); ref != nil {
			return ref
		}
		last = owner.Replica
	}
	return f.refuseHomeless(fmt.Errorf("%w: it moves all the time, and was last looked for at replica %s", cluster.ErrUnavailable, last))
}

// refuseHomeless refuses a request whose owner cannot be told, and says so in the log.
func (f *Front) refuseHomeless(err error) *refuse.Refusal {
	f.homeless.Do(func() {
		f.deps.Log.Warn("it is not known which replica owns a session", failure.StoreDown.Attr(), "error", err)
	})
	return f.refuseSession(session.ErrUnavailable)
}

// DropSession lets go of a session that another replica owns now (live.Sessions.DropSession).
func (f *Front) DropSession(key string) (stopListening func()) {
	f.guests.lose(key)
	return f.Sessions.DropSession(key)
}

// InUse reports whether anything runs for a session, or for a client that has none.
func (f *Front) InUse(key string) bool {
	f.guests.mu.Lock()
	here := f.guests.here[key] != nil
	f.guests.mu.Unlock()
	return here || f.Sessions.InUse(key)
}

// Forwarded serves the requests that other replicas forward here. The path says which of the
// endpoint's paths a request is for.
func (f *Front) Forwarded(w http.ResponseWriter, r *http.Request) {
	text, _, ok := cluster.Forwarded(r)
	caller, err := f.deps.Callers.Read(text)
	if !ok || err != nil {
		f.deps.Log.Error("a request came from another replica without who makes it", failure.Internal.Attr(), "error", err)
		f.refuse(w, nil, refuse.Internal(""))
		return
	}
	r = r.WithContext(mcp.WithCaller(r.Context(), caller))
	if _, messages := f.SSEPaths(); messages != "" && (r.URL.Path == messages || caller.View != "" && OfSSE(r.URL.Path)) {
		f.post(w, r, true)
		return
	}
	f.serve(w, r)
}
