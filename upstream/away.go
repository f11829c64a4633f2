package upstream

import (
	"context"
	"errors"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// Calls in a session that another replica has. They are made there as the server's own
// Handle makes them: all that stands above it has seen them here.

// Peers are the other replicas of the gateway. Like Shared, nobody else can read or do
// what goes between them.
type Peers interface {
	// Self is the name of this replica, another one each time that it starts.
	Self() string
	// Present reports whether a replica is there. One of which nobody can know is.
	Present(ctx context.Context, replica string) bool
	// Forward has Upstream.Serve make a call at another replica. Its errors are ErrNotThere,
	// ErrUnheard, ErrLost, or those of the call. With a context that has ended it lets a
	// parked call go.
	Forward(ctx context.Context, replica, tag string, c *mcp.Call) (*mcp.Reply, error)
}

// What becomes of calls that are made elsewhere.
var (
	// ErrNotThere: the replica has no such session, or has gone. The call was not made.
	ErrNotThere = errors.New("upstream: the session is not there")
	// ErrUnheard: replicas cannot reach each other at the moment. The call was not made.
	ErrUnheard = errors.New("upstream: another replica cannot be reached")
	// ErrLost: the replica has gone, and the call may have been made.
	ErrLost = errors.New("upstream: another replica has gone with the call")
)

// away is the error of a call whose session is at another replica.
type away struct {
	slot    *slot
	replica string
	tag     string // of the place
}

func (a *away) Error() string { return "the session is at another replica" }

// routed begins the State of a call that is parked at another replica: its name, the tag
// of the place and the State there follow.
const routed = "at:"

// Handle makes a call. Errors are an *mcp.Error, or the context's when the caller
// has left.
//
// A retry whose context has ended already lets the parked call go that it would have
// taken up: the server is told, and all that it holds is freed.
//
// A list method returns one page. subscriptions/listen reports events, the
// acknowledgement first, until its context ends, the server ends it (an empty
// result), or it is lost (an error: listen again).
func (u *Upstream) Handle(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
	if u.peers != nil && strings.HasPrefix(c.State, routed) && !u.isStateless() {
		return u.comeBack(ctx, c)
	}
	for strays := 0; ; strays++ {
		reply, err := u.handle(ctx, c)
		a, is := errors.AsType[*away](err)
		if !is {
			return reply, err
		}
		reply, err = u.forward(ctx, a, c)
		switch {
		case errors.Is(err, ErrLost):
			return nil, u.lostOwner()
		case !errors.Is(err, ErrNotThere) && !errors.Is(err, ErrUnheard):
			return reply, err
		case strays == maxLost:
			return nil, mcp.UpstreamError(mcp.CodeUpstreamUnreachable, u.cfg.Name, mcp.ExecutedNo,
				"The replica of the gateway that has your session at upstream %s cannot be reached; try again later", u.cfg.Name)
		}
		u.pool.strayed(a, errors.Is(err, ErrNotThere))
	}
}

// forward has a call made where its session is.
func (u *Upstream) forward(ctx context.Context, a *away, c *mcp.Call) (*mcp.Reply, error) {
	reply, err := u.peers.Forward(ctx, a.replica, a.tag, c)
	if err != nil || reply.Ask == nil {
		return reply, err
	}
	ask := *reply.Ask
	ask.State, ask.Routed = routed+a.replica+":"+a.tag+":"+ask.State, ask.Here
	return &mcp.Reply{Ask: &ask}, nil
}

// comeBack brings the answers to the questions of a call where that is parked.
func (u *Upstream) comeBack(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
	parts := strings.SplitN(c.State, ":", 4)
	if len(parts) < 4 {
		return nil, errNotParked()
	}
	a := &away{replica: parts[1], tag: parts[2]}
	there := c.Clone()
	there.State = parts[3]
	var reply *mcp.Reply
	var err error
	if a.replica == u.peers.Self() {
		reply, err = u.Serve(ctx, a.tag, there)
	} else {
		reply, err = u.forward(ctx, a, there)
	}
	switch {
	case errors.Is(err, ErrUnheard):
		return nil, mcp.UpstreamError(mcp.CodeUpstreamUnreachable, u.cfg.Name, mcp.ExecutedUnknown,
			"The replica of the gateway where the call to upstream %s waits for this answer cannot be reached; answer again later", u.cfg.Name)
	case errors.Is(err, ErrNotThere) && strings.Contains(there.State, ":"): // nothing is parked: it was to be made anew
		return u.Handle(ctx, there)
	case errors.Is(err, ErrNotThere), errors.Is(err, ErrLost):
		return nil, u.lostOwner()
	}
	return reply, err
}

// Serve makes a call of another replica in the session of this one at the place of a tag;
// ErrNotThere where that is not its any more.
func (u *Upstream) Serve(ctx context.Context, tag string, c *mcp.Call) (*mcp.Reply, error) {
	u.mu.Lock()
	closed := u.closed
	u.mu.Unlock()
	sl := u.pool.holdOwned(tag, c.Session)
	if sl == nil {
		return nil, ErrNotThere
	}
	defer u.pool.leave(sl)
	if closed && c.State == "" {
		return nil, ErrNotThere
	}
	return u.Handle(ctx, c)
}

// lostOwner is the error of a call that may have run at a replica which has gone.
func (u *Upstream) lostOwner() error {
	return mcp.UpstreamError(mcp.CodeUpstreamSessionLost, u.cfg.Name, mcp.ExecutedUnknown,
		"The session at upstream %s is lost with the replica of the gateway that had it; see whether the call has run before you make it again", u.cfg.Name)
}
