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

// What becomes of a forward of which no byte of an answer came.
var (
	// ErrGone: nobody listens where the owner was, and nothing was sent. Own takes the home
	// over now.
	ErrGone = errors.New("cluster: the replica that owns the session has gone")
	// ErrMoved: the other replica does not own the home, and did nothing. Own asks again.
	ErrMoved = errors.New("cluster: the session is not at that replica")
	// ErrUnreachable: the owner cannot be connected to, and nothing was done.
	ErrUnreachable = errors.New("cluster: the replica that owns the session cannot be reached")
	// ErrLost: the owner went, or its lease ended, after the request was sent: it may have
	// been done.
	ErrLost = errors.New("cluster: the replica that owns the session went while it ran the request")
)

// copySize is how much of an answer is read at a time.
const copySize = 32 << 10

// buffers are what answers are copied with.
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
	sent    atomic.Bool // it may have been
	outcome error       // why not
}

// send sends a request to a peer, and its answer to w.
func (f *forwards) send(w http.ResponseWriter, r *http.Request, to Owner, caller []byte) error {
	if _, _, twice := Forwarded(r); twice {
		return errors.New("cluster: a forwarded request must not be forwarded again")
	}
	ended := outcomeBroken // unless it is known better below
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
	proxy := httputil.ReverseProxy{ // which passes event streams on as they come
		Rewrite: one.rewrite, Transport: one, BufferPool: f.buffers, ErrorLog: f.quiet,
		ModifyResponse: one.answered,
		ErrorHandler:   func(_ http.ResponseWriter, _ *http.Request, err error) { one.outcome = one.sort(r.Context(), err) },
	}
	proxy.ServeHTTP(w, r.WithContext(ctx)) // it panics if the answer breaks off
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

// RoundTrip sends the request and notes whether it was sent.
func (f *forward) RoundTrip(r *http.Request) (*http.Response, error) {
	return f.to.send(r, func() { f.sent.Store(true) })
}

// rewrite makes the request for the link of that of the client.
func (f *forward) rewrite(pr *httputil.ProxyRequest) {
	out := pr.Out
	out.URL.Scheme, out.URL.Host = "https", f.to.name
	out.Host = pr.In.Host
	for name := range out.Header {
		switch name {
		case "Authorization", "Cookie": // what they prove goes along sealed
			delete(out.Header, name)
		case "Connection", "Upgrade", "Te", "Expect", "Content-Length": // of the client's connection, not of ours
			delete(out.Header, name)
		default:
			if strings.HasPrefix(name, "X-Forwarded-") {
				delete(out.Header, name)
			}
		}
	}
	out.Header.Set(carriedHeader, f.carried.write(f.to.name, out, f.home, f.caller))
}

// answered looks at the head of an answer: what the link itself says is not for the client.
func (f *forward) answered(resp *http.Response) error {
	switch resp.Header.Get(outcomeHeader) {
	case linkMoved:
		return ErrMoved
	case linkRefused:
		return fmt.Errorf("%w: it refuses what this one has sealed", ErrUnreachable)
	}
	return nil
}

// sort says what an error means. client is the context of the client's request.
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

// outcomeOf is what metrics call the end of a forward.
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
