package review

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"sync"

	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/gateway/pinning"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/pin"
)

// Change is a difference between an approved definition of an upstream and the present one.
type Change struct {
	pin.Change
	more bool // earlier approvals stay valid
}

// Hidden returns texts in it that people cannot see and models read.
func (c Change) Hidden() (all []string) {
	for _, raw := range c.Is {
		all = append(all, pin.Hidden(raw)...)
	}
	return all
}

// Upstream is the result of a review for one upstream.
type Upstream struct {
	Name    string
	Found   int // definitions
	Changes []Change
	// Problem is the reason why it could not be compared, "" if it was. Its approvals stay.
	Problem string
}

// Review compares the lock file of a configuration with the upstreams' definitions now.
type Review struct {
	File      string
	Fresh     bool // there is no lock file yet
	Upstreams []Upstream
	// Dropped are upstreams in the lock file that are not configured any more.
	Dropped []string

	lock pin.Lock

	mu        sync.Mutex                           // guards collected
	collected map[string]map[string]pin.Definition // by upstream, and by everything
}

// Seen compares the lock file of a configuration with the definitions that a running gateway has
// seen: only the gateway learns what each user sees of an upstream that gets the user's own
// credential. It lacks what the gateway has not seen yet. At such upstreams, a thing may be
// approved as it is for several users.
func Seen(cfg config.Config, seen []admin.Pin) (*Review, error) {
	r, err := Open(cfg)
	if err != nil {
		return nil, err
	}
	for _, u := range cfg.Upstreams {
		if !config.Enabled(u) || config.PinMode(cfg, u) == pinning.Off {
			continue
		}
		one := Upstream{Name: u.Name}
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

// seen returns the change that a gateway has seen. With more, earlier approvals stay valid.
func (r *Review) seen(p admin.Pin, more bool) Change {
	was := r.lock.Approved(p.Upstream, pin.Kind(p.List), p.Name)
	return Change{pin.Change{Kind: pin.Kind(p.List), Name: p.Name, Was: was, Is: []mcp.Raw{pin.Canonical(p.Definition)}},
		more}
}

// Open reads the lock file, which may be missing.
func Open(cfg config.Config) (*Review, error) {
	lock, err := config.ReadLock(cfg)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", cfg.Pinning.File, err)
	}
	r := &Review{File: cfg.Pinning.File, lock: lock, collected: make(map[string]map[string]pin.Definition)}
	if err != nil {
		r.Fresh, r.lock = true, make(pin.Lock)
	}
	return r, nil
}

// Pinned returns a configuration with the upstreams of a review: those that are pinned, or all if
// none is.
func Pinned(cfg config.Config) config.Config {
	some := config.Pins(cfg)
	cfg.Upstreams = slices.Clone(cfg.Upstreams)
	for i := range cfg.Upstreams {
		if some && config.PinMode(cfg, cfg.Upstreams[i]) == pinning.Off {
			no := false
			cfg.Upstreams[i].Enabled = &no
		}
	}
	return cfg
}

// Drop removes upstreams that are not configured any more.
func (r *Review) Drop(cfg config.Config) {
	for _, name := range slices.Sorted(maps.Keys(r.lock)) {
		if !slices.Contains(cfg.UpstreamNames(), name) {
			r.Dropped = append(r.Dropped, name)
			delete(r.lock, name)
		}
	}
}

// Compare compares the collected definitions of an upstream with the approved ones. problem is why
// it could not be asked, "" if it could.
func (r *Review) Compare(upstream, problem string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	one := Upstream{Name: upstream, Problem: problem}
	if problem == "" {
		one.Found = len(r.collected[upstream])
		for _, change := range pin.Compare(r.lock[upstream], slices.Collect(maps.Values(r.collected[upstream]))) {
			one.Changes = append(one.Changes, Change{Change: change})
		}
	}
	r.Upstreams = append(r.Upstreams, one)
}

// Approve approves a change. Save writes it.
func (r *Review) Approve(upstream string, c Change) {
	if !c.more {
		r.lock.Approve(upstream, c.Change)
		return
	}
	for _, raw := range c.Is {
		r.lock.Add(upstream, pin.Definition{Kind: c.Kind, Name: c.Name, Raw: raw})
	}
}

// Save writes the lock file.
func (r *Review) Save() error { return r.lock.Write(r.File) }

// Collect takes a definition of an upstream, every time it comes. It may be called concurrently.
func (r *Review) Collect(upstream string, d pin.Definition) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.collected[upstream] == nil {
		r.collected[upstream] = make(map[string]pin.Definition)
	}
	r.collected[upstream][string(d.Kind)+"\x00"+d.Name+"\x00"+string(d.Raw)] = d
}
