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
)

// Cluster is this replica, and what it knows of the others.
type Cluster struct {
	self     string
	homes    *homes   // nil without Redis
	members  *members // nil for one alone, as all below
	link     *link
	forwards *forwards

	ctx    context.Context // of the goroutines
	cancel context.CancelFunc
	done   sync.WaitGroup
	once   sync.Once // of Close
}

// Alone is a gateway alone.
func Alone() *Cluster {
	c := &Cluster{self: newName()}
	c.ctx, c.cancel = context.WithCancel(context.Background()) // until Close
	return c
}

// New makes a Cluster and binds its listener. Redis need not be there yet.
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
	c := Alone()
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

// join makes what a replica among others has.
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
	address := cfg.Advertise
	if address == "" {
		address = listener.Addr().String()
	}
	if c.members, err = newMembers(c.self, deps, s, identity, address, t); err != nil {
		listener.Close()
		return err
	}
	c.link = &link{ctx: c.ctx, listener: listener, identity: identity, members: c.members, carried: carried, times: t, log: deps.Log, count: deps.Metrics}
	c.forwards = newForwards(c.members, carried, deps.Metrics)
	return nil
}

// Start serves the link with forwarded, which takes the requests that other replicas forward
// (Forwarded), and renews the lease until Close.
func (c *Cluster) Start(forwarded http.Handler) {
	if c.homes == nil {
		return
	}
	c.done.Go(func() { c.homes.sweep(c.ctx) })
	if c.members == nil {
		return
	}
	c.link.start(forwarded)
	c.members.look(c.ctx, c.members.now()) // before anything runs here that others may follow
	c.done.Go(func() { c.members.renewAlways(c.ctx) })
	c.done.Go(func() { c.members.tryAlways(c.ctx) })
}

// Close ends what other replicas have forwarded, the lease and all goroutines. It takes no more
// forwards; those that run have until ctx is over. Homes that were not left before are given
// up, as far as ctx leaves time, and else taken over by others.
func (c *Cluster) Close(ctx context.Context) {
	c.once.Do(func() {
		if c.link != nil {
			c.link.drain(ctx)
		}
		c.cancel()
		c.done.Wait()
		if c.homes != nil {
			c.homes.leaveAll(ctx)
		}
		if c.link != nil {
			c.members.resign(ctx)
			c.link.close(ctx)
		}
	})
}

func newName() string { return strings.ToLower(rand.Text()[:nameSize]) }

// Self is the name of this replica: lower-case letters and digits, other ones with each start.
func (c *Cluster) Self() string { return c.self }

// Shared reports whether there may be other replicas: alone, every home is here.
func (c *Cluster) Shared() bool { return c.members != nil }

// Own finds the owner of a home, or makes this replica the owner: of one that has none, and
// of one whose owner has gone. Errors: ErrNoHome, ErrUnavailable.
//
// For a home that is here it asks nobody, as long as the lease of this replica holds.
func (c *Cluster) Own(ctx context.Context, h Home) (Owner, error) {
	if c.homes == nil {
		return Owner{Replica: c.self, here: true}, nil
	}
	return c.homes.own(ctx, h)
}

// Leave gives a home (Home.Key) up, if it is here: the next replica that is asked for it
// becomes its owner. After an error, ErrUnavailable, it still is this one in Redis.
func (c *Cluster) Leave(ctx context.Context, home string) error {
	if c.homes == nil {
		return nil
	}
	return c.homes.leave(ctx, home)
}

// Fence is what a script that writes for a home (Home.Key) has to compare: GET key == token,
// else another replica owns it and nothing may be written. For a home that is not here the
// token is one that nobody has. Without Redis both are empty.
func (c *Cluster) Fence(home string) (key, token string) {
	if c.homes == nil {
		return "", ""
	}
	return c.homes.fence(home)
}

// Forward sends a request to the owner of its home, with what the caller has proved, and the
// answer to w. An error says that nothing was written to w: ErrGone, ErrMoved, ErrUnreachable,
// ErrLost, or that of the request's context where the client has left. If the answer breaks
// off after that, Forward panics with http.ErrAbortHandler, which ends the client's stream.
//
// After an error r's body may have been read.
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

// Leaving has the lease say, from now on, that this replica is about to stop.
func (c *Cluster) Leaving(ctx context.Context) {
	if c.members != nil {
		c.members.tellOthers(func(l *lease) { l.Leaving = true })
		c.members.look(ctx, c.members.now())
	}
}

// Revised has the lease tell another revision of the configuration.
func (c *Cluster) Revised(revision string) {
	if c.members != nil {
		c.members.tellOthers(func(l *lease) { l.Revision = revision })
	}
}

// Watch tells when a replica has gone: its lease has ended, or it refused connections. It
// never tells so of this one. stop ends the watch. If too many replicas are watched gone is
// nil.
func (c *Cluster) Watch(replica string) (gone <-chan struct{}, stop func()) {
	switch {
	case replica == c.self:
		return nil, func() {}
	case c.members == nil: // nobody else is there
		over := make(chan struct{})
		close(over)
		return over, func() {}
	}
	return c.members.watch(replica)
}

// Peers are the other replicas, ordered by name.
func (c *Cluster) Peers() []Peer {
	if c.members == nil {
		return nil
	}
	return c.members.list()
}
