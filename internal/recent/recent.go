package recent

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/record"
	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
	"github.com/gatehouse-mcp/gatehouse/internal/trail"
)

const (
	// defaultMost is how many bytes the records have by default.
	defaultMost = 48 << 20
	// gather is the time between two deliveries to followers, and between two writes to Redis.
	gather = 100 * time.Millisecond
	// lookEvery is how often Redis is asked for the records of others while somebody follows.
	lookEvery = time.Second
	// mostFresh bounds what waits for the next delivery, in records.
	mostFresh = 4096
)

// Deps are the dependencies of Records.
type Deps struct {
	// Replica is the name of this process, different at each start.
	Replica string
	// Most is how many bytes the records have, 0 for the default; see Bound.
	Most int64
	// DB is what replicas share, and Key seals what stands there; nil for a gateway alone.
	DB  *redisdb.DB
	Key *seal.Key
	// Log receives messages for the operator; nil for none. Metrics count records; nil for none.
	Log     *slog.Logger
	Metrics *Metrics
}

// Records are the last records. They are safe for concurrent use.
type Records struct {
	deps   Deps
	shared *shared // nil for a gateway alone

	wake chan struct{} // holds one token: there is something to deliver
	stop context.CancelFunc
	give context.CancelFunc // ends what is still written after stop
	done chan struct{}

	mu        sync.Mutex // guards the fields below
	seq       uint64
	items     []*Item // oldest first
	most      int64
	bytes     int64
	followers map[*Follower]bool
	fresh     []*Item // for followers
	missed    int64   // by followers, for lack of room in fresh
	closed    bool
}

// New makes Records and starts their goroutine.
func New(deps Deps) *Records {
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	if deps.Metrics == nil {
		deps.Metrics = NewMetrics(nil)
	}
	r := &Records{
		deps: deps, wake: make(chan struct{}, 1), done: make(chan struct{}),
		followers: make(map[*Follower]bool), most: cmp.Or(deps.Most, defaultMost),
	}
	if deps.DB != nil {
		r.shared = newShared(deps)
	}
	writing, give := context.WithCancel(context.Background()) // until Close
	ctx, stop := context.WithCancel(writing)
	r.stop, r.give = stop, give
	go r.run(ctx, writing)
	return r
}

// Bound changes how many bytes the records have. Those in Redis have a quarter of these.
func (r *Records) Bound(most int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.most = most
}

// Put keeps a record, which must have a time and not change afterwards. It never waits. A nil
// Records keeps nothing.
func (r *Records) Put(rec *record.Record) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	r.seq++
	item := ownItem(rec, r.deps.Replica, r.seq)
	at := len(r.items)
	for at > 0 && r.items[at-1].compare(item.Cursor) > 0 { // of calls at a time, which come in any order
		at--
	}
	r.items = slices.Insert(r.items, at, item)
	r.keep(item)
	waits := len(r.fresh) > 0
	if r.shared != nil {
		waits = r.shared.put(item) || waits
	}
	if waits {
		select {
		case r.wake <- struct{}{}:
		default:
		}
	}
}

// keep makes room for items that have been added, and has followers hear of them. The caller holds mu.
func (r *Records) keep(items ...*Item) {
	for _, item := range items {
		r.bytes += item.size()
		switch {
		case len(r.followers) == 0:
		case len(r.fresh) >= mostFresh:
			r.missed++
		default:
			r.fresh = append(r.fresh, item)
		}
	}
	if r.bytes > r.most {
		r.items = trail.Trim(r.items, r.most, (*Item).about, func(i *Item) { r.bytes -= i.size() })
	}
}

// Query says which records are wanted.
type Query struct {
	record.Filter
	// Before is the cursor of a record; only older ones are wanted. Zero for all.
	Before Cursor
	// Limit is how many are wanted; 0 for all.
	Limit int
}

// Page is a part of the records that a Query wants, newest first.
type Page struct {
	Items []*Item
	// More says that there are older ones.
	More bool
	// Partial is why the records of other replicas may be missing; nil if they are not.
	Partial error
}

// Find returns records.
func (r *Records) Find(ctx context.Context, q Query) (p Page) {
	p.Partial = r.look(ctx)
	all := r.all()
	for i := len(all) - 1; i >= 0; i-- {
		item := all[i]
		if q.Before != (Cursor{}) && item.compare(q.Before) >= 0 {
			continue
		}
		if !q.Since.IsZero() && item.at().Before(q.Since) {
			break
		}
		if !item.fits(&q.Filter) {
			continue
		}
		if q.Limit > 0 && len(p.Items) == q.Limit {
			p.More = true
			break
		}
		p.Items = append(p.Items, item)
	}
	return p
}

// all returns what is kept, oldest first.
func (r *Records) all() []*Item {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.items)
}

// look reads what other replicas have recorded.
func (r *Records) look(ctx context.Context) error {
	if r.shared == nil {
		return nil
	}
	news, err := r.shared.read(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(news) > 0 { // these come late
		oldest := slices.MinFunc(news, (*Item).order)
		from, _ := slices.BinarySearchFunc(r.items, oldest, (*Item).order)
		r.items = append(r.items, news...)
		slices.SortFunc(r.items[from:], (*Item).order)
		r.keep(news...)
	}
	if len(r.fresh) > 0 {
		select {
		case r.wake <- struct{}{}:
		default:
		}
	}
	return err
}

// run delivers new records until ctx ends, and then writes what waits.
func (r *Records) run(ctx, writing context.Context) {
	defer close(r.done)
	defer r.give()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	pause := time.NewTimer(0)
	defer pause.Stop()
	for ctx.Err() == nil {
		select {
		case <-r.wake:
		case <-look.C:
			if r.shared == nil || !r.followed() {
				continue
			}
			_ = r.look(ctx) // the client for Redis says in the log when that is away
		case <-ctx.Done():
		}
		r.deliver()
		if r.shared != nil {
			r.shared.write(writing, r.room())
		}
		pause.Reset(gather)
		select { // more may come, to be delivered together
		case <-pause.C:
		case <-ctx.Done():
		}
	}
	if r.shared != nil {
		r.shared.write(writing, r.room())
	}
}

// room is how many bytes there are in Redis.
func (r *Records) room() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.most / 4
}

// Close ends everything: followers, and the goroutine once it has written what waits, or ctx
// has ended. It may be called twice.
func (r *Records) Close(ctx context.Context) error {
	r.mu.Lock()
	r.closed = true
	for f := range r.followers {
		f.end()
	}
	clear(r.followers)
	r.mu.Unlock()
	r.stop()
	select {
	case <-r.done:
	case <-ctx.Done():
		r.give()
		<-r.done
	}
	return nil
}
