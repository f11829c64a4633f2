package catalog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
)

// warmUp is how long after the start lists wait for upstreams that have not
// answered yet.
const warmUp = 2 * time.Second

// Upstream is one MCP server as the catalog needs it. Handle takes original names
// and URIs in Call.Name, honours its context and has time limits of its own.
type Upstream interface {
	mcp.Handler
	// Name is the configured name.
	Name() string
}

// Source is an upstream and how its names are made.
type Source struct {
	Upstream Upstream
	// Prefix is put in front of the names of tools and prompts; nil for the
	// upstream's name and Config.Separator. With "" names and URIs stay as they are.
	Prefix *string
}

// Deps are what a Catalog works with; all are needed.
type Deps struct {
	Log *slog.Logger
	// Seal seals cursors. Replicas that share it read each other's.
	Seal *seal.Key
}

// Catalog merges upstreams. It is safe for concurrent use.
type Catalog struct {
	plan    *plan
	sources []*source
	log     *slog.Logger
	seal    *seal.Key
	hub     hub

	snap atomic.Pointer[snapshot]
	mu   sync.Mutex // serializes publish; never held over I/O

	pending atomic.Int64  // sources that neither answered nor failed yet
	first   chan struct{} // closed when there are none
	warm    chan struct{} // closed when lists need not wait any more
	warmed  sync.Once
	done    chan struct{} // closed when Run ends: standing calls end with it
}

// source is one upstream. Its watch is run by one goroutine.
type source struct {
	index    int
	upstream Upstream
	naming   naming
	changes  *changes // what the upstream says has changed, for the watch
}

// New makes a Catalog of the sources in the order in which lists show them. It does
// no I/O: Run does.
func New(cfg Config, sources []Source, deps Deps) (*Catalog, error) {
	errs := []error{cfg.Validate()}
	if deps.Log == nil || deps.Seal == nil {
		errs = append(errs, errors.New("log and seal are needed"))
	}
	cfg = cfg.withDefaults()
	c := &Catalog{
		plan: &plan{cfg: cfg, tagged: make(map[string]int), pageSize: pageSize},
		log:  deps.Log, seal: deps.Seal,
		first: make(chan struct{}), warm: make(chan struct{}), done: make(chan struct{}),
	}
	names := make(map[string]bool)
	for i, s := range sources {
		if s.Upstream == nil {
			errs = append(errs, fmt.Errorf("source %d has no upstream", i))
			continue
		}
		name := s.Upstream.Name()
		if names[name] {
			errs = append(errs, fmt.Errorf("upstream %q: the name is taken", name))
		}
		names[name] = true
		n, err := newNaming(cfg, name, s.Prefix)
		if err != nil {
			errs = append(errs, fmt.Errorf("upstream %q: %w", name, err))
		}
		if !n.plain() {
			c.plan.tagged[name] = i
		}
		c.plan.namings = append(c.plan.namings, n)
		c.sources = append(c.sources, &source{index: i, upstream: s.Upstream, naming: n, changes: newChanges()})
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("catalog: %w", err)
	}
	states := make([]known, len(c.sources))
	for i := range states {
		states[i] = known{state: StateConnecting, since: time.Now()}
	}
	c.snap.Store(build(c.plan, states, nil))
	c.pending.Store(int64(len(states)))
	if len(states) == 0 {
		close(c.first)
		c.stopWaiting()
	}
	return c, nil
}

// Run keeps the lists up to date until ctx ends, and returns when nothing of it runs
// any more. It is called once. Calls that stand when it ends, subscriptions/listen,
// are ended in good order.
func (c *Catalog) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	for _, s := range c.sources {
		wg.Go(func() { newWatch(c, s).run(ctx) })
	}
	timer := time.AfterFunc(warmUp, c.stopWaiting)
	<-ctx.Done()
	timer.Stop()
	close(c.done)
	c.stopWaiting()
	wg.Wait()
	return nil
}

// WaitFirst returns when every source has answered or failed once, or ctx has ended.
func (c *Catalog) WaitFirst(ctx context.Context) {
	select {
	case <-c.first:
	case <-ctx.Done():
	}
}

// Handle answers a call. It is the last handler of the chain. A method of a kind that
// no upstream offers does not exist.
func (c *Catalog) Handle(ctx context.Context, call *mcp.Call) (*mcp.Reply, error) {
	if k, ok := kindNeeded(call.Method); ok && !c.snap.Load().whole.offers.kinds.has(k) {
		return nil, mcp.ErrMethod(call.Method)
	}
	switch call.Method {
	case mcp.MethodToolsCall, mcp.MethodPromptsGet:
		return c.callByName(ctx, call)
	case mcp.MethodResourcesRead:
		return c.read(ctx, call)
	case mcp.MethodComplete:
		return c.complete(ctx, call)
	case mcp.MethodListen:
		return c.listen(ctx, call)
	case mcp.MethodDiscover:
		if err := c.wait(ctx); err != nil {
			return nil, err
		}
		s := c.snap.Load()
		return &mcp.Reply{Result: s.faceFor(s.plan.sightOf(call)).result}, nil
	}
	if k, ok := kindOf(call.Method); ok {
		if err := c.wait(ctx); err != nil {
			return nil, err
		}
		return c.list(c.snap.Load(), k, call)
	}
	return nil, mcp.ErrMethod(call.Method)
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
		close(c.first)
		c.stopWaiting()
	}
}

// publish puts in what a source last said, and tells listeners what changed.
func (c *Catalog) publish(s *source, state known) {
	c.mu.Lock()
	old := c.snap.Load()
	states := append([]known(nil), old.states...)
	states[s.index] = state
	next := build(c.plan, states, old)
	c.snap.Store(next)
	c.mu.Unlock()

	c.logWithheld(old, next)
	for i, kinds := range next.changed(old) {
		c.hub.announce(i, kinds)
	}
}
