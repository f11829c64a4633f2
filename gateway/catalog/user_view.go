package catalog

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// userView is what per-user upstreams told one user.
type userView struct {
	users *users
	class string    // see userKey
	seen  time.Time // when they called last; users.mu guards it
	lists audience

	mu      sync.Mutex    // guards the fields below; never held over I/O
	sources []*userSource // one for each per-user source
}

// userSource is what one upstream told one user.
type userSource struct {
	source  *source
	watch   *watch // belongs to the running round
	state   sourceState
	round   *round    // the running round, nil for none
	due     time.Time // when to ask again; zero when nothing known is valid
	changed bool      // the upstream reported a change since the round began
	err     error     // why the last round failed
}

// round is one round of requests to an upstream, for which several calls may wait.
type round struct {
	done chan struct{}
	late bool // some caller did not wait for it; userView.mu guards it
}

func newUserView(p *users, class string) *userView {
	who := &userView{users: p, class: class}
	for _, s := range p.sources {
		o := &userSource{source: s, watch: p.newWatch(s)}
		o.watch.show = func(state sourceState) { who.show(o, state) }
		// Not announced: the upstream is being asked right now, and listeners hear what
		// differs.
		o.watch.told = func(kindSet) { who.outdated(s) }
		who.sources = append(who.sources, o)
	}
	return who
}

// view returns the shared lists and the user's own, merged.
func (who *userView) view() (*snapshot, *audience) {
	who.mu.Lock()
	heard := slices.ContainsFunc(who.sources, func(o *userSource) bool { return o.state.heard })
	who.mu.Unlock()
	if !heard {
		return who.users.strangers(who.class)
	}
	shared, _ := who.users.c.classes.of(who.users.c.snap.Load(), mcp.Raw(who.class))
	return who.lists.over(shared, func() map[int]sourceState {
		who.mu.Lock()
		defer who.mu.Unlock()
		own := make(map[int]sourceState)
		for _, o := range who.sources {
			own[o.source.index] = o.state
		}
		return own
	}), &who.lists
}

func (who *userView) show(o *userSource, state sourceState) {
	who.mu.Lock()
	o.state = state
	who.mu.Unlock()
	who.lists.renew()
}

// begin returns the rounds to wait for: running ones, and new ones that are due. A caller
// in a hurry does not wait for a round that was too slow for another caller.
func (who *userView) begin(caller mcp.Caller, hurry bool, wanted func(*source) bool) (rounds []*round) {
	who.mu.Lock()
	defer who.mu.Unlock()
	for _, o := range who.sources {
		if !wanted(o.source) {
			continue
		}
		if o.round == nil && !o.due.After(time.Now()) {
			r := &round{done: make(chan struct{})}
			if who.users.spawn(func() { who.refresh(o, r, caller) }) {
				o.round, o.changed = r, false
			}
		}
		if o.round != nil && !(hurry && o.round.late) {
			rounds = append(rounds, o.round)
		}
	}
	return rounds
}

// refresh asks an upstream for everything that it offers this caller.
func (who *userView) refresh(o *userSource, r *round, caller mcp.Caller) {
	ctx, cancel := context.WithTimeout(mcp.WithCaller(who.users.base, caller), roundTime)
	defer cancel()
	w := o.watch
	// The call has no client session, and it ends with none. The upstream keeps one session
	// for each user and class.
	w.as = mcp.Call{ID: o.source.callID(), Caller: caller}
	if o.source.byClass {
		w.as.Caps = mcp.Raw(who.class)
	}
	before := w.state.lists
	saw, _ := who.view()
	err := w.discover(ctx)
	if err == nil {
		err = w.fetch(ctx, w.state.offers.kinds)
	}
	if err != nil && who.users.base.Err() == nil {
		w.fail(err)
	}
	changed := differ(before, w.state.lists)

	who.mu.Lock()
	o.round, o.err = nil, err
	switch {
	case o.changed:
		o.due = time.Time{}
	case err != nil:
		o.due = time.Now().Add(retryUser)
	default:
		o.due = time.Now().Add(w.untilDue())
	}
	if r.late { // a caller was answered without the new lists
		changed |= w.state.offers.kinds
	}
	who.mu.Unlock()
	close(r.done)
	who.users.c.hub.announce(o.source.index, changed, caller.User())
	if changed&setOf(tools, prompts) != 0 { // skills of other upstreams may depend on these
		now, _ := who.view()
		for i, kinds := range now.changed(saw) {
			who.users.c.hub.announce(i, kinds&setOf(skills), caller.User())
		}
	}
}

// leave stops waiting for a round.
func (who *userView) leave(r *round) {
	who.mu.Lock()
	r.late = true
	who.mu.Unlock()
}

// outdated records that what an upstream told is no longer valid.
func (who *userView) outdated(s *source) {
	who.mu.Lock()
	defer who.mu.Unlock()
	for _, o := range who.sources {
		if o.source == s {
			o.due, o.changed = time.Time{}, true
		}
	}
}

// failure returns why the last round at an upstream failed.
func (who *userView) failure(s *source) error {
	who.mu.Lock()
	defer who.mu.Unlock()
	for _, o := range who.sources {
		if o.source == s {
			return o.err
		}
	}
	return nil
}

// differ returns the lists that are known in both and differ.
func differ(a, b [kinds]*publicList) (changed kindSet) {
	for k := range kinds {
		if a[k] != nil && b[k] != nil && !slices.EqualFunc(a[k].entries, b[k].entries, func(a, b entry) bool {
			return a.item.Name == b.item.Name && bytes.Equal(a.item.Raw, b.item.Raw)
		}) {
			changed |= setOf(k)
		}
	}
	return changed
}

func isMethodNotFound(err error) bool {
	return mcp.HasCode(err, mcp.CodeMethodNotFound)
}
