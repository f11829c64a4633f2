package front

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/refuse"
	"github.com/gatehouse-mcp/gatehouse/gateway/front/stream"
	"github.com/gatehouse-mcp/gatehouse/internal/cluster"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/home"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// callHeader tells the owner of a session the id of a call, which its records and those here share.
const callHeader = "Gatehouse-Call"

// forward makes the owner of a session answer a request. It returns nil if the caller should look up the
// owner again: the owner does not own the home any more and did nothing, or the request may be
// repeated.
func (f *Front) forward(p *posted, replica string, key home.Key) *refuse.Refusal {
	caller, err := f.deps.Callers.Write(p.Caller)
	if err != nil {
		f.Log.Error("a caller cannot be told to another replica", failure.Internal.Attr(), "error", err)
		return refuse.Internal("")
	}
	if !f.Running.Begin() {
		return refuse.Closing()
	}
	defer f.Running.Done()
	ctx := p.R.Context()
	if p.lasts() { // its client comes back elsewhere when this replica stops
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(f.Running.Draining, cancel)()
	}
	r := p.R.WithContext(ctx)
	call := replica + "-" + strings.Replace(f.CallID(), "-", "", 1)
	r.Header = p.R.Header.Clone()
	r.Header.Del(callHeader)
	if p.Message.Kind == wire.Request {
		r.Header.Set(callHeader, call)
	}
	if p.body != nil {
		// what a stopping owner did not accept is sent again
		r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(p.body)), nil }
		r.Body, _ = r.GetBody()
		r.ContentLength = int64(len(p.body))
	}
	w := &relayed{ResponseWriter: p.W, rc: http.NewResponseController(p.W), writer: f.Writer, call: call,
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
	case p.lasts() && f.Running.Drains():
		return refuse.Closing()
	}
	f.Log.Warn("a request could not be forwarded to the replica that owns its session", failure.ReplicaUnreachable.Attr(),
		"replica", replica, "error", err)
	switch lost := errors.Is(err, cluster.ErrLost); {
	case lost && !p.runs() && p.R.Method != http.MethodDelete && len(p.R.Header[wire.HeaderSession]) > 0: // a GET, notification or answer
		return nil
	case lost && p.runs():
		f.lostRequests(p, call, key.String())
		if p.awaited() != nil {
			f.WriteJSON(p.W, http.StatusOK, f.lostAnswer(p.awaited(), call, p.revision()))
		} else {
			f.Refuse(p.W, p.Message.ID, refuse.Lost())
		}
		return answered
	}
	return f.RefuseSession(session.ErrUnavailable)
}

// endRelayed ends a stream that broke off on its way from the owner. It returns false if the
// client has to see the break: a client with a session resumes the stream of a call.
func (f *Front) endRelayed(p *posted, w *relayed) bool {
	if whole := len(w.last) == 0 || string(w.last) == endOfEvent; !w.stream || !whole || p.R.Context().Err() != nil {
		return false
	}
	var last []byte
	switch stopping := p.lasts() && f.Running.Drains(); {
	case stopping && p.awaited() != nil:
		last = f.EndOfListen(p.awaited())
	case stopping:
		return true
	case p.awaited() != nil && len(p.R.Header[wire.HeaderSession]) == 0:
		f.lostRequests(p, w.call, w.key)
		last = f.lostAnswer(p.awaited(), w.call, p.revision())
	default:
		return false
	}
	_, err := w.Write(wire.AppendEvent(nil, "", "", last))
	return err == nil
}

// lostRequests records the requests that went with the owner of their session. call is the id there
// of a single one, key the session's.
func (f *Front) lostRequests(p *posted, call, key string) {
	for i := range p.batch {
		if one, ref := p.member(i, nil); ref == nil {
			f.lostRequests(one, f.CallID(), key)
		}
	}
	if p.batch != nil || p.Message.Kind != wire.Request || p.Message.Method == mcp.MethodPing {
		return
	}
	c := mcp.Call{
		ID: call, Method: p.Message.Method, Params: p.Message.Params,
		Caller: p.Caller, Revision: p.revision().Name, Session: key,
	}
	c.Name, _ = p.params.routingName(c.Method) // "" for what the owner refuses
	f.lostCall(p.R.Context(), &c)
}

// lostCall records a call that ran at a replica which has gone.
func (f *Front) lostCall(ctx context.Context, c *mcp.Call) {
	c.Verdict = &mcp.Verdict{}
	_, _ = f.Observe(ctx, c, mcp.HandlerFunc(lost)) // the error is in the record
}

// lost is the handler of a call that ran at a replica which has gone. Of some only the id is known.
func lost(_ context.Context, c *mcp.Call) (*mcp.Reply, error) {
	if c.Name != "" || c.Method == "" {
		c.Verdict.Executed = mcp.ExecutedUnknown
	}
	return nil, refuse.LostError()
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
