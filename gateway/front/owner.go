package front

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/refuse"
	"github.com/gatehouse-mcp/gatehouse/gateway/front/sse2024"
	"github.com/gatehouse-mcp/gatehouse/gateway/front/stream"
	"github.com/gatehouse-mcp/gatehouse/internal/cluster"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/home"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// A session has one owner: the replica that has everything of the session in memory. Front
// looks up the owner once for each request, after authentication and before the pipeline. A
// replica that is not the owner forwards the whole request to it.

// maxOwners bounds how many owners of one session a request tries. Each further try follows an
// owner that has gone, or that did not answer a request which may be repeated.
const maxOwners = 3

// answered marks a request that another replica has answered. use returns it.
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
			return f.endpoint.RefuseSession(session.ErrNotFound)
		case errors.Is(err, home.ErrTooMany):
			return refuse.Clients()
		case !away && p.anywhere:
			return nil
		case !away:
			return f.refuseHomeless(err)
		case p.inBatch: // the batch was for this replica, and only a whole one can be sent to another
			return f.endpoint.RefuseSession(session.ErrMoved)
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
func (f *Front) homes() *home.Table { return f.deps.Store.Homes() }

// refuseHomeless refuses a request when its owner cannot be determined, and logs it.
func (f *Front) refuseHomeless(err error) *refuse.Refusal {
	f.homeless.Do(func() {
		f.deps.Log.Warn("it is not known which replica owns a session", failure.StoreDown.Attr(), "error", err)
	})
	return f.endpoint.RefuseSession(session.ErrUnavailable)
}

// Receiver takes the requests that other replicas forward.
func (f *Front) Receiver() cluster.Receiver { return receiver{f} }

type receiver struct{ f *Front }

// ReleaseHome gives up a home for another replica (cluster.Receiver).
func (r receiver) ReleaseHome(name string) { r.f.homes().Release(home.ParseKey(name)) }

// ServeHTTP serves a request (cluster.Receiver). The path says which of the endpoint's paths it is
// for.
func (r receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	f := r.f
	text, _, ok := cluster.Forwarded(req)
	caller, err := f.deps.Callers.Read(text)
	if !ok || err != nil {
		f.deps.Log.Error("a request came from another replica without who makes it", failure.Internal.Attr(), "error", err)
		f.endpoint.Refuse(w, nil, refuse.Internal(""))
		return
	}
	req = req.WithContext(mcp.WithCaller(req.Context(), caller))
	path := req.URL.Path
	if _, messages := f.SSEPaths(); messages != "" && (path == messages || caller.View != "" && sse2024.Has(path)) {
		f.post(w, req, true)
		return
	}
	f.serve(w, req)
}

// callHeader tells the owner of a session the id of a call, which its records and those here share.
const callHeader = "Gatehouse-Call"

// forward makes the owner of a session answer a request. It returns nil if the caller should look up the
// owner again: the owner does not own the home any more and did nothing, or the request may be
// repeated.
func (f *Front) forward(p *posted, replica string, key home.Key) *refuse.Refusal {
	caller, err := f.deps.Callers.Write(p.Caller)
	if err != nil {
		f.deps.Log.Error("a caller cannot be told to another replica", failure.Internal.Attr(), "error", err)
		return refuse.Internal("")
	}
	if !f.endpoint.Running.Begin() {
		return refuse.Closing()
	}
	defer f.endpoint.Running.Done()
	ctx := p.R.Context()
	if p.lasts() { // its client comes back elsewhere when this replica stops
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(f.endpoint.Running.Draining, cancel)()
	}
	r := p.R.WithContext(ctx)
	call := replica + "-" + strings.Replace(f.endpoint.CallID(), "-", "", 1)
	r.Header = p.R.Header.Clone()
	r.Header.Del(callHeader)
	if p.Message.Kind == wire.Request {
		r.Header.Set(callHeader, call)
	}
	if p.Body != nil {
		// A body that a stopping owner did not accept is sent again.
		r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(p.Body)), nil }
		r.Body, _ = r.GetBody()
		r.ContentLength = int64(len(p.Body))
	}
	w := &relayed{ResponseWriter: p.W, rc: http.NewResponseController(p.W), writer: f.endpoint.Writer, call: call,
		key: key.String()}
	switch err = f.deps.Cluster.Forward(w, r, replica, key.String(), caller); {
	case err == nil:
		return answered
	case errors.Is(err, cluster.ErrGone):
		return nil
	case errors.Is(err, cluster.ErrMoved):
		f.homes().Misplaced(key)
		return nil
	case errors.Is(err, cluster.ErrBroken):
		if !f.endRelayed(p, w) {
			panic(http.ErrAbortHandler) // half an answer must not look whole
		}
		return answered
	case p.lasts() && f.endpoint.Running.Drains():
		return refuse.Closing()
	}
	f.deps.Log.Warn("a request could not be forwarded to the replica that owns its session",
		failure.ReplicaUnreachable.Attr(), "replica", replica, "error", err)
	switch lost := errors.Is(err, cluster.ErrLost); {
	case lost && !p.runs() && p.R.Method != http.MethodDelete && len(p.R.Header[wire.HeaderSession]) > 0: // no calls
		return nil
	case lost && p.runs():
		f.lostRequests(p, call, key.String())
		if p.awaited() != nil {
			f.endpoint.WriteJSON(p.W, http.StatusOK, f.endpoint.LostAnswer(p.awaited(), call, p.revision()))
		} else {
			f.endpoint.Refuse(p.W, p.Message.ID, refuse.Lost())
		}
		return answered
	}
	return f.endpoint.RefuseSession(session.ErrUnavailable)
}

// endRelayed ends a stream that broke off on its way from the owner. It returns false if the
// client has to see the break: a client with a session resumes the stream of a call.
func (f *Front) endRelayed(p *posted, w *relayed) bool {
	if whole := len(w.last) == 0 || string(w.last) == endOfEvent; !w.stream || !whole || p.R.Context().Err() != nil {
		return false
	}
	var last []byte
	switch stopping := p.lasts() && f.endpoint.Running.Drains(); {
	case stopping && p.awaited() != nil:
		last = f.endpoint.EndOfListen(p.awaited())
	case stopping:
		return true
	case p.awaited() != nil && len(p.R.Header[wire.HeaderSession]) == 0:
		f.lostRequests(p, w.call, w.key)
		last = f.endpoint.LostAnswer(p.awaited(), w.call, p.revision())
	default:
		return false
	}
	_, err := w.Write(wire.AppendEvent(nil, "", "", last))
	return err == nil
}

// lostRequests records the requests that went with the owner of their session. call is the id there
// of a single one, key the session's.
func (f *Front) lostRequests(p *posted, call, key string) {
	for i := range p.Batch {
		if one, ref := p.member(i, nil); ref == nil {
			f.lostRequests(one, f.endpoint.CallID(), key)
		}
	}
	if p.Batch != nil || p.Message.Kind != wire.Request || p.Message.Method == mcp.MethodPing {
		return
	}
	c := mcp.Call{
		ID: call, Method: p.Message.Method, Params: p.Message.Params,
		Caller: p.Caller, Revision: p.revision().Name, Session: key,
	}
	c.Name, _ = p.Params.RoutingName(c.Method) // "" for what the owner refuses
	f.endpoint.LostCall(p.R.Context(), &c)
}

// relayed is the answer of another replica on its way to the client. Each write gets the same
// time limit as one of this replica's own answers.
type relayed struct {
	http.ResponseWriter
	rc     *http.ResponseController
	writer *stream.Writer
	call   string // the id of a single call
	key    string // the session's
	stream bool   // it is an event stream
	last   []byte // the last bytes that were written of it
}

func (w *relayed) WriteHeader(status int) {
	w.writer.Deadline(w.rc) // no body may follow
	w.stream = status == http.StatusOK && w.Header().Get("Content-Type") == stream.ContentType
	if w.stream {
		w.Header().Del("Content-Length") // if it breaks off, endRelayed writes another end
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *relayed) Write(b []byte) (int, error) {
	w.writer.Deadline(w.rc)
	n, err := w.ResponseWriter.Write(b)
	if w.stream {
		w.last = append(w.last, b[max(n-len(endOfEvent), 0):n]...)
		w.last = append(w.last[:0], w.last[max(len(w.last)-len(endOfEvent), 0):]...)
	}
	return n, err
}

// endOfEvent is the end of each event and each comment.
const endOfEvent = "\n\n"

// Unwrap is for http.ResponseController.
func (w *relayed) Unwrap() http.ResponseWriter { return w.ResponseWriter }
