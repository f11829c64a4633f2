package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/gatehouse-mcp/gatehouse/internal/http1"
)

// Errors of a forward that has brought no byte of an answer.
var (
	// ErrGone means that nobody listens at the owner's address, and nothing was sent. Own now
	// takes the home over.
	ErrGone = errors.New("cluster: the replica that owns the session has gone")
	// ErrMoved means that the other replica does not own the home, and did nothing. Call Own
	// again.
	ErrMoved = errors.New("cluster: the session is not at that replica")
	// ErrUnreachable means that no connection to the owner can be made. Nothing was done.
	ErrUnreachable = errors.New("cluster: the replica that owns the session cannot be reached")
	// ErrLost means that the owner went, or its lease ended, after the request was sent. The
	// request may have been done.
	ErrLost = errors.New("cluster: the replica that owns the session went while it ran the request")
)

// copySize is the size of the buffer that copies an answer, in bytes.
const copySize = 32 << 10

// buffers pools the buffers that copy answers.
type buffers struct{ pool sync.Pool }

func newBuffers() *buffers {
	return &buffers{sync.Pool{New: func() any { return new([copySize]byte) }}}
}

func (b *buffers) Get() []byte    { return b.pool.Get().(*[copySize]byte)[:] }
func (b *buffers) Put(buf []byte) { b.pool.Put((*[copySize]byte)(buf)) }

// forwards sends requests to other replicas.
type forwards struct {
	members *members
	carried *carried
	buffers *buffers
	quiet   *log.Logger
	count   *Metrics
}

func newForwards(m *members, c *carried, count *Metrics) *forwards {
	return &forwards{members: m, carried: c, buffers: newBuffers(), quiet: log.New(io.Discard, "", 0), count: count}
}

// forward is one request on its way.
type forward struct {
	*forwards
	to      *peer
	home    string
	caller  []byte
	sent    atomic.Bool // the request may have been sent
	outcome error       // why there is no answer
}

// send forwards a request to a peer and copies its answer to w.
func (f *forwards) send(w http.ResponseWriter, r *http.Request, to Owner, caller []byte) error {
	if _, _, twice := Forwarded(r); twice {
		return errors.New("cluster: a forwarded request must not be forwarded again")
	}
	ended := outcomeBroken // unless the code below knows more
	defer func() {
		if ended == outcomeBroken && r.Context().Err() != nil {
			ended = outcomeLeft
		}
		f.count.forwards[ended].Inc()
	}()
	p, gone := f.members.whereabouts(r.Context(), to.Replica, f.members.now())
	switch {
	case gone:
		ended = outcomeGone
		return ErrGone
	case p == nil:
		ended = outcomeUnreachable
		return fmt.Errorf("%w: nothing is known of replica %s", ErrUnreachable, to.Replica)
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	stop := context.AfterFunc(p.ctx, func() { cancel(errEnded) })
	defer stop()
	one := &forward{forwards: f, to: p, home: to.home, caller: caller}
	proxy := httputil.ReverseProxy{ // passes event streams on as they arrive
		Rewrite: one.rewrite, Transport: one, BufferPool: f.buffers, ErrorLog: f.quiet,
		ModifyResponse: one.answered,
		ErrorHandler:   func(_ http.ResponseWriter, _ *http.Request, err error) { one.outcome = one.sort(r.Context(), err) },
	}
	proxy.ServeHTTP(w, r.WithContext(ctx)) // panics if the answer breaks off
	switch {
	case errors.Is(one.outcome, ErrGone):
		f.members.refuse(ctx, p)
	case errors.Is(one.outcome, ErrUnreachable) && f.members.hasGone(r.Context(), p, errors.Is(one.outcome, errAnother)):
		one.outcome = fmt.Errorf("%w: %v", ErrGone, one.outcome)
	case errors.Is(one.outcome, ErrUnreachable):
		f.members.unreached(p, one.outcome)
	}
	ended = outcomeOf(one.outcome)
	return one.outcome
}

// RoundTrip sends the request and records whether it was sent.
func (f *forward) RoundTrip(r *http.Request) (*http.Response, error) {
	return f.to.send(r, func() { f.sent.Store(true) })
}

// rewrite turns the client's request into the request for the link.
func (f *forward) rewrite(pr *httputil.ProxyRequest) {
	out := pr.Out
	out.URL.Scheme, out.URL.Host = "https", f.to.name
	out.Host = pr.In.Host
	for name := range out.Header {
		switch name {
		case "Authorization", "Cookie": // what they prove is sent sealed
			delete(out.Header, name)
		case "Connection", "Upgrade", "Te", "Expect", "Content-Length": // these belong to the client's connection
			delete(out.Header, name)
		default:
			if strings.HasPrefix(name, "X-Forwarded-") {
				delete(out.Header, name)
			}
		}
	}
	out.Header.Set(carriedHeader, f.carried.write(f.to.name, out, f.home, f.caller))
}

// answered checks the head of an answer. Answers of the link itself are not for the client.
func (f *forward) answered(resp *http.Response) error {
	switch resp.Header.Get(outcomeHeader) {
	case linkMoved:
		return ErrMoved
	case linkRefused:
		return fmt.Errorf("%w: it refuses what this one has sealed", ErrUnreachable)
	}
	return nil
}

// sort translates an error. client is the context of the client's request.
func (f *forward) sort(client context.Context, err error) error {
	dial, undialled := errors.AsType[*dialError](err)
	switch {
	case errors.Is(err, ErrMoved), errors.Is(err, ErrUnreachable):
		return err
	case undialled && dial.refused:
		return fmt.Errorf("%w: %w", ErrGone, err)
	case client.Err() != nil:
		return client.Err()
	case !f.sent.Load() && f.to.ctx.Err() != nil:
		return ErrGone
	case undialled, !f.sent.Load(), errors.Is(err, http1.ErrNotSent):
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	return fmt.Errorf("%w: %w", ErrLost, err)
}

// outcomeOf is the metric label for the end of a forward.
func outcomeOf(err error) string {
	switch {
	case err == nil:
		return outcomeAnswered
	case errors.Is(err, ErrGone):
		return outcomeGone
	case errors.Is(err, ErrMoved):
		return outcomeMoved
	case errors.Is(err, ErrUnreachable):
		return outcomeUnreachable
	case errors.Is(err, ErrLost):
		return outcomeLost
	}
	return outcomeLeft
}
