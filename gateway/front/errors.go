package front

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/refuse"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

func (f *Front) refuse(w http.ResponseWriter, id mcp.Raw, r *refuse.Refusal) {
	if r == answered {
		return
	}
	f.deps.Metrics.count(r)
	body := r.Body(w.Header(), id)
	if r.Close {
		// net/http reads the rest of a body before it closes; this limits the time for it.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(leftoverTime))
	}
	f.writeJSON(w, r.Status, body)
}

// turnAway refuses a request that became no call, nor will.
func (f *Front) turnAway(w http.ResponseWriter, c mcp.Caller, m wire.Message, r *refuse.Refusal) {
	if f.deps.Refused != nil && r != answered {
		f.deps.Refused(c, m.Method, r.Status, r.Err.Name)
	}
	f.refuse(w, m.ID, r)
}

// refuseSession translates an error of the session store.
func (f *Front) refuseSession(err error) *refuse.Refusal {
	r, known := refuse.Session(err)
	if !known {
		f.deps.Log.Error("session store", failure.Internal.Attr(), "error", err)
	}
	return r
}

// readable returns what a client may read of a call's error. The log has the cause:
// gateway/observe logs the errors of handlers, and readable the others.
func (f *Front) readable(rev *wire.Revision, method, callID string, err error) *mcp.Error {
	if errors.Is(err, errNoReply) {
		f.deps.Log.Error("internal error", failure.Internal.Attr(), "call", callID, "method", method, "error", err)
	}
	f.deps.Metrics.answered(mcp.FailureOf(err))
	return refuse.Readable(rev, method, callID, err)
}

// recovered logs a panic. http.ErrAbortHandler is net/http's own and is raised again.
func (f *Front) recovered(cause any, callID string) {
	if cause == http.ErrAbortHandler {
		panic(cause)
	}
	f.deps.Log.Error("panic in a handler", failure.Internal.Attr(), slog.String("call", callID), slog.String("error", fmt.Sprint(cause)),
		slog.String("stack", strings.TrimSpace(string(debug.Stack()))))
}
