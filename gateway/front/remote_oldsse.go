package front

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/refuse"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// A stream of HTTP+SSE is one replica's, whose name its id begins with. A message for it
// that another replica gets is taken there, and the answer to its POST comes back: with a
// 202 the message is under way, so that what follows cannot overtake it.

// takenTime bounds how long a POST waits for the replica that has its stream.
const takenTime = 10 * time.Second

// streamID makes an id for a stream of this replica, which nobody can guess.
func (f *Front) streamID() string {
	if f.mail == nil {
		return rand.Text()
	}
	return f.mail.Self() + "-" + rand.Text()
}

// streamAt is the replica that has a stream, "" for this one, or for no id of ours.
func (f *Front) streamAt(id string) string {
	replica, _, found := strings.Cut(id, "-")
	if f.mail == nil || !found || replica == f.mail.Self() || !isReplica(replica) {
		return ""
	}
	return replica
}

// postElsewhere has the replica that has the stream take a message.
func (f *Front) postElsewhere(p *posted, replica, stream string) {
	body, id, ref := p.body(f)
	if ref == nil && !f.begin() {
		ref = refuse.Closing()
	}
	if ref != nil {
		f.refuse(p.w, id, ref)
		return
	}
	defer f.done()
	ctx, cancel := context.WithTimeout(p.r.Context(), takenTime)
	defer cancel()
	number := f.callID()
	waiting := &pending{reply: make(chan letter, 1)}
	f.mu.Lock()
	full := len(f.pending) >= maxRemote
	f.mu.Unlock()
	if full {
		f.refuse(p.w, nil, refuse.Busy())
		return
	}
	defer f.expectFrom(number, waiting)()
	gone, unwatch := f.mail.Watch(replica)
	defer unwatch()
	err := f.send(ctx, replica, letter{Kind: mailPosted, Number: number, Stream: stream, Caller: f.carry(p.caller), Result: body})
	if err != nil && !errors.Is(err, session.ErrUnsure) && !errors.Is(err, session.ErrNobody) { // else it may have arrived: then its answer comes
		f.refuse(p.w, nil, f.refuseSession(session.ErrUnavailable))
		return
	}
	select {
	case l := <-waiting.reply:
		if l.Retry != "" {
			p.w.Header()[refuse.HeaderRetryAfter] = []string{l.Retry}
		}
		if len(l.Result) > 0 {
			p.w.Header()["Content-Type"] = contentJSON
		}
		p.w.WriteHeader(l.Status)
		_, _ = p.w.Write(l.Result) // else the client has gone
	case <-gone: // with that replica its streams have ended
		f.refuse(p.w, nil, refuse.NoStream())
	case <-ctx.Done():
		f.refuse(p.w, nil, refuse.Untaken())
	}
}

// takePosted takes a message that another replica got for a stream of this one.
func (f *Front) takePosted(l letter) {
	if f.streamAt(l.Stream) != "" || !isReplica(l.From) {
		return
	}
	f.apart(func(ctx context.Context) {
		caller, err := f.callers.Read(l.Caller)
		if err != nil {
			f.log.Error("a message came from another replica without who sent it", "error", err)
			return
		}
		answer := &kept{status: http.StatusOK}
		f.postOld(answer, (&http.Request{
			Method:        http.MethodPost,
			URL:           &url.URL{RawQuery: url.Values{queryConn: {l.Stream}}.Encode()},
			Header:        http.Header{"Content-Type": contentJSON},
			Body:          io.NopCloser(bytes.NewReader(l.Result)),
			ContentLength: int64(len(l.Result)),
		}).WithContext(mcp.WithCaller(ctx, caller)))
		f.tell(ctx, l.From, letter{Kind: mailReply, Number: l.Number, Status: answer.status, Result: answer.body.Bytes(),
			Retry: answer.Header().Get(refuse.HeaderRetryAfter)})
	})
}

// kept is an answer to another replica's client.
type kept struct {
	collected
	status int
}

func (k *kept) WriteHeader(status int) { k.status = status }
