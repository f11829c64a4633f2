package front

import (
	"context"
	"errors"
	"sync"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/refuse"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// live is what this process holds of a session: what runs for it. It is made with
// the session's first request and goes with EndSession or DropSession.
type live struct {
	f    *Front
	key  string
	user string // of the session's record, as id
	id   string
	gone chan struct{} // closed at the session's end

	mu      sync.Mutex // guards the fields below
	ended   bool
	running map[*running]struct{}
	asked   map[string]*question // by id, as it stands on the wire
	roots   roots
	caller  *mcp.Caller            // as the token says that is good the longest; nil for none yet
	streams []*standing            // open GET streams, the newest last
	waiting backlog                // events while none is open
	listed  map[string]mcp.ListSum // sums of the lists that the client has, by method, until somebody listens
	heard   *listener              // the one that listens, or did last; nil for none
	deaf    bool                   // the last one ended, and may have missed something
	leaving bool                   // it is being given up to other replicas: nothing begins here

	subscribing chan struct{} // holds one token: whoever changes heard takes it
}

// running is a call in flight.
type running struct {
	id     string // the request's id, as it stands on the wire
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// liveOf returns what is held of a session. Of one that was initialized and is not held yet,
// another replica was the owner: what its client follows may have changed since that
// listened.
func (f *Front) liveOf(ctx context.Context, r session.Record) (*live, *refuse.Refusal) {
	l, isNew := f.hold(r)
	if !isNew {
		return l, nil
	}
	l.mu.Lock()
	l.deaf = r.Initialized
	l.mu.Unlock()
	// The session may have ended since it was looked up; its end came too early to
	// take this one along.
	if _, err := f.sessions.Get(ctx, r.User, r.ID); err != nil {
		if errors.Is(err, session.ErrNotFound) {
			f.EndSession(l.key)
		}
		return nil, f.refuseSession(err)
	}
	return l, nil
}

// hold returns what is held of a session, from now on if nothing was.
func (f *Front) hold(r session.Record) (l *live, isNew bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if l = f.lives[r.Key()]; l != nil {
		return l, false
	}
	l = &live{
		f:           f,
		key:         r.Key(),
		user:        r.User,
		id:          r.ID,
		gone:        make(chan struct{}),
		running:     make(map[*running]struct{}),
		asked:       make(map[string]*question),
		subscribing: make(chan struct{}, 1),
	}
	f.lives[r.Key()] = l
	return l, true
}

// known returns what is held of a session, nil for nothing.
func (f *Front) known(key string) *live {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lives[key]
}

// start counts a call in. Its context ends by notifications/cancelled, with the
// session or with the front, not when its client goes away: a disconnect is no
// cancellation (2025-11-25 basic/transports#sending-messages-to-the-server). It is nil
// when the session has ended, or is being given up.
func (l *live) start(ctx context.Context, id mcp.Raw) *running {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	r := &running{id: string(id), ctx: ctx, cancel: cancel}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended || l.leaving {
		cancel(errEnded)
		return nil
	}
	l.running[r] = struct{}{}
	return r
}

func (l *live) stop(r *running) {
	l.mu.Lock()
	delete(l.running, r)
	l.mu.Unlock()
	r.cancel(nil)
	if l.f.recalls.Load() {
		l.f.running.Add(1) // beside the request's own, so that Close, which may have begun, waits
		go func() {        // the answer does not wait for it
			defer l.f.running.Done()
			l.f.leave(l)
		}()
	}
}

// leaves reports whether a session is given up: nothing runs for it, and nothing begins from
// now on. first is for the one who has to do it. A session of HTTP+SSE ends with its stream
// instead.
func (l *live) leaves() (first, leaving bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended || l.leaving || len(l.running) > 0 || len(l.streams) > 0 && l.streams[0].plain {
		return false, l.leaving
	}
	l.leaving = true
	return true, true
}

// refuses is why no call begins.
func (l *live) refuses() *refuse.Refusal {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.leaving {
		return refuse.Closing()
	}
	return l.f.refuseSession(session.ErrNotFound)
}

// cancel cancels the calls whose request has this id, all of them if a client used
// one twice. Ids that are not in flight are ignored.
func (l *live) cancel(id mcp.Raw) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for r := range l.running {
		if r.id == string(id) {
			r.cancel(errCancelled)
		}
	}
}

func (l *live) cancelAll(cause error) (count int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for r := range l.running {
		r.cancel(cause)
	}
	return len(l.running)
}

// end stops everything but the listener.
func (l *live) end(why error) {
	l.mu.Lock()
	if !l.ended {
		l.ended = true
		close(l.gone)
	}
	l.mu.Unlock()
	l.cancelAll(why)
}

// saw keeps what the newest token says of the session's user, for what runs between two
// requests.
func (l *live) saw(c mcp.Caller) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known := l.caller; known != nil && (known.Expires.IsZero() || !c.Expires.IsZero() && !c.Expires.After(known.Expires)) {
		return
	}
	newest := c // on the heap only here
	l.caller = &newest
}
