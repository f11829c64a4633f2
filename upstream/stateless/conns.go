package stateless

import (
	"context"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/upstream/admit"
	"github.com/gatehouse-mcp/gatehouse/upstream/dialect"
	"github.com/gatehouse-mcp/gatehouse/upstream/pool"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
)

// link is a connection that the dialect has opened.
type link struct {
	transport.Conn
	at      *entry
	closing context.CancelFunc // marks the connection as closed by us
}

type entry = pool.Entry[string, *transport.Identity, *link]

// connect returns the connection for a call: over HTTP one that sends requests, over stdio
// the one process. The caller must release its entry.
func (d *Dialect) connect(ctx context.Context, e *dialect.Era, c *mcp.Call) (*link, error) {
	user := d.env.User(&c.Caller)
	l, err := d.links.Acquire(ctx, user, func(at *entry, fresh bool) {
		if fresh {
			at.Data = &transport.Identity{}
		}
		if fresh && user != "" {
			at.User, at.Sweeps = admit.User(&c.Caller), true // it has no explicit end
			at.Data.User = at.User
		}
		if user != "" {
			at.Data.Meet(&c.Caller)
		}
	}, func(at *entry) (*link, error) { return d.open(at, e) })
	return l, dialect.NotStarted(err)
}

func (d *Dialect) open(at *entry, e *dialect.Era) (*link, error) {
	l := &link{at: at}
	err := d.env.Connect(func(ctx context.Context) (err error) {
		l.Conn, err = d.env.Dial(ctx, at.Data, e)
		return err
	})
	if err != nil {
		if d.env.Process {
			d.crashed(at, 0)
		}
		return nil, err
	}
	var base context.Context
	base, l.closing = context.WithCancel(d.env.Base)
	d.env.Meet(e.Rev, nil, nil)
	l.Deliver(false, func(m wire.Message) {
		if m.Kind == wire.Notification && m.Method == mcp.NoteMessage {
			dialect.LogOnly(d.said, m) // it belongs to no call
		}
	})
	d.env.Watch(base, l.Conn, func(lived time.Duration) { d.crashed(at, lived) })
	return l, nil
}

// crashed notes that the process of an entry ended by itself after the time lived.
func (d *Dialect) crashed(at *entry, lived time.Duration) {
	d.env.Restarts.Add(1)
	d.links.Crashed(at, lived)
}

// end closes the connection, nil for none, of an entry that has ended.
func (d *Dialect) end(_ *entry, l *link, _ bool, _ <-chan struct{}) {
	if l != nil {
		l.closing()
		d.env.CloseConn(l.Conn)
	}
}

// Sessions returns how many connections are open.
func (d *Dialect) Sessions() int { return d.links.Len() }

// Close closes all connections. It uses Env.Spawn.
func (d *Dialect) Close() { d.links.Close() }

// Reset closes all connections, because the server now speaks something else.
func (d *Dialect) Reset() { d.links.Reset() }
