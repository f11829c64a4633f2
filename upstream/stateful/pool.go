package stateful

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/upstream/admit"
	"github.com/gatehouse-mcp/gatehouse/upstream/dialect"
	"github.com/gatehouse-mcp/gatehouse/upstream/pool"
	"github.com/gatehouse-mcp/gatehouse/upstream/stateful/restore"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
)

// steady is how long an event stream must live not to count as a failure.
const steady = 10 * time.Second

// place holds what outlives a session.
type place struct {
	id       string // unique across processes
	owner    *transport.Identity
	declared dialect.Capabilities
	state    *restore.State              // what is restored in a new session
	kept     atomic.Pointer[string]      // the server's id of the kept session; nil for none
	looked   atomic.Int64                // when doubt looked last, in Unix nanoseconds
	detach   atomic.Pointer[func() bool] // from the home of its client's session; nil for none
}

type entry = pool.Entry[key, *place, *session]

// keyOf returns the owner of the session for a call, and what the session declares.
func (d *Dialect) keyOf(e *dialect.Era, c *mcp.Call) (k key, declared dialect.Capabilities) {
	k.user = d.env.User(&c.Caller)
	switch {
	case d.cfg.Shared: // there is no telling which of the clients a question is for
		declared = dialect.Capabilities{Raw: "{}"}
	case c.Session == "" || c.Method == mcp.MethodDiscover:
		if declared = dialect.Neutral(c, e.Rev); c.Caps != nil {
			k.caps = declared.Raw
		}
	default:
		k.session, declared = c.Session, dialect.Declare(c.Caps, e.Rev)
		if c.Ephemeral {
			k.caps = declared.Raw
		}
	}
	return k, declared
}

// HasSession reports whether the client of a call has an own session that is open, or kept to be
// resumed.
func (d *Dialect) HasSession(ctx context.Context, e *dialect.Era, c *mcp.Call) bool {
	k, _ := d.keyOf(e, c)
	switch {
	case k.session == "":
		return false
	case d.pool.Has(k):
		return true
	case !d.kept.keeps(k, e):
		return false
	}
	known, err := d.kept.load(ctx, k)
	return err == nil && known != nil
}

// acquire returns the session of a call, and opens it if necessary. The caller must release
// it.
func (d *Dialect) acquire(ctx context.Context, e *dialect.Era, c *mcp.Call) (*session, error) {
	k, declared := d.keyOf(e, c)
	var begun *entry
	s, err := d.pool.Acquire(ctx, k, func(at *entry, fresh bool) {
		if fresh {
			begun = at
			at.Data = &place{id: rand.Text(), owner: &transport.Identity{}, declared: declared,
				state: restore.New(k.session == "")}
			// a session without a client session ends by idle time
			if at.Sweeps = k.user != "" || k.caps != ""; k.session != "" {
				at.Sweeps = c.Ephemeral
			}
			at.Brief = k.caps != "" && k.session == "" && k.user == ""
			if k.session != "" || k.user != "" {
				at.User = admit.User(&c.Caller)
				at.Data.owner.User = at.User
			}
		}
		if k.user != "" {
			at.Data.owner.Meet(&c.Caller)
		}
	}, func(at *entry) (*session, error) { return d.open(at, e) })
	if begun != nil {
		d.attach(begun)
	}
	return s, dialect.NotStarted(err)
}

// open opens the session of an entry, or resumes the kept one.
func (d *Dialect) open(at *entry, e *dialect.Era) (s *session, err error) {
	err = d.env.Connect(func(ctx context.Context) (err error) {
		if s = d.resume(ctx, at, e); s == nil {
			if s, err = d.begin(ctx, at, e); err != nil {
				return err
			}
			d.save(ctx, s, e)
		}
		s.restore(ctx)
		d.env.Watch(s.base, s.conn, func(lived time.Duration) {
			d.crashed(at, lived)
			s.cancel()
		})
		return nil
	})
	if err != nil && d.env.Process {
		d.crashed(at, 0)
	}
	return s, err
}

// begin opens a session on a new connection, over HTTP+SSE if the server knows no other way.
func (d *Dialect) begin(ctx context.Context, at *entry, e *dialect.Era) (*session, error) {
	s, err := d.agree(ctx, at, e)
	if !errors.Is(err, dialect.ErrWrongEra) || e.SSE {
		return s, err
	}
	older := &dialect.Era{Rev: e.Rev, SSE: true}
	if s, err = d.agree(ctx, at, older); err == nil {
		d.env.Learn(e, older)
		d.env.Log.Info("upstream speaks HTTP+SSE")
	}
	return s, err
}

// agree opens a session on a new connection, as servers of an era expect it.
func (d *Dialect) agree(ctx context.Context, at *entry, e *dialect.Era) (s *session, err error) {
	began, agreed := time.Now(), ""
	defer func() { d.env.Tried(e, agreed, began, err) }()
	conn, err := d.env.Dial(ctx, at.Data.owner, e)
	if err != nil {
		return nil, err
	}
	s = newSession(d, at, conn, e.Rev)
	conn.Deliver(!s.shared(), s.deliver)
	if err := s.handshake(ctx, e.Rev); err != nil {
		s.cancel()
		d.env.CloseConn(conn)
		return nil, err
	}
	agreed = s.rev.Name
	return s, nil
}

// Try opens a session that declares nothing, with the credential of an owner, and ends it at once.
func (d *Dialect) Try(e *dialect.Era, owner *transport.Identity) error {
	return d.env.Connect(func(ctx context.Context) error {
		at := &entry{Data: &place{id: rand.Text(), owner: owner, declared: dialect.Neutral(&mcp.Call{}, e.Rev),
			state: restore.New(true)}}
		s, err := d.begin(ctx, at, e)
		if err == nil {
			s.cancel()
			d.env.CloseConn(s.conn)
		}
		return err
	})
}

// crashed notes that the process of an entry, or its event stream, ended by itself. Intermediaries
// end idle streams; the next one opens without a pause.
func (d *Dialect) crashed(at *entry, lived time.Duration) {
	d.env.Restarts.Add(1)
	if d.env.Process || lived < steady {
		d.pool.Crashed(at, lived)
	}
}

// end ends the session, nil for none, of an entry that has ended. A kept session ends at
// the server only if it is to be forgotten and the keeper agrees: if the keeper refuses,
// another process owns the session now.
func (d *Dialect) end(at *entry, s *session, forget bool, idle <-chan struct{}) {
	if detach := at.Data.detach.Load(); detach != nil {
		(*detach)()
	}
	if s != nil && idle != nil {
		s.windUp(idle)
	}
	kept := at.Data.kept.Load()
	if kept != nil && forget {
		ctx, cancel := d.env.Goodbye()
		defer cancel()
		if err := d.kept.save(ctx, at.Key, nil); err != nil {
			d.env.Log.Debug("session not forgotten", "error", err)
			forget = false
		}
	}
	if s != nil {
		s.cancel()
		if forget || kept == nil || *kept != s.serverID() {
			d.env.CloseConn(s.conn)
		}
	}
}

// resume resumes the session that is kept for an entry. It returns nil if none is kept, or
// if the kept one was already lost here. It sends only what the entry needs in the session.
func (d *Dialect) resume(ctx context.Context, at *entry, e *dialect.Era) *session {
	if !d.kept.keeps(at.Key, e) || at.Data.kept.Load() != nil {
		return nil
	}
	known, err := d.kept.load(ctx, at.Key)
	if known == nil && err == nil {
		return nil
	}
	var conn transport.Conn
	if err == nil {
		conn, err = d.env.Dial(ctx, at.Data.owner, e)
	}
	if err != nil {
		d.env.Log.Debug("session not resumed", "error", err)
		return nil
	}
	rev := wire.Lookup(known.Revision)
	conn.Resume(known.ID, known.Cookies)
	conn.Bind(rev)
	s := newSession(d, at, conn, rev)
	s.doubt.worked.Store(true)
	s.roots.owed = true // the roots may have changed, or the server was told none
	s.learn(mcp.Object("capabilities", mcp.Raw(known.Capabilities)))
	at.Data.kept.Store(&known.ID)
	return s
}

// save keeps a session that was opened here. If that fails, the session ends with this
// process.
func (d *Dialect) save(ctx context.Context, s *session, e *dialect.Era) {
	id := s.serverID()
	if id == "" || !d.kept.keeps(s.at.Key, e) {
		return
	}
	caps := s.result.At("capabilities")
	if caps.IsNull() {
		caps = mcp.Raw(`{}`)
	}
	what := &remembered{s.rev.Name, id, string(caps), s.conn.Header().Get("Cookie")}
	if err := d.kept.save(ctx, s.at.Key, what); err != nil {
		d.env.Log.Debug("session not kept", "error", err)
		return
	}
	s.at.Data.kept.Store(&id)
}

// Disown forgets what is kept of sessions: no other Dialect resumes them, and they end with this
// one.
func (d *Dialect) Disown(ctx context.Context) {
	for _, at := range slices.Collect(d.pool.All()) {
		if at.Data.kept.Load() == nil {
			continue
		}
		if err := d.kept.save(ctx, at.Key, nil); err != nil {
			d.env.Log.Debug("session not forgotten", "error", err)
			continue
		}
		at.Data.kept.Store(nil)
	}
}
