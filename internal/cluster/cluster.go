package cluster

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Cluster is this replica and what it knows of the others.
type Cluster struct {
	self     string
	homes    *homes   // nil without Redis
	members  *members // nil for a gateway alone, as are the fields below
	link     *link
	forwards *forwards

	ctx    context.Context // of the goroutines
	cancel context.CancelFunc
	done   sync.WaitGroup
	end    time.Duration // bounds how long Close goes on after its context
	closed atomic.Bool   // Close was called
}

// Alone returns the Cluster of a gateway without other replicas and without Redis.
func Alone() *Cluster {
	c := &Cluster{self: newName()}
	c.ctx, c.cancel = context.WithCancel(context.Background()) // until Close
	return c
}

// New makes a Cluster and binds its listener. Redis need not be reachable yet.
func New(cfg Config, deps Deps) (*Cluster, error) { return newCluster(cfg, deps, usualTimes()) }

func newCluster(cfg Config, deps Deps, t times) (*Cluster, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("replicas: %w", err)
	}
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	if deps.Metrics == nil {
		deps.Metrics = NewMetrics(nil)
	}
	if deps.OnLost == nil {
		deps.OnLost = func(string) {}
	}
	if deps.InUse == nil {
		deps.InUse = func(string) bool { return false }
	}
	if deps.Most == nil {
		deps.Most = func(string) int { return maxHeld }
	}
	c := Alone()
	c.end = t.look
	switch {
	case deps.DB == nil:
		return c, nil
	case deps.Idle <= 0:
		return nil, errors.New("cluster: no time after which unused homes end")
	case cfg.Listen == "" && !cfg.Alone:
		return nil, errors.New("replicas: listen: needed with a Redis that replicas share: write the address for the other replicas, or alone: true")
	}
	s := newScripts()
	if !cfg.Alone {
		if err := c.join(cfg, deps, s, t); err != nil {
			return nil, err
		}
	}
	c.homes = newHomes(c.self, deps, s, c.members)
	if c.link != nil {
		c.link.leave = c.homes.leave
	}
	return c, nil
}

// join makes the parts that only a replica among others has.
func (c *Cluster) join(cfg Config, deps Deps, s scripts, t times) error {
	identity, err := newIdentity(c.self)
	if err != nil {
		return err
	}
	carried, err := newCarried(c.self, deps.Key, deps.Accepted)
	if err != nil {
		return err
	}
	listener, err := listen(cfg.Listen)
	if err != nil {
		return err
	}
	address := listener.Addr().String()
	if cfg.Advertise != "" {
		_, port, _ := splitAddress(address) // the listener's own is good
		address = cfg.advertised(port)
	}
	if c.members, err = newMembers(c.self, deps, s, identity, address, t); err != nil {
		listener.Close()
		return err
	}
	c.link = &link{ctx: c.ctx, listener: listener, identity: identity, members: c.members, carried: carried, asked: deps.Asked, times: t, log: deps.Log, count: deps.Metrics}
	c.forwards = newForwards(c.members, carried, deps.Metrics)
	return nil
}

// Start renews the lease until Close and serves the link. The handler forwarded takes the
// requests that other replicas forward (see Forwarded).
func (c *Cluster) Start(forwarded http.Handler) {
	if c.homes == nil {
		return
	}
	c.done.Go(func() { c.homes.sweep(c.ctx) })
	if c.members == nil {
		return
	}
	c.link.start(forwarded)
	c.members.look(c.ctx, c.members.now()) // other replicas may depend on what runs here, so the lease comes first
	c.done.Go(func() { c.members.renewAlways(c.ctx) })
	c.done.Go(func() { c.members.tryAlways(c.ctx) })
}

// Close stops taking forwards, and ends the lease and all goroutines. Forwards that run may go
// on until ctx ends. Close gives up the remaining homes as far as ctx allows; other replicas
// take over the rest. It ends within a second after ctx, whatever still runs then. Only the first
// call does anything.
func (c *Cluster) Close(ctx context.Context) {
	if c.closed.Swap(true) {
		return
	}
	if c.link != nil {
		c.link.drain(ctx)
	}
	c.cancel()
	soon, cancel := after(ctx, c.end/4)
	defer cancel()
	waitFor(soon, &c.done)
	if c.homes != nil {
		c.homes.leaveAll(ctx)
	}
	if c.link != nil {
		late, cancel := after(ctx, c.end/2)
		defer cancel()
		c.members.resign(late)
		c.link.close(ctx)
		c.members.forgetAll()
	}
}

func newName() string { return strings.ToLower(rand.Text()[:nameSize]) }

// Self is the name of this replica: lower-case letters and digits, different at each start.
func (c *Cluster) Self() string { return c.self }

// Shared reports whether there may be other replicas. In a gateway alone, every home is here.
func (c *Cluster) Shared() bool { return c.members != nil }

// Own finds the owner of a home. If the home has no owner, or its owner has gone, this replica
// becomes the owner. Errors: ErrNoHome, ErrTooMany, ErrUnavailable.
//
// As long as the lease of this replica holds, a home that is here costs no request to Redis.
func (c *Cluster) Own(ctx context.Context, h Home) (Owner, error) {
	if c.homes == nil {
		return Owner{Replica: c.self, here: true}, nil
	}
	return c.homes.own(ctx, h)
}

// Exists reports whether a home has an owner, without making it one. If nobody can tell, it
// reports false. It asks Redis unless this replica owns the home or knows who does.
func (c *Cluster) Exists(ctx context.Context, h Home) bool {
	return c.homes == nil || c.homes.exists(ctx, h)
}

// Leave gives up a home (Home.Key) if it is here. The next replica that is asked for it
// becomes its owner. After the error ErrUnavailable, Redis still names this replica as the
// owner.
func (c *Cluster) Leave(ctx context.Context, home string) error {
	if c.homes == nil {
		return nil
	}
	return c.homes.leave(ctx, home)
}

// Fence returns what a script must compare before it writes for a home (Home.Key): unless GET
// key == token, another replica owns the home and the script must not write. For a home that
// is not here, the token is one that no replica has. Without Redis both are empty.
func (c *Cluster) Fence(home string) (key, token string) {
	if c.homes == nil {
		return "", ""
	}
	return c.homes.fence(home)
}

// Doubt says that Redis refused a write for a home (Home.Key) with this token. Redis is asked who
// owns the home before it is served here again.
func (c *Cluster) Doubt(home, token string) {
	if c.homes != nil {
		c.homes.doubt(home, token)
	}
}

// Forward sends a request, with what its caller has proved, to the owner of its home and
// copies the answer to w. Errors: ErrGone, ErrMoved, ErrUnreachable, ErrLost, or the error of
// the request's context if the client has left, if nothing was written to w; ErrBroken if the
// answer broke off, in which case the caller has to end the client's connection.
//
// After an error, r's body may have been read.
func (c *Cluster) Forward(w http.ResponseWriter, r *http.Request, to Owner, caller []byte) error {
	if c.forwards == nil || to.here {
		return errors.New("cluster: what is here is not forwarded")
	}
	err := c.forwards.send(w, r, to, caller)
	if errors.Is(err, ErrMoved) {
		c.homes.moved(to)
	}
	return err
}

// Leaving marks the lease: this replica is about to stop.
func (c *Cluster) Leaving(ctx context.Context) {
	if c.members != nil {
		c.members.tellOthers(func(l *lease) { l.Leaving = true })
		c.members.look(ctx, c.members.now())
	}
}

// Revised writes another revision of the configuration into the lease.
func (c *Cluster) Revised(revision string) {
	if c.members != nil {
		c.members.tellOthers(func(l *lease) { l.Revision = revision })
	}
}

// Peers returns the other replicas, ordered by name.
func (c *Cluster) Peers() []Peer {
	if c.members == nil {
		return nil
	}
	return c.members.list()
}

// Missing returns the replicas that have gone without leaving within the last hour, as far as no
// others have come in their place.
func (c *Cluster) Missing() []Missing {
	if c.members == nil {
		return nil
	}
	c.members.mu.Lock()
	defer c.members.mu.Unlock()
	return c.members.missed.at(time.Now())
}
