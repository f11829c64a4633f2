package upstream

import (
	"slices"
	"sync"
)

// former are the Upstreams whose place one took, as long as they hold calls for which
// their users may still come back.
type former struct {
	mu  sync.Mutex // guards all
	all []*Upstream
}

func (f *former) init(before *Upstream) {
	if before != nil {
		f.all = append(before.former.busy(), before)
	}
}

// busy returns those that are not idle, and forgets the others.
func (f *former) busy() []*Upstream {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = slices.DeleteFunc(f.all, (*Upstream).Idle)
	return slices.Clone(f.all)
}

// of returns the one that holds a call, nil for none.
func (f *former) of(state string) *Upstream {
	for _, u := range f.busy() {
		if _, ok := u.parks.Find(state); ok {
			return u
		}
	}
	return nil
}

// Idle reports whether no call runs, waits for its turn or is put aside. Streams that
// stand do not count.
func (u *Upstream) Idle() bool {
	if running, waiting := u.admit.Load(); running > 0 || waiting > 0 || u.parks.Len() > 0 {
		return false
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, standing := range u.running {
		if !standing {
			return false
		}
	}
	return true
}
