package cluster

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

const (
	// findTime bounds the search for an owner.
	findTime = 3 * time.Second
	// ownTries bounds how often an owner is looked up while other replicas change it.
	ownTries = 4
)

var (
	// ErrNoHome means that the record that the home needs does not exist (Home.Record).
	ErrNoHome = errors.New("cluster: the session does not exist")
	// ErrUnavailable means that the owner cannot be determined now. The client may try again.
	ErrUnavailable = errors.New("cluster: the owner of the session cannot be determined now")
)

// Home names what has one owner: a session, or what stands for one.
type Home struct {
	// User is the user of the home. All homes and sessions of one user are on one node of a
	// Redis Cluster.
	User string
	// ID distinguishes the homes of one user. It contains no colon.
	ID string
	// Record is a key in Redis, as DB.Key makes it, on the same node. Without a value at this
	// key there is no home. "" means that the home needs no record.
	Record string
}

// Key is the home's name, "user:id".
func (h Home) Key() string { return h.User + ":" + h.ID }

// Owner is the replica that owns a home.
type Owner struct {
	// Replica is the name of the replica.
	Replica string
	// Epoch is the token that Redis has for the home. It changes each time the home gets an owner. "" without
	// Redis.
	Epoch string
	// Former is the replica that has gone and owned the home before; "" for none.
	Former string

	lease uint64 // of this replica, by its generation, when Redis named the owner; 0 for in doubt
	here  bool
}

// Here reports whether this replica is the owner.
func (o Owner) Here() bool { return o.here }

// Doubted returns the owner as it is until Redis is asked again (Certain).
func (o Owner) Doubted() Owner {
	o.lease = 0
	return o
}

// Own asks Redis for the owner of a home. If the home has no owner, or its owner has gone, this
// replica becomes the owner. Errors: ErrNoHome, ErrUnavailable.
func (c *Cluster) Own(ctx context.Context, h Home) (Owner, error) {
	if c.db == nil {
		return Owner{Replica: c.self, here: true}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, findTime)
	defer cancel()
	if c.members != nil && !c.members.holds(ctx) {
		return Owner{}, ErrUnavailable
	}
	stale := ""
	for range ownTries {
		generation, _ := c.lease()
		token, err := c.claim(ctx, h, stale)
		if err != nil {
			return Owner{}, err
		}
		replica, _, _ := strings.Cut(token, ".")
		former, _, _ := strings.Cut(stale, ".")
		o := Owner{Replica: replica, Epoch: token}
		switch {
		case token == "":
			return Owner{}, ErrNoHome
		case replica == c.self:
			o.here, o.lease, o.Former = true, generation, former
			return o, nil
		case c.members != nil:
			p, gone := c.members.whereabouts(ctx, replica, c.members.now())
			if p != nil {
				return o, nil
			}
			if !gone {
				return Owner{}, fmt.Errorf("%w: nothing is known of replica %s", ErrUnavailable, replica)
			}
		}
		stale = token
	}
	return Owner{}, fmt.Errorf("%w: its owner changes all the time", ErrUnavailable)
}

// claim returns the token of the owner. If there was none, or it was the stale one, that is a
// new token of this replica. It returns "" if there is no home.
func (c *Cluster) claim(ctx context.Context, h Home, stale string) (string, error) {
	keys := []string{homeKey(c.db, h)}
	if h.Record != "" {
		keys = append(keys, h.Record)
	}
	token := c.self + "." + strconv.FormatUint(c.tokens.Add(1), 36)
	got, err := c.db.Run(ctx, c.scripts.own, keys, token, stale, c.idle.Milliseconds(), c.self+".")
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	token, _ = got.(string)
	return token, nil
}

// lease returns the generation of this replica's lease. sure says that no other replica can have
// taken over a home of it.
func (c *Cluster) lease() (generation uint64, sure bool) {
	if c.members == nil {
		return 1, true
	}
	until := c.members.sure.Load()
	return c.members.generation.Load(), c.members.now() < time.Duration(until)
}

// Certain reports whether no other replica can have taken over a home since Own or Renew returned
// this owner. As long as the lease of this replica holds, that is so without asking Redis.
func (c *Cluster) Certain(o Owner) bool {
	if c.db == nil {
		return true
	}
	generation, sure := c.lease()
	return sure && o.here && o.lease == generation
}

// Renew keeps a home of this replica in Redis for another idle time. A home that Redis has lost is
// claimed again. Errors: ErrMoved if another replica owns it, ErrNoHome, ErrUnavailable.
func (c *Cluster) Renew(ctx context.Context, h Home, o Owner) (Owner, error) {
	if c.db == nil {
		return o, nil
	}
	generation, _ := c.lease()
	token, err := c.claim(ctx, h, "")
	replica, _, _ := strings.Cut(token, ".")
	switch {
	case err != nil:
		return o, err
	case token == "":
		return Owner{}, ErrNoHome
	case replica != c.self:
		return Owner{}, ErrMoved
	}
	return Owner{Replica: replica, Epoch: token, lease: generation, here: true}, nil
}

// Confirmed returns the owner that is certain once Redis accepts a write for the home sent from now
// on.
func (c *Cluster) Confirmed(o Owner) Owner {
	if c.db != nil {
		o.lease, _ = c.lease()
	}
	return o
}

// Release gives a home of this replica up. The next replica that is asked for it becomes its
// owner. Errors: ErrUnavailable, after which Redis still names this replica.
func (c *Cluster) Release(ctx context.Context, h Home, o Owner) error {
	if c.db == nil || o.Epoch == "" {
		return nil
	}
	if _, err := c.db.Run(ctx, c.scripts.give, []string{homeKey(c.db, h)}, o.Epoch); err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return nil
}

// Exists reports whether a home has an owner, without making it one. It reports false if that
// cannot be determined.
func (c *Cluster) Exists(ctx context.Context, h Home) bool {
	if c.db == nil {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, findTime)
	defer cancel()
	got, err := c.db.Run(ctx, c.scripts.exists, []string{homeKey(c.db, h)})
	return err == nil && got == int64(1)
}
