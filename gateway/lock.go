package gateway

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/gatehouse-mcp/gatehouse/gateway/catalog"
	"github.com/gatehouse-mcp/gatehouse/gateway/pinning"
	"github.com/gatehouse-mcp/gatehouse/internal/pin"
)

// LockChange is a difference between what is approved of an upstream and what it says now.
type LockChange struct {
	Word string // new, changed or gone
	List string // such as tools
	Name string // "" for instructions
	// Diff has the lines that differ, with what is invisible written as <U+200B>.
	Diff string
	// Hidden are texts in it that people cannot see and models read.
	Hidden []string

	change pin.Change
}

// LockedUpstream is what a review has found at one upstream.
type LockedUpstream struct {
	Name    string
	Found   int // definitions
	Changes []LockChange
	// Problem is why it could not be compared, "" if it was. What is approved of it stays.
	Problem string
}

// LockReview compares the lock file of a configuration with what the upstreams say now.
type LockReview struct {
	File      string
	Fresh     bool // there is no lock file yet
	Upstreams []LockedUpstream
	// Dropped are upstreams in the lock file that are not configured any more.
	Dropped []string

	lock pin.Lock
}

// ReviewLock connects to the pinned upstreams of a configuration, or to all if none is pinned. It
// waits until each has answered or failed, or ctx ends. It writes nothing.
func ReviewLock(ctx context.Context, cfg Config, version string, log *slog.Logger) (*LockReview, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	r := &LockReview{File: cfg.Pinning.File}
	lock, err := readLock(cfg)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		r.Fresh, lock = true, make(pin.Lock)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", cfg.Pinning.File, err)
	}
	r.lock = lock
	for _, name := range slices.Sorted(maps.Keys(lock)) {
		if !slices.Contains(cfg.upstreamNames(), name) {
			r.Dropped = append(r.Dropped, name)
			delete(lock, name)
		}
	}
	some := pins(cfg)
	cfg.Upstreams = slices.Clone(cfg.Upstreams)
	for i := range cfg.Upstreams {
		if some && pinMode(cfg, cfg.Upstreams[i]) == pinning.Off {
			no := false
			cfg.Upstreams[i].Enabled = &no
		}
	}
	found := collection{all: make(map[string]map[string]pin.Definition)}
	err = inspectWith(ctx, cfg, version, log, found.add, func(g *graph) error {
		for _, report := range g.reports() {
			r.Upstreams = append(r.Upstreams, found.review(report, lock[report.Name]))
		}
		return nil
	})
	return r, err
}

// review compares what was found at an upstream with what is approved.
func (c *collection) review(report UpstreamReport, approved []pin.Definition) LockedUpstream {
	c.mu.Lock()
	defer c.mu.Unlock()
	one := LockedUpstream{Name: report.Name, Problem: report.Error}
	if report.State == string(catalog.StatePerUser) {
		one.Problem = "each user sees lists of their own, which only the gateway itself can report"
	}
	if one.Problem != "" {
		return one
	}
	one.Found = len(c.all[report.Name])
	for _, change := range pin.Compare(approved, slices.Collect(maps.Values(c.all[report.Name]))) {
		shown := LockChange{Word: change.Word(), List: string(change.Kind), Name: change.Name, Diff: change.Diff(), change: change}
		for _, raw := range change.Is {
			shown.Hidden = append(shown.Hidden, pin.Hidden(raw)...)
		}
		one.Changes = append(one.Changes, shown)
	}
	return one
}

// Approve approves a change. Save writes it.
func (r *LockReview) Approve(upstream string, c LockChange) { r.lock.Approve(upstream, c.change) }

// Save writes the lock file.
func (r *LockReview) Save() error { return r.lock.Write(r.File) }

// collection has what upstreams define, each definition once.
type collection struct {
	mu  sync.Mutex
	all map[string]map[string]pin.Definition // by upstream, and by everything
}

func (c *collection) add(upstream string, d pin.Definition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all[upstream] == nil {
		c.all[upstream] = make(map[string]pin.Definition)
	}
	c.all[upstream][string(d.Kind)+"\x00"+d.Name+"\x00"+string(d.Raw)] = d
}
