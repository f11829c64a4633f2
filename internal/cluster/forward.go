package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/gatehouse-mcp/gatehouse/internal/http1"
)

// Errors of a forward. After ErrBroken, a part of the answer was written; after the others,
// nothing.
var (
	// ErrGone means that nothing listens at the owner's address, and nothing was sent. Own now
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
	// ErrBroken means that the answer broke off, or that the client did not take it.
	ErrBroken = errors.New("cluster: the answer broke off")
)

// errSealed means that the owner answers, but refuses what this replica has sealed.
var errSealed = fmt.Errorf("%w: it refuses what this one has sealed", ErrUnreachable)

// copySize is the size of the buffer that copies an answer, in bytes.
const copySize = 32 << 10

// forwards sends requests to other replicas.
type forwards struct {
	members *members
	carried *carried
	buffers sync.Pool // of *[copySize]byte
}

func newForwards(m *members, c *carried) *forwards {
	return &forwards{members: m, carried: c, buffers: sync.Pool{New: func() any { return new([copySize]byte) }}}
}

// send forwards a request to a peer and copies its answer to w.
func (f *forwards) send(w http.ResponseWriter, r *http.Request, to, home string, caller []byte) error {
	if _, _, twice := Forwarded(r); twice {
		return errors.New("cluster: a forwarded request must not be forwarded again")
	}
	err := f.try(w, r, to, home, caller)
	ended := outcomeOf(err)
	if ended == outcomeBroken && r.Context().Err() != nil {
		ended = outcomeLeft
	}
	f.members.count.forwards[ended].Inc()
	return err
}

func (f *forwards) try(w http.ResponseWriter, r *http.Request, to, home string, caller []byte) error {
	p, gone := f.members.whereabouts(r.Context(), to, f.members.now())
	switch {
	case gone:
		return ErrGone
	case p == nil:
		return fmt.Errorf("%w: nothing is known of replica %s", ErrUnreachable, to)
	}
	for began := f.members.now(); ; {
		err := f.once(w, r, p, home, caller)
		switch {
		case errors.Is(err, ErrGone):
			f.members.markGone(r.Context(), p)
			return err
		case !errors.Is(err, ErrUnreachable):
			return err
		case f.members.hasGone(r.Context(), p, errors.Is(err, errAnother)):
			return fmt.Errorf("%w: %v", ErrGone, err)
		case repeatable(r) && !errors.Is(err, errSealed) && f.members.again(r.Context(), p, began):
		case r.Context().Err() != nil:
			return r.Context().Err()
		case p.ctx.Err() != nil:
			return fmt.Errorf("%w: %v", ErrGone, err)
		default:
			f.members.reached(p, err)
			return err
		}
	}
}

// repeatable reports whether a request can be sent once more, as nothing was sent yet.
func repeatable(r *http.Request) bool { return r.ContentLength == 0 || r.GetBody != nil }

// once sends a request to a peer and copies the answer to w.
func (f *forwards) once(w http.ResponseWriter, r *http.Request, p *peer, home string, caller []byte) error {
	out := f.request(r, p, home, caller)
	if out.Body != nil && out.GetBody != nil {
		out.Body, _ = out.GetBody() // it is in memory
	}
	resp, sent, err := p.send(out)
	if err != nil {
		return outcome(r.Context(), p, sent, err)
	}
	defer resp.Body.Close()
	p.silent.Store(0)
	if err := refusal(resp); err != nil {
		return err
	}
	return f.relay(w, resp)
}

// request turns a client's request into the request for the link.
func (f *forwards) request(r *http.Request, p *peer, home string, caller []byte) *http.Request {
	url := *r.URL
	url.Scheme, url.Host = "https", p.name
	out := r.WithContext(r.Context()) // a copy
	out.URL, out.Header, out.TransferEncoding, out.Close = &url, make(http.Header, len(r.Header)+1), nil, false
	if out.ContentLength == 0 {
		out.Body = nil // nothing waits for the end of the client's
	}
	out.Header["User-Agent"] = nil // net/http would add its own
	addHeader(out.Header, r.Header)
	for name := range out.Header {
		switch name {
		case "Authorization", "Cookie", "Forwarded": // what they prove is sent sealed
			delete(out.Header, name)
		case "Expect", "Content-Length": // these belong to the client's connection
			delete(out.Header, name)
		default:
			if strings.HasPrefix(name, "X-Forwarded-") {
				delete(out.Header, name)
			}
		}
	}
	out.Header[carriedHeader] = []string{f.carried.write(p.name, out, home, caller)}
	return out
}

// addHeader adds the fields that are not about a connection alone (RFC 9110 §7.6.1).
func addHeader(to, from http.Header) {
	for name, values := range from {
		switch name {
		case "Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection", "Te", "Trailer",
			"Transfer-Encoding", "Upgrade":
		default:
			if to[name] == nil {
				to[name] = values[:len(values):len(values)]
			} else {
				to[name] = append(to[name], values...)
			}
		}
	}
	for _, value := range from["Connection"] {
		for name := range strings.SplitSeq(value, ",") {
			to.Del(strings.TrimSpace(name))
		}
	}
}

// refusal returns the error for an answer of the link itself, which is not for the client.
func refusal(resp *http.Response) error {
	switch resp.Header.Get(outcomeHeader) {
	case linkMoved:
		return ErrMoved
	case linkRefused:
		return errSealed
	}
	return nil
}

// relay copies an answer to w. Unless the length of the answer is known, it passes each part on
// at once.
func (f *forwards) relay(w http.ResponseWriter, resp *http.Response) error {
	addHeader(w.Header(), resp.Header)
	w.WriteHeader(resp.StatusCode)
	flush := func() error { return nil }
	if resp.ContentLength < 0 {
		flush = http.NewResponseController(w).Flush
	}
	buf := f.buffers.Get().(*[copySize]byte)
	defer f.buffers.Put(buf)
	for {
		err := flush()
		n, end := 0, error(nil)
		if err == nil {
			n, end = resp.Body.Read(buf[:])
		}
		if n > 0 {
			_, err = w.Write(buf[:n])
		}
		switch {
		case err != nil:
			return fmt.Errorf("%w: %w", ErrBroken, err)
		case end == io.EOF:
			return nil
		case end != nil:
			return fmt.Errorf("%w: %w", ErrBroken, end)
		}
	}
}

// outcome translates the error of a request to a peer. client is the context of the client's
// request. sent says that the request may have been sent.
func outcome(client context.Context, p *peer, sent bool, err error) error {
	dial, undialled := errors.AsType[*dialError](err)
	switch {
	case undialled && dial.refused:
		return fmt.Errorf("%w: %w", ErrGone, err)
	case client.Err() != nil:
		return client.Err()
	case !sent && p.ctx.Err() != nil:
		return ErrGone
	case undialled, !sent, errors.Is(err, http1.ErrNotSent):
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
	case errors.Is(err, ErrBroken):
		return outcomeBroken
	}
	return outcomeLeft
}
