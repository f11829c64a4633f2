package upstream

import (
	"slices"
	"sync"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// former holds the replaced Upstreams with calls that their users may still take up.
type former struct {
	mu  sync.Mutex // guards all
	all []*Upstream
}

// busy returns the Upstreams that are not idle, and forgets the others.
func (f *former) busy() []*Upstream {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = slices.DeleteFunc(f.all, (*Upstream).Idle)
	return slices.Clone(f.all)
}

// of returns the Upstream that holds a call, nil for none.
func (f *former) of(round mcp.Round) *Upstream {
	for _, u := range f.busy() {
		if u.stateful.Waits(round) {
			return u
		}
	}
	return nil
}
