package recent

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/record"
	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
	"github.com/gatehouse-mcp/gatehouse/internal/trail"
)

const (
	// defaultMost is how many bytes there are by default.
	defaultMost = 64 << 20
	// gather is the time between two deliveries to followers, and between two writes to Redis.
	gather = 100 * time.Millisecond
	// lookEvery is how often Redis is asked for the records of others while there are followers.
	lookEvery = time.Second
	// mostFresh bounds what waits for the next delivery, in records.
	mostFresh = 4096
)

// Deps are the dependencies of Records.
type Deps struct {
	// Replica is the name of this process, different at each start.
	Replica string
	// Most is how many bytes there are, 0 for the default, and Messages which messages of calls are
	// kept, by default their shape; see Keep.
	Most     int64
	Messages trail.Mode
	// DB is the Redis that replicas share, and Key seals what stands there; nil for a gateway alone.
	DB  *redisdb.DB
	Key *seal.Key
	// Metrics count records; nil for none.
	Metrics *Metrics
}

// Records are the last records, with the trails of the last calls and the counts of what happened.
// They are safe for concurrent use.
type Records struct {
	*Series
	deps   Deps
	shared *shared // nil for a gateway alone
	trails *trail.Trails

	wake chan struct{} // holds one token: there is something to deliver
	stop context.CancelFunc
	give context.CancelFunc // ends what is still written after stop
	done chan struct{}

	mu        sync.Mutex // guards the fields below
	seq       uint64
	items     []*Item // oldest first
	walked    []*Item // with a trail, in the order in which they came
	most      int64   // bytes, for all
	bytes     int64   // of records
	trailed   int64   // bytes of trails
	followers map[*Follower]bool
	fresh     []*Item // for followers
	missed    int64   // by followers, for lack of room in fresh
	closed    bool
}

// New makes Records and starts their goroutine.
func New(deps Deps) *Records {
	if deps.Metrics == nil {
		deps.Metrics = NewMetrics(nil)
	}
	r := &Records{
		Series:    NewSeries(time.Now()),
		deps:      deps,
		trails:    &trail.Trails{},
		wake:      make(chan struct{}, 1),
		done:      make(chan struct{}),
		followers: make(map[*Follower]bool),
	}
	r.Keep(deps.Messages, deps.Most)
	if deps.DB != nil {
		r.shared = newShared(deps)
	}
	writing, give := context.WithCancel(context.Background()) // until Close
	ctx, stop := context.WithCancel(writing)
	r.stop, r.give = stop, give
	go r.run(ctx, writing)
	return r
}

// Keep changes which messages are kept of the calls that begin from now on, and how many bytes there are; zero values
// are the defaults, and nil Records keep nothing. Records have three quarters of these, and in Redis a quarter of that;
// trails have the rest, half of it for calls that run.
func (r *Records) Keep(messages trail.Mode, most int64) {
	if r == nil {
		return
	}
	most = cmp.Or(most, defaultMost)
	r.trails.Keep(cmp.Or(messages, trail.ModeShape), most/4)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.most = most
}

// Trails are where calls begin the trails that their records have; nil for nil Records.
func (r *Records) Trails() *trail.Trails {
	if r == nil {
		return nil
	}
	return r.trails
}

// Put keeps and counts a record, which must have a time and not change afterwards. It never waits.
func (r *Records) Put(rec *record.Record) {
	r.Series.Put(rec)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	r.seq++
	item := newItem(rec, r.deps.Replica, r.seq)
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
		give(r.wake)
	}
}

// give puts in the one token that a channel holds.
func give(token chan<- struct{}) {
	select {
	case token <- struct{}{}:
	default:
	}
}

// trailSize is about what a trail takes in addition to its messages.
const trailSize = 1 << 10

// keep makes room for items that have been added, and has followers hear of them. The caller holds mu.
func (r *Records) keep(items ...*Item) {
	for _, item := range items {
		r.bytes += item.size()
		if t := item.Record.Trail; t != nil {
			item.trail = t.Size() + trailSize
			r.trailed += item.trail
			r.walked = append(r.walked, item)
		}
		switch {
		case len(r.followers) == 0:
		case len(r.fresh) >= mostFresh:
			r.missed++
		default:
			r.fresh = append(r.fresh, item)
		}
	}
	if most := r.most - r.most/4; r.bytes > most {
		r.items = trim(r.items, most, (*Item).size, func(i *Item) {
			r.bytes -= i.size()
			r.forget(i)
		})
		r.walked = slices.DeleteFunc(r.walked, func(i *Item) bool { return i.trail == 0 })
	}
	if most := r.most / 8; r.trailed > most {
		r.walked = trim(r.walked, most, func(i *Item) int64 { return i.trail }, r.forget)
	}
}

// forget drops the trail of an item. The caller holds mu.
func (r *Records) forget(i *Item) {
	r.trailed -= i.trail
	i.trail = 0
	i.Record.Trail.Forget()
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
		if !q.Since.IsZero() && time.UnixMicro(item.Micros).Before(q.Since) {
			break
		}
		if !q.Fits(item.Record) {
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
		give(r.wake)
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
	return (r.most - r.most/4) / 4
}

// Close ends everything: followers, and the goroutine once it has written what waits, or ctx
// has ended. It may be called twice.
func (r *Records) Close(ctx context.Context) error {
	if r == nil {
		return nil
	}
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
