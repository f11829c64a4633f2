package sessionlists

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

const (
	// Most bounds the sessions of which something is known, and MostBytes their differences
	// together. Beyond either, the session whose client called longest ago falls back to the
	// lists that all clients see, until its server has news of it again.
	Most      = 10_000
	MostBytes = 64 << 20
	// Retry is how long a server that failed is not asked again for a session's lists.
	Retry = 10 * time.Second
)

// Difference is how one list of a session differs from the list that its client would see
// otherwise. It is immutable.
type Difference interface {
	// Size is the memory that it takes, in bytes.
	Size() int
	// Sum is a checksum: equal ones make the same of the same list.
	Sum() [sha256.Size]byte
}

// Shown are all differences of one session. It is immutable.
type Shown[D Difference] struct {
	// Sum is equal for sessions that differ in the same way.
	Sum [sha256.Size]byte
	All []At[D]
}

// At is a difference in one list of an upstream. Kind is the bit of the list in a set of kinds,
// whose meaning is up to the caller.
type At[D Difference] struct {
	Upstream string
	Kind     uint32
	Is       D
}

// Lost is what one session no longer shows of an upstream: a set of kinds.
type Lost struct {
	Session, Upstream string
	Kinds             uint32
}

// Table is what is known of sessions, by Call.Session. It is safe for concurrent use.
type Table[D Difference] struct {
	known atomic.Int64 // the length of all, for calls that need nothing else

	mu     sync.Mutex // guards the fields below; not held over I/O
	all    *simplelru.LRU[string, *session[D]]
	bytes  int // of all differences
	tools  *simplelru.LRU[tool, *followUp]
	arrive *simplelru.LRU[string, struct{}] // sessions of which another process may have known something
	lost   []Lost                           // by eviction, since the last look
}

// session is what is known of one session.
type session[D Difference] struct {
	at    map[string]*lists[D] // by upstream
	shown *Shown[D]            // nil for nothing
	bytes int
	busy  chan struct{} // holds one while lists are fetched
}

// lists are the lists of a session at one upstream.
type lists[D Difference] struct {
	at       string       // see mcp.SessionLists
	outdated uint32       // kinds to fetch
	told     uint32       // those of them of which the server has told
	tools    []string     // whose calls made them outdated
	retry    time.Time    // not before
	differ   map[uint32]D // by kind
}

// New returns an empty Table.
func New[D Difference]() *Table[D] {
	t := &Table[D]{}
	t.all = newLRU(t.evicted)
	t.tools = newLRU[tool, *followUp](nil)
	t.arrive = newLRU[string, struct{}](nil)
	return t
}

func newLRU[K comparable, V any](evicted simplelru.EvictCallback[K, V]) *simplelru.LRU[K, V] {
	lru, err := simplelru.NewLRU(Most, evicted)
	if err != nil {
		panic(err) // its size is a constant
	}
	return lru
}

// evicted is called, with mu held, with each session that is removed.
func (t *Table[D]) evicted(key string, s *session[D]) {
	t.bytes -= s.bytes
	for upstream, l := range s.at {
		if kinds := l.kinds(); kinds != 0 {
			t.lost = append(t.lost, Lost{key, upstream, kinds})
		}
	}
}

// kinds returns those that differ.
func (l *lists[D]) kinds() (all uint32) {
	for kind := range l.differ {
		all |= kind
	}
	return all
}

// Hear takes news about lists of these kinds. It returns what a session no longer shows.
func (t *Table[D]) Hear(upstream string, kinds uint32, news mcp.SessionLists) []Lost {
	t.mu.Lock()
	defer t.mu.Unlock()
	if news.Over {
		if s, ok := t.all.Peek(news.Session); ok && s.at[upstream] != nil && s.at[upstream].at == news.At {
			return t.drop(news.Session, s, upstream)
		}
		return nil
	}
	if kinds == 0 || news.Tool != "" && !t.follows(tool{upstream, news.Tool}) {
		return nil
	}
	l := t.listsOf(news.Session, upstream)
	l.at = news.At
	l.outdated |= kinds
	if news.Told {
		l.told |= kinds
	}
	if news.Tool != "" && len(l.tools) < mostTools && !slices.Contains(l.tools, news.Tool) {
		l.tools = append(l.tools, news.Tool)
	}
	return t.seen()
}

// listsOf returns the lists of a session at an upstream. mu is held.
func (t *Table[D]) listsOf(key, upstream string) *lists[D] {
	s, ok := t.all.Get(key)
	if !ok {
		s = &session[D]{at: make(map[string]*lists[D]), busy: make(chan struct{}, 1)}
		t.all.Add(key, s)
		t.known.Store(int64(t.all.Len()))
	}
	l := s.at[upstream]
	if l == nil {
		l = &lists[D]{}
		s.at[upstream] = l
	}
	return l
}

// seen returns what was evicted since it was called last. mu is held.
func (t *Table[D]) seen() []Lost {
	lost := t.lost
	t.lost = nil
	return lost
}

// drop forgets the lists of a session at an upstream. mu is held.
func (t *Table[D]) drop(key string, s *session[D], upstream string) (lost []Lost) {
	if kinds := s.at[upstream].kinds(); kinds != 0 {
		lost = []Lost{{key, upstream, kinds}}
	}
	delete(s.at, upstream)
	t.update(key, s)
	return lost
}

// update brings up to date what a session shows, and forgets it if that is nothing. mu is held.
func (t *Table[D]) update(key string, s *session[D]) {
	t.bytes -= s.bytes
	s.shown, s.bytes = nil, 0
	shown, sum := &Shown[D]{}, sha256.New()
	for _, upstream := range slices.Sorted(maps.Keys(s.at)) {
		l := s.at[upstream]
		for _, kind := range slices.Sorted(maps.Keys(l.differ)) {
			is := l.differ[kind]
			shown.All = append(shown.All, At[D]{upstream, kind, is})
			one := is.Sum()
			sum.Write(binary.BigEndian.AppendUint32(append([]byte(upstream), 0), kind))
			sum.Write(one[:])
			s.bytes += is.Size()
		}
		if l.outdated == 0 && len(l.differ) == 0 {
			delete(s.at, upstream)
		}
	}
	if t.bytes += s.bytes; len(shown.All) > 0 {
		sum.Sum(shown.Sum[:0])
		s.shown = shown
	}
	if len(s.at) == 0 {
		t.all.Remove(key)
	}
	for t.bytes > MostBytes {
		t.all.RemoveOldest()
	}
	t.known.Store(int64(t.all.Len()))
}

// Shown returns how a session differs, nil for not at all. It counts as a call of its client.
func (t *Table[D]) Shown(key string) *Shown[D] {
	if key == "" || t.known.Load() == 0 {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if s, ok := t.all.Get(key); ok {
		return s.shown
	}
	return nil
}

// Differs returns the upstreams at which the lists of a session differ. It is no call of its client.
func (t *Table[D]) Differs(key string) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s, ok := t.all.Peek(key); ok {
		return s.shown.Upstreams()
	}
	return nil
}

// Outdated returns the lists of a session that have to be fetched, by upstream. later are the
// upstreams that have just failed, and are not to be asked yet.
func (t *Table[D]) Outdated(key string) (kinds map[string]uint32, later []string) {
	if key == "" || t.known.Load() == 0 {
		return nil, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s, ok := t.all.Peek(key)
	if !ok {
		return nil, nil
	}
	for upstream, l := range s.at {
		switch {
		case l.outdated == 0:
		case l.retry.After(time.Now()):
			later = append(later, upstream)
		default:
			if kinds == nil {
				kinds = make(map[string]uint32)
			}
			kinds[upstream] = l.outdated
		}
	}
	return kinds, later
}

// Lock makes the caller the only one who fetches lists of a session, until unlock. The error
// is that of ctx.
func (t *Table[D]) Lock(ctx context.Context, key string) (unlock func(), err error) {
	t.mu.Lock()
	s, ok := t.all.Peek(key)
	t.mu.Unlock()
	if !ok {
		return func() {}, nil // there is nothing to fetch
	}
	select {
	case s.busy <- struct{}{}:
		return func() { <-s.busy }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Fetch is a fetch of lists of a session at one upstream. News that comes while it runs makes
// the lists outdated again.
type Fetch struct {
	key, upstream string
	kinds, told   uint32
	tools         []string
}

// Told returns the kinds of which the server has told that they have changed.
func (f *Fetch) Told() uint32 { return f.told }

// Also makes it a fetch of these kinds, too, as if the server had told of them.
func (f *Fetch) Also(kinds uint32) { f.kinds, f.told = f.kinds|kinds, f.told|kinds }

// Begin begins to fetch lists.
func (t *Table[D]) Begin(key, upstream string, kinds uint32) *Fetch {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.listsOf(key, upstream)
	f := &Fetch{key: key, upstream: upstream, kinds: kinds, told: l.told & kinds, tools: l.tools}
	l.outdated, l.told, l.tools = l.outdated&^kinds, l.told&^kinds, nil
	return f
}

// Failed ends a fetch that has failed: it is due again after Retry.
func (t *Table[D]) Failed(f *Fetch) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.listsOf(f.key, f.upstream)
	l.outdated, l.told, l.retry = l.outdated|f.kinds, l.told|f.told, time.Now().Add(Retry)
	if l.tools == nil {
		l.tools = f.tools
	}
	s, _ := t.all.Peek(f.key)
	t.update(f.key, s)
}

// Done ends a fetch with the differences by kind; a kind without one shows what all clients see.
// changed are the kinds that look different now. lost is what sessions no longer show because of
// a bound.
func (t *Table[D]) Done(f *Fetch, differ map[uint32]D) (changed uint32, lost []Lost) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.listsOf(f.key, f.upstream)
	s, _ := t.all.Peek(f.key)
	for kind := uint32(1); kind != 0 && kind <= f.kinds; kind <<= 1 {
		if f.kinds&kind == 0 {
			continue
		}
		was, before := l.differ[kind]
		is, now := differ[kind]
		if before != now || before && was.Sum() != is.Sum() {
			changed |= kind
		}
		switch {
		case !now:
			delete(l.differ, kind)
		case l.differ == nil:
			l.differ = make(map[uint32]D)
			fallthrough
		default:
			l.differ[kind] = is
		}
	}
	for _, name := range f.tools {
		t.followed(tool{f.upstream, name}, changed != 0)
	}
	t.update(f.key, s)
	return changed, t.seen()
}

// Drop forgets the lists of a session at an upstream, where it has ended.
func (t *Table[D]) Drop(key, upstream string) []Lost {
	t.mu.Lock()
	defer t.mu.Unlock()
	s, ok := t.all.Peek(key)
	if !ok || s.at[upstream] == nil {
		return nil
	}
	return t.drop(key, s, upstream)
}

// Arrive says that a session has come here, and that another process may have known something
// of it.
func (t *Table[D]) Arrive(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.arrive.Add(key, struct{}{})
}

// Arrived reports, once, whether a session has come here.
func (t *Table[D]) Arrived(key string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.arrive.Remove(key)
}

// Equal reports whether sessions differ in the same way.
func (s *Shown[D]) Equal(other *Shown[D]) bool {
	if s == nil || other == nil {
		return s == other
	}
	return s.Sum == other.Sum
}

// Upstreams returns the upstreams where a session differs.
func (s *Shown[D]) Upstreams() (names []string) {
	if s == nil {
		return nil
	}
	for _, one := range s.All {
		if !slices.Contains(names, one.Upstream) {
			names = append(names, one.Upstream)
		}
	}
	return names
}
