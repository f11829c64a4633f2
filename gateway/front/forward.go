package front

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/refuse"
	"github.com/gatehouse-mcp/gatehouse/gateway/front/stream"
	"github.com/gatehouse-mcp/gatehouse/internal/cluster"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// forward makes the owner answer a request. It returns nil if the caller should look up the
// owner again: the owner does not own the home any more and did nothing, or the request may be
// repeated.
func (f *Front) forward(p *posted, owner cluster.Owner) *refuse.Refusal {
	caller, err := f.deps.Callers.Write(p.caller)
	if err != nil {
		f.deps.Log.Error("a caller cannot be told to another replica", failure.Internal.Attr(), "error", err)
		return refuse.Internal("")
	}
	if !f.begin() {
		return refuse.Closing()
	}
	defer f.done()
	ctx := p.r.Context()
	if p.lasts() { // its client comes back elsewhere when this replica stops
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(f.draining, cancel)()
	}
	r := p.r.WithContext(ctx)
	if p.body != nil {
		r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(p.body)), nil } // what a stopping owner did not accept is sent again
		r.Body, _ = r.GetBody()
		r.ContentLength = int64(len(p.body))
	}
	w := &relayed{ResponseWriter: p.w, rc: http.NewResponseController(p.w), writer: f.writer}
	switch err = f.deps.Cluster.Forward(w, r, owner, caller); {
	case err == nil:
		return forwarded
	case errors.Is(err, cluster.ErrGone), errors.Is(err, cluster.ErrMoved):
		return nil
	case errors.Is(err, cluster.ErrBroken):
		if !f.endRelayed(p, w) {
			panic(http.ErrAbortHandler) // half an answer must not look whole
		}
		return forwarded
	case p.lasts() && f.drains():
		return refuse.Closing()
	}
	f.deps.Log.Warn("a request could not be forwarded to the replica that owns its session", failure.ReplicaUnreachable.Attr(), "replica", owner.Replica, "error", err)
	switch lost := errors.Is(err, cluster.ErrLost); {
	case lost && !p.runs() && p.r.Method != http.MethodDelete && len(p.r.Header[wire.HeaderSession]) > 0: // a GET, notification or answer
		return nil
	case lost && p.awaited() != nil:
		f.writeJSON(p.w, http.StatusOK, f.lostAnswer(p.awaited(), "", p.revision()))
		return forwarded
	case lost && p.runs():
		return refuse.Lost()
	}
	return f.refuseSession(session.ErrUnavailable)
}

// endRelayed ends a stream that broke off on its way from the owner. It returns false if the
// client has to see the break: a client with a session resumes the stream of a call.
func (f *Front) endRelayed(p *posted, w *relayed) bool {
	if whole := len(w.last) == 0 || string(w.last) == endOfEvent; !w.stream || !whole || p.r.Context().Err() != nil {
		return false
	}
	var last []byte
	switch stopping := p.lasts() && f.drains(); {
	case stopping && p.awaited() != nil:
		last = f.endOfListen(p.awaited())
	case stopping:
		return true
	case p.awaited() != nil && len(p.r.Header[wire.HeaderSession]) == 0:
		last = f.lostAnswer(p.awaited(), "", p.revision())
	default:
		return false
	}
	_, err := w.Write(wire.AppendEvent(nil, "", "", last))
	return err == nil
}

// relayed is the answer of another replica on its way to the client. Each write gets the same
// time limit as one of this replica's own answers.
type relayed struct {
	http.ResponseWriter
	rc     *http.ResponseController
	writer *stream.Writer
	stream bool   // it is an event stream
	last   []byte // the last bytes that were written of it
}

func (w *relayed) WriteHeader(status int) {
	w.stream = status == http.StatusOK && w.Header().Get("Content-Type") == stream.ContentType
	if w.stream {
		w.writer.Deadline(w.rc)
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
