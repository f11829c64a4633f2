package catalog

import (
	"crypto/sha256"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

const (
	// maxSessions bounds the sessions in the table, and maxSessionBytes their differences together.
	// Beyond either, the session with the oldest last call falls back to the lists that all clients see,
	// until its server has news of it again.
	maxSessions     = 10_000
	maxSessionBytes = 64 << 20
	// retrySession is the wait before a server that failed is asked again for a session's lists.
	retrySession = 10 * time.Second
)

// sessionTable holds the lists of clients' own sessions at servers, by Call.Session. It is safe for
// concurrent use. A server may add a tool to one session, and may tell that session of it. Lists of a
// session are outdated when
//
//   - the server has told the session that they have changed;
//   - a stream was lost on which the server may have told it: the lists that it would tell of;
//   - a call of a tool was answered, and the server would not tell, or no stream would carry it: the
//     lists that the server would not tell of. But if the last fetches after calls of that tool
//     have shown nothing new (patience), only after every second of its calls, then after every
//     fourth, and so on (mostSkipped).
//
// They are fetched in that session when its client lists, calls an unknown name, or listens and heard
// of a change.
type sessionTable struct {
	known atomic.Int64 // the length of all, for calls that need nothing else

	mu     sync.Mutex // guards the fields below; not held over I/O
	all    *simplelru.LRU[string, *sessionLists]
	bytes  int // of all differences
	tools  *simplelru.LRU[calledTool, *followUp]
	moved  *simplelru.LRU[string, struct{}] // sessions that another process may have had lists of
	losses []lostLists                      // by eviction, since the last look
}

// sessionLists are the lists of one session.
type sessionLists struct {
	at    map[string]*ownLists // by upstream
	shown *shownLists          // nil for nothing
	bytes int
	busy  chan struct{} // holds one while lists are fetched
}

// ownLists are the lists of a session at one upstream.
type ownLists struct {
	at       string    // see mcp.SessionLists
	outdated kindSet   // to be fetched
	told     kindSet   // those of them that the server has announced
	tools    []string  // those that made them outdated when they were called
	retry    time.Time // not before
	differ   ownDifference
}

// ownDifference has, by kind, how lists differ from those that the client would see otherwise.
type ownDifference [kinds]*difference

func (d *ownDifference) kinds() (all kindSet) {
	for k, one := range d {
		if one != nil {
			all |= setOf(kind(k))
		}
	}
	return all
}

// shownLists are all differences of one session. They never change. sum is equal for sessions that differ
// in the same way.
type shownLists struct {
	sum [sha256.Size]byte
	at  map[string]ownDifference // by upstream
}

// lostLists are the lists of an upstream that one session no longer shows.
type lostLists struct {
	session, upstream string
	kinds             kindSet
}

func newSessionTable() *sessionTable {
	t := &sessionTable{tools: newLRU[calledTool, *followUp](maxSessions), moved: newLRU[string, struct{}](maxSessions)}
	all, err := simplelru.NewLRU(maxSessions, t.evicted)
	if err != nil {
		panic(err) // its size is a constant
	}
	t.all = all
	return t
}

// evicted is called, with mu held, with each session that is removed.
func (t *sessionTable) evicted(key string, s *sessionLists) {
	t.bytes -= s.bytes
	for upstream, l := range s.at {
		if kinds := l.differ.kinds(); kinds != 0 {
			t.losses = append(t.losses, lostLists{key, upstream, kinds})
		}
	}
}

// note takes news about lists of these kinds. It returns what a session no longer shows.
func (t *sessionTable) note(upstream string, kinds kindSet, news mcp.SessionLists) []lostLists {
	t.mu.Lock()
	defer t.mu.Unlock()
	if news.Over {
		if s, ok := t.all.Peek(news.Session); ok && s.at[upstream] != nil && s.at[upstream].at == news.At {
			return t.remove(news.Session, s, upstream)
		}
		return nil
	}
	if kinds == 0 || news.Tool != "" && !t.follows(calledTool{upstream, news.Tool}) {
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
	return t.lost()
}

// listsOf returns the lists of a session at an upstream. mu is held.
func (t *sessionTable) listsOf(key, upstream string) *ownLists {
	s, ok := t.all.Get(key)
	if !ok {
		s = &sessionLists{at: make(map[string]*ownLists), busy: make(chan struct{}, 1)}
		t.all.Add(key, s)
		t.known.Store(int64(t.all.Len()))
	}
	l := s.at[upstream]
	if l == nil {
		l = &ownLists{}
		s.at[upstream] = l
	}
	return l
}

// lost returns the evicted lists since its last call. mu is held.
func (t *sessionTable) lost() []lostLists {
	lost := t.losses
	t.losses = nil
	return lost
}

// remove forgets the lists of a session at an upstream. mu is held.
func (t *sessionTable) remove(key string, s *sessionLists, upstream string) (lost []lostLists) {
	if kinds := s.at[upstream].differ.kinds(); kinds != 0 {
		lost = []lostLists{{key, upstream, kinds}}
	}
	delete(s.at, upstream)
	t.update(key, s)
	return lost
}

// update brings the shown lists of a session up to date, and forgets the session if there are none. mu is held.
func (t *sessionTable) update(key string, s *sessionLists) {
	t.bytes -= s.bytes
	s.shown, s.bytes = nil, 0
	shown, sum := &shownLists{at: make(map[string]ownDifference)}, sha256.New()
	for _, upstream := range slices.Sorted(maps.Keys(s.at)) {
		l := s.at[upstream]
		for k, is := range l.differ {
			if is != nil {
				shown.at[upstream] = l.differ
				sum.Write(append([]byte(upstream), 0, byte(k)))
				sum.Write(is.sum[:])
				s.bytes += is.size
			}
		}
		if l.outdated == 0 && l.differ == (ownDifference{}) {
			delete(s.at, upstream)
		}
	}
	if t.bytes += s.bytes; len(shown.at) > 0 {
		sum.Sum(shown.sum[:0])
		s.shown = shown
	}
	if len(s.at) == 0 {
		t.all.Remove(key)
	}
	for t.bytes > maxSessionBytes {
		t.all.RemoveOldest()
	}
	t.known.Store(int64(t.all.Len()))
}

// shown returns the differences of a session, nil for none. It counts as a call of its client.
func (t *sessionTable) shown(key string) *shownLists {
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

// differsAt returns the upstreams at which the lists of a session differ. It does not count as a call of its client.
func (t *sessionTable) differsAt(key string) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s, ok := t.all.Peek(key); ok {
		return s.shown.upstreams()
	}
	return nil
}

// outdated returns the lists of a session that have to be fetched, by upstream. later are the
// upstreams that have just failed, and are not to be asked yet.
func (t *sessionTable) outdated(key string) (due map[string]kindSet, later []string) {
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
			if due == nil {
				due = make(map[string]kindSet)
			}
			due[upstream] = l.outdated
		}
	}
	return due, later
}

// busy returns the channel that the only fetch of a session's lists holds a value of; nil if there
// is nothing to fetch.
func (t *sessionTable) busy(key string) chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s, ok := t.all.Peek(key); ok {
		return s.busy
	}
	return nil
}

// sessionFetch is a fetch of lists of a session at one upstream. News that comes while it runs makes
// the lists outdated again.
type sessionFetch struct {
	key, upstream string
	kinds, told   kindSet // told are those that the server has announced as changed
	tools         []string
}

// start begins to fetch lists.
func (t *sessionTable) start(key, upstream string, kinds kindSet) *sessionFetch {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.listsOf(key, upstream)
	f := &sessionFetch{key: key, upstream: upstream, kinds: kinds, told: l.told & kinds, tools: l.tools}
	l.outdated, l.told, l.tools = l.outdated&^kinds, l.told&^kinds, nil
	return f
}

// failed ends a fetch that has failed: it is due again after retrySession.
func (t *sessionTable) failed(f *sessionFetch) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.listsOf(f.key, f.upstream)
	l.outdated, l.told, l.retry = l.outdated|f.kinds, l.told|f.told, time.Now().Add(retrySession)
	if l.tools == nil {
		l.tools = f.tools
	}
	s, _ := t.all.Peek(f.key)
	t.update(f.key, s)
}

// done ends a fetch with the differences; a kind without one shows what all clients see.
// changed are the kinds that look different now. lost is what sessions no longer show because of
// a bound.
func (t *sessionTable) done(f *sessionFetch, differ ownDifference) (changed kindSet, lost []lostLists) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.listsOf(f.key, f.upstream)
	s, _ := t.all.Peek(f.key)
	for k := range kinds {
		if !f.kinds.has(k) {
			continue
		}
		was, is := l.differ[k], differ[k]
		if (was == nil) != (is == nil) || was != nil && was.sum != is.sum {
			changed |= setOf(k)
		}
		l.differ[k] = is
	}
	for _, name := range f.tools {
		t.followed(calledTool{f.upstream, name}, changed != 0)
	}
	t.update(f.key, s)
	return changed, t.lost()
}

// forget forgets the lists of a session at an upstream, where it has ended.
func (t *sessionTable) forget(key, upstream string) []lostLists {
	t.mu.Lock()
	defer t.mu.Unlock()
	s, ok := t.all.Peek(key)
	if !ok || s.at[upstream] == nil {
		return nil
	}
	return t.remove(key, s, upstream)
}

// arrive records that a session has come here; another process may have had lists of it.
func (t *sessionTable) arrive(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.moved.Add(key, struct{}{})
}

// hasArrived reports, once, whether a session has come here.
func (t *sessionTable) hasArrived(key string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.moved.Remove(key)
}

// differsAs reports whether sessions differ in the same way.
func (s *shownLists) differsAs(other *shownLists) bool {
	if s == nil || other == nil {
		return s == other
	}
	return s.sum == other.sum
}

// upstreams returns the upstreams where a session differs.
func (s *shownLists) upstreams() []string {
	if s == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(s.at))
}

const (
	// mostTools bounds the tools that are remembered between two fetches of a session.
	mostTools = 16
	// patience bounds the fetches after calls of a tool that show nothing new, in a row, before
	// some of its calls are no longer followed by one. A tool after which something was new once
	// gets patienceOnce.
	patience     = 3
	patienceOnce = 32
	// mostSkipped bounds the calls of a tool, over all sessions, between two that are followed by a
	// fetch.
	mostSkipped = 63
)

// calledTool is a tool of an upstream, by its own name.
type calledTool struct{ upstream, name string }

// followUp records the results of fetches after calls of a tool.
type followUp struct {
	once    bool // something was new after one of them
	equal   int  // number in a row that have shown nothing new
	skipped int  // calls without a fetch since the last one
}

// follows reports whether a call of a tool makes lists outdated. mu is held.
func (t *sessionTable) follows(which calledTool) bool {
	f, ok := t.tools.Get(which)
	if !ok {
		return true
	}
	spare := f.equal - patience
	if f.once {
		spare = f.equal - patienceOnce
	}
	if spare < 0 {
		return true
	}
	if f.skipped < min(1<<min(spare+1, 16)-1, mostSkipped) {
		f.skipped++
		return false
	}
	f.skipped = 0
	return true
}

// followed records a fetch after a call of a tool. mu is held.
func (t *sessionTable) followed(which calledTool, changed bool) {
	f, ok := t.tools.Get(which)
	if !ok {
		f = &followUp{}
		t.tools.Add(which, f)
	}
	if changed {
		*f = followUp{once: true}
		return
	}
	f.equal++
}
