package front

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/refuse"
	"github.com/gatehouse-mcp/gatehouse/internal/cluster"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/home"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// A session has one owner: the replica that has everything of the session in memory. Front
// looks up the owner once for each request, after authentication and before the pipeline. A
// replica that is not the owner forwards the whole request to it.

// maxOwners bounds how many owners of one session a request tries. Each further try follows an
// owner that has gone, or that did not answer a request which may be repeated.
const maxOwners = 3

// answered is the result of use for a request that another replica has answered.
var answered = &refuse.Refusal{}

// use finds the home of a request, which then uses it. It returns nil if this replica serves p: it
// owns the home, or that cannot be determined and p may be served anywhere. Any other request was
// answered by its owner (answered), or is refused.
func (f *Front) use(p *posted, key home.Key) *refuse.Refusal {
	_, _, fromReplica := cluster.Forwarded(p.R)
	homes, last := f.homes(), ""
	if fromReplica && !p.inBatch && homes.Leaving() && homes.Release(key) { // the other replica can have it
		cluster.Moved(p.W)
		return answered
	}
	for range maxOwners {
		h, err := homes.Use(p.R.Context(), key)
		elsewhere, away := errors.AsType[*home.Elsewhere](err)
		switch {
		case err == nil:
			p.home = h
			return nil
		case errors.Is(err, home.ErrNotFound):
			return f.RefuseSession(session.ErrNotFound)
		case errors.Is(err, home.ErrTooMany):
			return refuse.Clients()
		case !away && p.anywhere:
			return nil
		case !away:
			return f.refuseHomeless(err)
		case p.inBatch: // the batch was for this replica, and only a whole one can be sent to another
			return f.RefuseSession(session.ErrMoved)
		case fromReplica: // a forwarded request is never forwarded again
			cluster.Moved(p.W)
			return answered
		}
		if ref := f.forward(p, elsewhere.Replica, key); ref != nil {
			return ref
		}
		last = elsewhere.Replica
	}
	return f.refuseHomeless(fmt.Errorf("%w: it moves all the time, and was last looked for at replica %s",
		home.ErrUnavailable, last))
}

// homes is the table of the sessions.
func (f *Front) homes() *home.Table { return f.Store.Homes() }

// refuseHomeless refuses a request whose owner cannot be told, and says so in the log.
func (f *Front) refuseHomeless(err error) *refuse.Refusal {
	f.homeless.Do(func() {
		f.Log.Warn("it is not known which replica owns a session", failure.StoreDown.Attr(), "error", err)
	})
	return f.RefuseSession(session.ErrUnavailable)
}

// Receiver takes what other replicas forward here.
func (f *Front) Receiver() cluster.Receiver { return receiver{f} }

type receiver struct{ f *Front }

// ReleaseHome gives up a home for another replica (cluster.Receiver).
func (r receiver) ReleaseHome(name string) { r.f.homes().Release(home.ParseKey(name)) }

// ServeHTTP serves a request (cluster.Receiver). The path says which of the endpoint's paths it is
// for.
func (r receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) { r.f.forwarded(w, req) }

func (f *Front) forwarded(w http.ResponseWriter, r *http.Request) {
	text, _, ok := cluster.Forwarded(r)
	caller, err := f.deps.Callers.Read(text)
	if !ok || err != nil {
		f.Log.Error("a request came from another replica without who makes it", failure.Internal.Attr(), "error", err)
		f.Refuse(w, nil, refuse.Internal(""))
		return
	}
	r = r.WithContext(mcp.WithCaller(r.Context(), caller))
	if _, messages := f.SSEPaths(); messages != "" && (r.URL.Path == messages || caller.View != "" && OfSSE(r.URL.Path)) {
		f.post(w, r, true)
		return
	}
	f.serve(w, r)
}
