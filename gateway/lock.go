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

	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/gateway/catalog"
	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/gateway/pinning"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/pin"
)

// LockChange is a difference between what is approved of an upstream and what it says now.
type LockChange struct {
	pin.Change
	more bool // what was approved stays approved
}

// Hidden returns texts in it that people cannot see and models read.
func (c LockChange) Hidden() (all []string) {
	for _, raw := range c.Is {
		all = append(all, pin.Hidden(raw)...)
	}
	return all
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

// ReviewSeen compares the lock file of a configuration with what a gateway that runs has seen: the
// only way to learn what each user sees of an upstream that gets the user's own credential. It
// has nothing of what the gateway has not seen yet. There, a thing may be approved as it is for
// several users.
func ReviewSeen(cfg Config, seen []admin.Pin) (*LockReview, error) {
	r, err := openLock(cfg)
	if err != nil {
		return nil, err
	}
	for _, u := range cfg.Upstreams {
		if !config.Enabled(u) || config.PinMode(cfg, u) == pinning.Off {
			continue
		}
		one := LockedUpstream{Name: u.Name}
		for _, p := range seen {
			if p.Upstream == u.Name {
				one.Found++
				one.Changes = append(one.Changes, r.seen(p, u.Auth.PerUser()))
			}
		}
		r.Upstreams = append(r.Upstreams, one)
	}
	return r, nil
}

// seen returns the change that a gateway has seen. With more, what is approved stays approved.
func (r *LockReview) seen(p admin.Pin, more bool) LockChange {
	change := pin.Change{Kind: pin.Kind(p.List), Name: p.Name, Is: []mcp.Raw{pin.Canonical(p.Definition)}}
	for _, d := range r.lock[p.Upstream] {
		if d.Kind == change.Kind && d.Name == change.Name {
			change.Was = append(change.Was, d.Raw)
		}
	}
	return LockChange{change, more}
}

// openLock reads the lock file, which may be missing.
func openLock(cfg Config) (*LockReview, error) {
	lock, err := config.ReadLock(cfg)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", cfg.Pinning.File, err)
	}
	r := &LockReview{File: cfg.Pinning.File, lock: lock}
	if err != nil {
		r.Fresh, r.lock = true, make(pin.Lock)
	}
	return r, nil
}

// ReviewLock connects to the pinned upstreams of a valid configuration, or to all if none is pinned. It
// waits until each has answered or failed, or ctx ends. It writes nothing.
func ReviewLock(ctx context.Context, cfg Config, version string, log *slog.Logger) (*LockReview, error) {
	r, err := openLock(cfg)
	if err != nil {
		return nil, err
	}
	lock := r.lock
	for _, name := range slices.Sorted(maps.Keys(lock)) {
		if !slices.Contains(cfg.UpstreamNames(), name) {
			r.Dropped = append(r.Dropped, name)
			delete(lock, name)
		}
	}
	some := config.Pins(cfg)
	cfg.Upstreams = slices.Clone(cfg.Upstreams)
	for i := range cfg.Upstreams {
		if some && config.PinMode(cfg, cfg.Upstreams[i]) == pinning.Off {
			no := false
			cfg.Upstreams[i].Enabled = &no
		}
	}
	found := collection{all: make(map[string]map[string]pin.Definition)}
	err = inspect(ctx, cfg, version, log, found.add, func(g *graph) error {
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
		one.Problem = "each user sees lists of their own, which only a gateway that runs can report: gatehouse lock --running"
	}
	if one.Problem != "" {
		return one
	}
	one.Found = len(c.all[report.Name])
	for _, change := range pin.Compare(approved, slices.Collect(maps.Values(c.all[report.Name]))) {
		one.Changes = append(one.Changes, LockChange{Change: change})
	}
	return one
}

// Approve approves a change. Save writes it.
func (r *LockReview) Approve(upstream string, c LockChange) {
	if !c.more {
		r.lock.Approve(upstream, c.Change)
		return
	}
	for _, raw := range c.Is {
		r.lock.Add(upstream, pin.Definition{Kind: c.Kind, Name: c.Name, Raw: raw})
	}
}

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
