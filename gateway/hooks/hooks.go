package hooks

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/tracing"
	"github.com/gatehouse-mcp/gatehouse/policy"
)

// Deps are the dependencies of the hooks. Holds is required.
type Deps struct {
	// Holds reports whether the decision of policy still holds for a changed call; see
	// policy.Guard.
	Holds func(ctx context.Context, before, after *mcp.Call) error
	// Log records hooks that fail; nil for none.
	Log *slog.Logger
	// Tracer has a span for each hook that runs; nil for none.
	Tracer  *tracing.Tracer
	Metrics *Metrics
}

// Hooks are compiled hooks. They may be used concurrently.
type Hooks struct {
	Deps
	hooks []*hook
}

// hook is a compiled Hook.
type hook struct {
	name   string
	on     [2]bool // by side
	reach  *policy.Reach
	filter filter
	remote bool                   // asks a service
	outage atomic.Pointer[Outage] // how it has failed since it last worked; nil if it works
}

// side is the direction of content.
type side uint8

const (
	toServer side = iota
	toClient
)

var sides = [...]string{toServer: Arguments, toClient: Results}

// New compiles hooks.
func New(cfg Config, deps Deps) (*Hooks, error) {
	if deps.Metrics == nil {
		deps.Metrics = NewMetrics(nil)
	}
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	all := &Hooks{Deps: deps}
	for i, c := range cfg {
		h := &hook{name: c.Name, on: [2]bool{c.is(Arguments), c.is(Results)}, remote: c.HTTP != nil}
		var err error
		if h.reach, err = policy.NewReach(c.Who, c.What); err == nil {
			h.filter, err = c.filter()
		}
		if err != nil {
			return nil, fmt.Errorf("hooks%s: %w", Path(i, c), err)
		}
		all.hooks = append(all.hooks, h)
	}
	return all, nil
}

// of returns the hooks that run for a caller's use of a target.
func (all *Hooks) of(caller *mcp.Caller, t mcp.Target) (some []*hook) {
	for _, h := range all.hooks {
		if h.reach.Has(caller, t) {
			some = append(some, h)
		}
	}
	return some
}

// Close closes idle connections to services.
func (all *Hooks) Close() {
	for _, h := range all.hooks {
		if service, ok := h.filter.(*remote); ok {
			service.close()
		}
	}
}

// noteHealth tells the log when a hook begins to fail, and when it works again.
func (h *hook) noteHealth(ctx context.Context, log *slog.Logger, did action, why string) {
	if !h.remote {
		return
	}
	if did == failed || did == failedOpen {
		if !h.outage.CompareAndSwap(nil, &Outage{Hook: h.name, Since: time.Now(), Refuses: did == failed, Why: why}) {
			return
		}
		log.WarnContext(ctx, "a hook fails", failure.HookDown.Attr(), "hook", h.name, "action", actions[did], "error", why)
		return
	}
	if h.outage.Swap(nil) != nil {
		log.InfoContext(ctx, "a hook works again", "hook", h.name)
	}
}

// Outage is a hook that fails: its service has given no valid answer since the last valid one.
type Outage struct {
	Hook    string
	Since   time.Time
	Refuses bool // nothing passes meanwhile
	Why     string
}

// Outages returns the hooks that fail.
func (all *Hooks) Outages() (some []Outage) {
	for _, h := range all.hooks {
		if o := h.outage.Load(); o != nil {
			some = append(some, *o)
		}
	}
	return some
}

// Explain returns a line for each hook that runs for a caller's use of a target.
func (c Config) Explain(caller *mcp.Caller, t mcp.Target) (lines []string, err error) {
	for i, h := range c {
		reach, err := policy.NewReach(h.Who, h.What)
		if err != nil {
			return nil, fmt.Errorf("hooks%s: %w", Path(i, h), err)
		}
		if !reach.Has(caller, t) {
			continue
		}
		on := slices.DeleteFunc(slices.Clone(sides[:]), func(side string) bool { return !h.is(side) })
		lines = append(lines, fmt.Sprintf("Hook %q runs on %s.", h.Name, strings.Join(on, " and ")))
	}
	return lines, nil
}

// Middleware puts the hooks in front of the catalog.
func (all *Hooks) Middleware(next mcp.Handler) mcp.Handler {
	if len(all.hooks) == 0 {
		return next
	}
	return mcp.HandlerFunc(func(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
		if c.Method == mcp.MethodListen {
			return next.Handle(ctx, all.listening(ctx, c))
		}
		if c.Target.Upstream == "" { // nothing runs
			return next.Handle(ctx, c)
		}
		some := all.of(&c.Caller, c.Target)
		if some == nil {
			return next.Handle(ctx, c)
		}
		r := &run{Hooks: all, ctx: ctx, call: c, hooks: some}
		if c.Verdict != nil {
			r.ran = slices.Clone(c.Verdict.Hooks) // of earlier rounds
		}
		defer r.report()
		inner, err := r.there()
		if err != nil {
			return nil, err
		}
		return r.back(next, inner)
	})
}

// listening returns a call of subscriptions/listen with hooks on its events. Tasks pass the hooks
// of their tools, log messages those for anything of their server.
func (all *Hooks) listening(ctx context.Context, c *mcp.Call) *mcp.Call {
	inner := c.Clone()
	inner.Notify = func(e mcp.Event) {
		switch e.Method {
		case mcp.NoteTask:
		case mcp.NoteMessage:
			r := &run{Hooks: all, ctx: ctx, call: c}
			for _, h := range all.hooks {
				if h.reach.HasSome(&c.Caller, e.Upstream) {
					r.hooks = append(r.hooks, h)
				}
			}
			r.notify(e)
			return
		default:
			c.Notify(e)
			return
		}
		tool, ok := c.Lens.Target(ctx, mcp.KindTask, mcp.TaskID(e.Params))
		if !ok { // it is unknown which hooks are for it
			return
		}
		r := &run{Hooks: all, ctx: ctx, call: c, hooks: all.of(&c.Caller, tool), pushed: true}
		if task, err := r.task(e.Params); err == nil {
			e.Params = task
			c.Notify(e)
		}
	}
	return inner
}

// Looking is a hook that looks at calls to an upstream.
type Looking struct {
	Name string
	On   []string // Arguments, Results
	What []string // its patterns; nil for everything
}

// LooksAt returns the hooks that look at some of the calls to an upstream, for any caller.
func (c Config) LooksAt(upstream string) (some []Looking) {
	for _, h := range c {
		if h.What != nil {
			what, err := policy.NewSelection(h.What)
			if err != nil || !slices.ContainsFunc([]string{mcp.KindTools, mcp.KindPrompts, mcp.KindResources, mcp.KindSkills},
				func(kind string) bool { return what.About(kind, upstream) }) {
				continue
			}
		}
		on := slices.DeleteFunc(slices.Clone(sides[:]), func(side string) bool { return !h.is(side) })
		some = append(some, Looking{h.Name, on, h.What})
	}
	return some
}
