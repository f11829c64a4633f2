package catalog

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/view"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/problems"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
)

// warmUp bounds the wait of lists, after the start, for upstreams that have not answered yet.
const warmUp = 2 * time.Second

// upstreamItems is the default of Source.Items.
const upstreamItems = 20_000

// atOnce bounds the listeners that hear of a change at a time.
const atOnce = 32

// classWait bounds the wait of a list for the first look as the class of its client.
const classWait = 2 * time.Second

// Upstream is one MCP server as the catalog uses it. Handle takes original names and URIs
// in Call.Name, honours its context and has its own time limits.
type Upstream interface {
	mcp.Handler
	// Name is the configured name.
	Name() string
}

// Source is an upstream and its naming.
type Source struct {
	Upstream Upstream
	// Prefix is put in front of the names of tools and prompts; nil for the upstream's name
	// and Config.Separator. With "" names and URIs stay unchanged.
	Prefix *string
	// PerUser says that each user has a credential of their own at the upstream. The
	// upstream is asked for its lists on behalf of each user, when the user calls, and
	// never by the gateway itself.
	PerUser bool
	// ByClass says that the upstream may show something else to clients that declare less. It is
	// then looked at as such a client, too.
	ByClass bool
	// Keeps reports whether the upstream keeps something for a client from one call to the
	// next, such as a session or a process; nil if it does not.
	Keeps func() bool
	// HasSession reports whether the client of a call has a session of its own at the upstream;
	// nil if there are none.
	HasSession func(ctx context.Context, call *mcp.Call) bool
	// SkillDir says that the source is a directory of skills. It has no tools, so its
	// skills name their dependencies upstream/name.
	SkillDir bool
	// Items bounds the items of each list of the upstream; 0 for the default. Further ones are left
	// out.
	Items int
	// SignInAt is the page where users sign in at the upstream with accounts of their own; "" for none.
	SignInAt string
}

// Deps are the dependencies of a Catalog. Log, Seal and Tasks are required.
type Deps struct {
	Log *slog.Logger
	// Seal seals cursors, and Tasks the ids of tasks. Replicas that share the keys accept
	// each other's cursors and ids. An id is valid as long as its key.
	Seal  *seal.Key
	Tasks *seal.Key
	// Views arrange lists for their callers, by name. Policy decides what they may use.
	Views map[string]*view.View
	// PageSize bounds the items of a page; 0 for the default.
	PageSize int
	// Changed takes each change in what an upstream offers to all; nil for none. It must not block.
	Changed func(Change)
	// Turned takes the new state of an upstream, as its lists show it; nil for none. It must not
	// block.
	Turned func(UpstreamView)
	// Published is called when clients get new lists, also the first ones; nil for none. It must
	// not block.
	Published func()
	// Keep stores where the lists of clients' own sessions differ, for a process that takes
	// over such a session; nil for no such process.
	Keep Keeper
}

// Catalog merges upstreams. It is safe for concurrent use.
type Catalog struct {
	plan    *plan
	sources []*source
	log     *slog.Logger
	seal    *seal.Key
	hub     hub

	onChange  func(Change)       // nil for none
	turned    func(UpstreamView) // likewise
	published func()             // likewise

	taskSeal      *seal.Key
	taskFollowers taskFollowers

	classes  *classAudiences
	sessions *sessions          // lists of clients' own sessions
	users    *users             // nil without per-user sources
	before   map[string]kindSet // what upstreams offered in the previous catalog, by name
	byClass  bool               // some upstream may show something else to clients that declare less

	snap      atomic.Pointer[snapshot]
	publisher *publisher[sourceState]

	pending atomic.Int64  // sources that have neither answered nor failed yet
	first   chan struct{} // closed when there are none
	warm    chan struct{} // closed when lists no longer have to wait
	warmed  sync.Once
	done    chan struct{} // closed when Run ends: long-lived calls end then
	turns   chan struct{} // has one for each listener that hears of a change now
}

// source is one upstream. One goroutine runs its watch, unless the source is per user.
type source struct {
	index    int
	upstream Upstream
	naming   naming
	users    *users // holds what it tells each user; nil unless it is per user
	keeps    func() bool
	changes  *changes      // what the upstream says has changed, for the watch
	again    chan struct{} // holds one value: the watch is to begin again
	byClass  bool
	// hasSession is Source.HasSession.
	hasSession func(context.Context, *mcp.Call) bool
	classes    *classTable
	items      int  // see Source.Items
	inherits   bool // its first state comes from the previous catalog
	asked      asked
}

// callID replaces the id of a client's request in the calls of a watch.
func (s *source) callID() string { return "catalog:" + s.naming.upstream }

// told takes an upstream's notice of changes in a call of a caller.
func (s *source) told(caller mcp.Caller, kinds kindSet) {
	switch {
	case kinds == 0:
	case s.users != nil:
		s.users.told(s, caller, kinds)
	default:
		s.changes.add(kinds)
	}
}

// New makes a Catalog of the sources, in the order in which lists show them. It does no
// I/O; Run does.
func New(cfg Config, sources []Source, deps Deps) (*Catalog, error) {
	return assemble(cfg, sources, deps, nil)
}

// Successor is New for a catalog that replaces c. What c knows is shown until the upstreams
// have answered. c must have ended before the new catalog runs.
func (c *Catalog) Successor(cfg Config, sources []Source, deps Deps) (*Catalog, error) {
	return assemble(cfg, sources, deps, c)
}

func assemble(cfg Config, sources []Source, deps Deps, before *Catalog) (*Catalog, error) {
	var found problems.List
	found.Join(cfg.Validate())
	found.When(deps.Log == nil || deps.Seal == nil || deps.Tasks == nil, "log, seal and tasks are needed")
	cfg = cfg.WithDefaults()
	c := &Catalog{
		plan: &plan{cfg: cfg, tagged: make(map[string]int), pageSize: cmp.Or(deps.PageSize, pageSize), views: deps.Views},
		log:  deps.Log, seal: deps.Seal, taskSeal: deps.Tasks, onChange: deps.Changed, turned: deps.Turned,
		published: deps.Published, publisher: newPublisher[sourceState](),
		first: make(chan struct{}), warm: make(chan struct{}), done: make(chan struct{}),
		turns: make(chan struct{}, atOnce),
	}
	names := make(map[string]bool)
	for i, s := range sources {
		if s.Upstream == nil {
			found.Add("source %d has no upstream", i)
			continue
		}
		name := s.Upstream.Name()
		found.When(names[strings.ToLower(name)], "upstream %q: the name is taken", name)
		names[strings.ToLower(name)] = true
		n, err := newNaming(cfg, name, s.Prefix)
		n.skillDir, n.signInAt = s.SkillDir, s.SignInAt
		found.When(err != nil, "upstream %q: %w", name, err)
		if !n.plain() {
			c.plan.tagged[strings.ToLower(name)] = i
		}
		c.plan.namings = append(c.plan.namings, n)
		one := &source{
			index: i, upstream: s.Upstream, naming: n, changes: newChanges(), again: make(chan struct{}, 1),
			byClass: s.ByClass, classes: newClassTable(), keeps: s.Keeps, items: cmp.Or(s.Items, upstreamItems),
		}
		if one.keeps == nil {
			one.keeps = func() bool { return false }
		}
		if one.hasSession = s.HasSession; one.hasSession == nil {
			one.hasSession = func(context.Context, *mcp.Call) bool { return false }
		}
		if s.PerUser {
			if c.users == nil {
				c.plan.private, c.users = true, newUsers(c)
			}
			one.users, c.users.sources = c.users, append(c.users.sources, one)
		}
		c.byClass = c.byClass || one.byClass
		c.sources = append(c.sources, one)
	}
	if err := found.Err(); err != nil {
		return nil, fmt.Errorf("catalog: %w", err)
	}
	c.plan.index()
	states := make([]sourceState, len(c.sources))
	shared := 0
	for i, s := range c.sources {
		if s.users != nil {
			states[i] = perUserState()
			continue
		}
		if state, ok := inherited(s, c.plan, before); ok {
			states[i], s.inherits = state, true
			for class := range state.classes {
				s.classes.want(class, true)
			}
			continue
		}
		shared++
		states[i] = sourceState{state: StateConnecting, since: time.Now(), halfSeen: s.byClass}
	}
	c.classes = &classAudiences{all: newLRU[string, *audience](maxClasses)}
	c.sessions = newSessions(c, before, deps.Keep)
	c.remember(before)
	c.snap.Store(build(c.plan, states, nil))
	c.pending.Store(int64(shared))
	if shared == 0 {
		c.stopWaiting() // callers that wait for the first answers may rely on it
		close(c.first)
	}
	return c, nil
}

// Run keeps the lists up to date until ctx ends, and returns when everything that it
// started has ended. It may be called once. When it ends, long-lived calls
// (subscriptions/listen) end normally.
func (c *Catalog) Run(ctx context.Context) error {
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		c.publisher.showAll(stop, c.show)
	}()
	var wg sync.WaitGroup
	for _, s := range c.sources {
		if s.users == nil {
			wg.Go(func() { newWatch(c, s).run(ctx) })
		}
	}
	if c.users != nil {
		wg.Go(func() { c.users.run(ctx) })
	}
	timer := time.AfterFunc(warmUp, c.stopWaiting)
	<-ctx.Done()
	timer.Stop()
	close(c.done)
	c.stopWaiting()
	wg.Wait()
	close(stop)
	<-stopped
	return nil
}

// WaitFirst returns when every source has answered or failed once, or ctx has ended.
func (c *Catalog) WaitFirst(ctx context.Context) {
	select {
	case <-c.first:
	case <-ctx.Done():
	}
}

// Refresh fetches all lists of an upstream again, now, even if it has just failed.
func (c *Catalog) Refresh(upstream string) {
	for _, s := range c.sources {
		switch {
		case s.naming.upstream != upstream:
		case s.users != nil:
			s.users.refresh(s)
		default:
			select {
			case s.again <- struct{}{}:
			default:
			}
		}
	}
}

// awaitClass waits a little for the first look as the class of a call's client, at upstreams that
// do not show the same to all.
func (c *Catalog) awaitClass(ctx context.Context, call *mcp.Call) error {
	s := c.snap.Load()
	if !s.varies || s.settled(call.Caps) {
		return nil
	}
	class, timer := classOf(call.Caps), time.NewTimer(classWait)
	defer timer.Stop()
	settled := true
	for i, from := range c.sources {
		state := &s.states[i]
		if !state.classed() {
			continue
		}
		_, known := state.classes[class]
		settled = settled && known
		if call.Aside && !known && !from.classes.hasRoom() {
			continue
		}
		done := from.classes.want(class, known)
		if done == nil {
			continue
		}
		select {
		case <-done:
		case <-timer.C:
			timer.Reset(0)
			from.classes.stopWaiting(class)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if settled {
		s.settle(call.Caps)
	}
	return nil
}

// common returns the snapshot of a call's caller, without what only its session shows, and the
// caller's audience.
func (c *Catalog) common(call *mcp.Call) (*snapshot, *audience) {
	if c.users == nil {
		return c.classes.of(c.snap.Load(), call.Caps)
	}
	return c.users.view(call)
}

// wait gives slow upstreams a short time after the start; later it costs nothing.
func (c *Catalog) wait(ctx context.Context) error {
	select {
	case <-c.warm:
		return nil
	default:
	}
	timer := time.NewTimer(warmUp)
	defer timer.Stop()
	select {
	case <-c.warm:
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

func (c *Catalog) stopWaiting() { c.warmed.Do(func() { close(c.warm) }) }

// heardFrom counts the first answer or failure of a source.
func (c *Catalog) heardFrom() {
	if c.pending.Add(-1) == 0 {
		c.stopWaiting() // callers that wait for the first answers may rely on it
		close(c.first)
	}
}

// show makes the next snapshot, with new states of sources, and tells listeners what changed.
func (c *Catalog) show(arrived map[int]sourceState) {
	old := c.snap.Load()
	states, changed := slices.Clone(old.states), false
	for i, state := range arrived {
		changed = changed || !state.same(&states[i])
		states[i] = state
	}
	if !changed {
		return
	}
	next := build(c.plan, states, old)
	c.snap.Store(next)
	if c.published != nil {
		c.published()
	}
	c.logWithheld(old, next)
	for i, state := range arrived {
		if was := old.states[i]; c.onChange != nil && was.heard {
			was.compare(state, c.sources[i].naming.upstream, c.onChange)
		}
	}
	for i, kinds := range next.changed(old) {
		c.hub.announce(i, kinds, everyone)
	}
}

// logWithheld logs the items that the new snapshot withholds and the old one did not. A
// change at one upstream can affect another, if both have the same name.
func (c *Catalog) logWithheld(old, next *snapshot) {
	const most = 20 // per change; Status lists all
	for i, source := range c.sources {
		now := next.withheld(i)
		if len(now) == 0 {
			continue
		}
		before := make(map[Withheld]bool)
		for _, w := range old.withheld(i) {
			before[w] = true
		}
		logged, more := 0, 0
		for _, w := range now {
			switch {
			case before[w]:
			case logged == most:
				more++
			default:
				logged++
				c.log.LogAttrs(context.Background(), slog.LevelWarn, "item withheld", failure.ItemWithheld.Attr(),
					slog.String("upstream", source.naming.upstream),
					slog.String("list", w.List), slog.String("name", w.Name), slog.String("reason", w.Reason))
			}
		}
		if more > 0 {
			c.log.LogAttrs(context.Background(), slog.LevelWarn, "more items withheld", failure.ItemWithheld.Attr(),
				slog.String("upstream", source.naming.upstream), slog.Int("count", more))
		}
	}
}

// inherited returns the state of a source in the previous catalog; false if there is nothing
// usable. A source with a changed naming inherits nothing.
//
// After a reload, a catalog begins with what its predecessor knew, so that no list is empty
// until the upstreams have answered again. Inherited lists are treated like those of an
// upstream that fails temporarily: the first answer replaces them.
func inherited(s *source, p *plan, before *Catalog) (sourceState, bool) {
	if before == nil || s.users != nil {
		return sourceState{}, false
	}
	states := before.snap.Load().states
	for _, was := range before.sources {
		if was.naming != s.naming || was.users != nil {
			continue
		}
		if s.naming.plain() && !maps.EqualFunc(p.tagged, before.plan.tagged, func(_, _ int) bool { return true }) {
			break // other URIs of it now look like another upstream's
		}
		state := states[was.index]
		if s.byClass != was.byClass {
			state.unlook(s)
		}
		return state, state.heard
	}
	return sourceState{}, false
}

// remember records what each upstream offered in the previous catalog: its listeners continue here,
// and hear of lists that come back.
func (c *Catalog) remember(before *Catalog) {
	if before == nil {
		return
	}
	c.before = make(map[string]kindSet, len(before.sources))
	states := before.snap.Load().states
	for _, s := range before.sources {
		kinds := states[s.index].offers.kinds
		if !states[s.index].heard {
			kinds |= before.before[s.naming.upstream]
		}
		c.before[s.naming.upstream] = kinds
	}
}
