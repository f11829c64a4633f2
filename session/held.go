package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/home"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
)

// Deps are the dependencies of a store.
type Deps struct {
	// Homes configures the table of the sessions, apart from what Config says.
	Homes home.Config
	// Log may be nil.
	Log *slog.Logger
	// Metrics count the sessions that begin, and Redis the commands to Redis. Both may be nil.
	Metrics *Metrics
	Redis   *redisdb.Metrics

	clock func() time.Duration // only tests set it
}

// sessions is the part that both stores share.
type sessions struct {
	cfg     Config
	log     *slog.Logger
	count   *Metrics
	began   time.Time
	clock   func() time.Duration // monotonic, so that setting the clock forward ends no session
	homes   *home.Table
	place   place       // where sessions outlive this process; nil for nowhere
	logRoom *mcp.Memory // for event logs; with Redis, for those of the sessions that are held
}

// place keeps sessions beyond the process. The caller of a method has the home's turn. Errors:
// ErrNotFound, ErrMoved, ErrUnavailable.
type place interface {
	write(ctx context.Context, h *home.Home, x *held, c change) error
	// fetch sets the data of events.
	fetch(ctx context.Context, h *home.Home, stream string, events []Event) error
}

// change is a change of a session for its place, apart from changes to its streams.
type change struct {
	used   bool          // the place learns when it was used
	unused time.Duration // for how long it was not
	record *Record       // the record that replaces the held one; nil for no change
	stream string        // the stream that events are added to
	events []written     // in order
}

// written is an event that is added to a stream.
type written struct {
	seq  uint64 // its position
	data []byte
	kept bool // there is room for it
}

// held is the part of a home that has its record and its streams.
type held struct {
	record atomic.Pointer[Record] // the Record it points to is never modified
	log    streams

	// The following are for Redis. Only the holder of the home's turn uses them.
	writes uint64 // how many there were, all owners'
	unsure bool   // Redis may have another record
}

// Of returns the record of a session by its home. If it was never read, there are only its user and
// its id.
func Of(h *home.Home) Record {
	if x := home.Part[held](h); x != nil {
		if r := x.record.Load(); r != nil {
			return *r
		}
	}
	return Record{User: h.Key().User, ID: h.Key().ID, key: h.String()}
}

// set checks cfg and sets the fields.
func (s *sessions) set(cfg Config, deps Deps) error {
	if err := cfg.Validate(); err != nil {
		return fmt.Errorf("sessions: %w", err)
	}
	s.cfg, s.log, s.count = cfg.withDefaults(), deps.Log, deps.Metrics
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.count == nil {
		s.count = NewMetrics(nil)
	}
	s.began = time.Now()
	if s.clock = deps.clock; s.clock == nil {
		s.clock = func() time.Duration { return time.Since(s.began) }
	}
	s.logRoom = mcp.NewMemory(maxLogBytes)
	return nil
}

// open opens the table of the sessions. kept is that of home.Config.
func (s *sessions) open(deps Deps, store home.Store, kept time.Duration) {
	cfg := deps.Homes
	cfg.Idle, cfg.Kept, cfg.Max, cfg.Most, cfg.Log, cfg.Clock = s.cfg.IdleTimeout, kept, s.cfg.Max, s.cfg.Most,
		s.log, s.clock
	s.homes = home.Open(cfg, store)
}

// Tidy forgets the streams that ended long ago (home.Store).
func (s *sessions) Tidy(h *home.Home) (changed bool) {
	x := home.Part[held](h)
	if x == nil {
		return false
	}
	x.log.forget(int64(s.clock()))
	return x.log.changed()
}

// Homes returns the table of the sessions.
func (s *sessions) Homes() *home.Table { return s.homes }

// Log returns the event log of the sessions.
func (s *sessions) Log() EventLog { return eventLog{s} }

// attach makes the part of a home that has a session.
func (s *sessions) attach(h *home.Home) *held {
	user := h.Key().User
	if user == (mcp.Caller{}).User() {
		user = "" // without authentication there is one user, who may have all of it
	}
	x, _ := home.Ensure(h, func() *held {
		x := &held{}
		x.log.room = s.logRoom.Outside("", user)
		if s.place != nil {
			x.log.changes = &changes{}
		}
		return x
	})
	h.Attach(func(home.Why) { x.log.close() })
	return x
}

// take returns what is held of a session, with the home's turn. Errors: those of over, ErrUnavailable.
func take(ctx context.Context, h *home.Home) (*held, error) {
	if err := h.Take(ctx); err != nil {
		return nil, err
	}
	if err := over(h); err != nil {
		h.Give()
		return nil, err
	}
	return home.Part[held](h), nil
}

// over returns the error of a home that is over, nil if it is not: ErrNotFound or ErrMoved.
func over(h *home.Home) error {
	switch why := h.Why(); {
	case why == 0:
		return nil
	case why.Over():
		return ErrNotFound
	}
	return ErrMoved
}

// tell tells the place of a change. The caller has the turn.
func (s *sessions) tell(ctx context.Context, h *home.Home, x *held, c change) error {
	if s.place == nil {
		return nil
	}
	err := s.place.write(ctx, h, x, c)
	switch {
	case errors.Is(err, ErrNotFound):
		h.EndLater(home.Gone)
	case errors.Is(err, ErrMoved):
		h.Refused()
	}
	return err
}

// Update changes a session in one step; see Store.
func (s *sessions) Update(ctx context.Context, h *home.Home, edit func(*Record)) (Record, error) {
	x, err := take(ctx, h)
	if err != nil {
		return Record{}, err
	}
	defer h.Give()
	old := x.record.Load()
	r := *old
	edit(&r)
	r.User, r.ID, r.Created, r.key = old.User, old.ID, old.Created, old.key
	if r.size() > MaxRecordBytes {
		return Record{}, ErrTooLarge
	}
	stored := r.owned() // edit may have kept its pointer
	err = s.tell(ctx, h, x, change{used: true, unused: h.Unused(), record: &stored})
	if err == nil || errors.Is(err, ErrUnsure) {
		x.record.Store(&stored)
	}
	if err != nil {
		return Record{}, err
	}
	return stored, nil
}

// Listed is a session as operators see it.
type Listed struct {
	Record
	Used time.Time
}

// List returns the sessions that this process holds, in no order.
func (s *sessions) List() (all []Listed) {
	now := time.Now()
	for _, h := range s.homes.All() {
		if r := Of(h); !r.Created.IsZero() {
			all = append(all, Listed{r, now.Add(-h.Unused())})
		}
	}
	return all
}
