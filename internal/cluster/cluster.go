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

	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
)

// Cluster is this replica and what it knows of the others.
type Cluster struct {
	self    string
	db      *redisdb.DB // nil for a gateway without Redis, as are the fields below
	scripts scripts
	idle    time.Duration
	tokens  atomic.Uint64

	members  *members // nil for a gateway alone, as are the fields below
	link     *link
	forwards *forwards

	ctx    context.Context // of the goroutines
	cancel context.CancelFunc
	done   sync.WaitGroup
	closed atomic.Bool // Close was called
}

// Alone returns the Cluster of a gateway without other replicas and without Redis.
func Alone() *Cluster {
	c := &Cluster{self: strings.ToLower(rand.Text()[:nameSize])}
	c.ctx, c.cancel = context.WithCancel(context.Background()) // until Close
	return c
}

// New makes a Cluster and binds its listener. Redis need not be reachable yet.
func New(cfg Config, deps Deps) (*Cluster, error) { return newCluster(cfg, deps, usualTimes(), tcp{}) }

func newCluster(cfg Config, deps Deps, t times, n network) (*Cluster, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("replicas: %w", err)
	}
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	if deps.Metrics == nil {
		deps.Metrics = NewMetrics(nil)
	}
	c := Alone()
	switch {
	case deps.DB == nil:
		return c, nil
	case deps.Idle <= 0:
		return nil, errors.New("cluster: no time after which unused homes end")
	case cfg.Listen == "" && !cfg.Alone:
		return nil, errors.New("replicas: listen: needed with a Redis that replicas share: " +
			"write the address for the other replicas, or alone: true")
	}
	c.db, c.scripts, c.idle = deps.DB, newScripts(), deps.Idle
	if cfg.Alone {
		return c, nil
	}
	return c, c.join(cfg, deps, t, n)
}

// join makes the parts that only a replica among others has.
func (c *Cluster) join(cfg Config, deps Deps, t times, n network) error {
	identity, err := newIdentity(c.self)
	if err != nil {
		return err
	}
	carried, err := newCarried(c.self, deps.Key, deps.Accepted)
	if err != nil {
		return err
	}
	listener, err := n.listen(cfg.Listen)
	if err != nil {
		return fmt.Errorf("cluster: listen: %w", err)
	}
	address := listener.Addr().String()
	if cfg.Advertise != "" {
		_, port, _ := splitAddress(address) // the listener's own is good
		address = cfg.advertised(port)
	}
	if c.members, err = newMembers(c.self, deps, c.scripts, identity, address, t, n); err != nil {
		listener.Close()
		return err
	}
	c.link = newLink(c.ctx, listener, c.members, carried, deps)
	c.forwards = newForwards(c.members, carried)
	return nil
}

// Start renews the lease until Close and serves the link.
func (c *Cluster) Start(forwarded Receiver) {
	if c.members == nil {
		return
	}
	c.link.start(forwarded)
	c.members.look(c.ctx, c.members.now()) // other replicas may depend on what runs here, so the lease comes first
	c.done.Go(func() { c.members.renewAlways(c.ctx) })
	c.done.Go(func() { c.members.tryAlways(c.ctx) })
}

// Drain stops taking forwards, and waits until those that run have ended or ctx has. A home that
// another replica then asks for is released (Receiver).
func (c *Cluster) Drain(ctx context.Context) {
	if c.link != nil {
		c.link.drain(ctx)
	}
}

// Close drains, and ends the lease and all goroutines. Other replicas take over the homes that were
// not released. Close ends within two seconds after ctx, whatever still runs then. Only the first
// call does anything.
func (c *Cluster) Close(ctx context.Context) {
	if c.closed.Swap(true) {
		return
	}
	c.Drain(ctx)
	c.cancel()
	if c.members == nil {
		return
	}
	waitFor(context.WithoutCancel(ctx), c.members.times.look/4, &c.done)
	c.members.release(context.WithoutCancel(ctx))
	c.link.close(ctx)
	c.members.forgetAll()
}

// Self is the name of this replica: lower-case letters and digits, different at each start.
func (c *Cluster) Self() string { return c.self }

// Shared reports whether there may be other replicas. In a gateway alone, every home is here.
func (c *Cluster) Shared() bool { return c.members != nil }

// Present reports whether a replica is known and has not gone.
func (c *Cluster) Present(replica string) bool {
	return c.members != nil && c.members.peer(replica) != nil
}

// Lapsed receives when the lease is renewed after it had ended: each home of this replica is then to
// be renewed, since others may have taken it over. It receives nothing for a gateway alone.
func (c *Cluster) Lapsed() <-chan struct{} {
	if c.members == nil {
		return nil
	}
	return c.members.lapsed
}

// Forward sends a request to the replica that owns its home (Home.Key), and copies the answer to w.
// It carries what the caller has proved. Errors: ErrGone, ErrMoved, ErrUnreachable, ErrLost, or the
// error of the request's context if the client has left, if nothing was written to w; ErrBroken if
// the answer broke off, in which case the caller has to end the client's connection.
//
// After an error, r's body may have been read.
func (c *Cluster) Forward(w http.ResponseWriter, r *http.Request, to, home string, caller []byte) error {
	if c.forwards == nil || to == c.self {
		return errors.New("cluster: what is here is not forwarded")
	}
	return c.forwards.send(w, r, to, home, caller)
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

// waitFor waits for a group, for some time or until ctx ends. What then still runs has ended
// connections, or waits for Redis, and ends soon.
func waitFor(ctx context.Context, limit time.Duration, group *sync.WaitGroup) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	over := make(chan struct{})
	go func() { // ends with the group
		group.Wait()
		close(over)
	}()
	select {
	case <-over:
	case <-ctx.Done():
	}
}
