package catalog

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// person is what per-user upstreams told one user.
type person struct {
	p    *people
	seen time.Time // when they called last; people.mu guards it

	mu     sync.Mutex // guards the fields below; never held over I/O
	own    []*own     // one for each per-user source
	merged *snapshot  // with what is shared; nil before anything is known
	over   *snapshot  // the shared snapshot that merged was made over, nil when own changed since
}

// own is what one upstream told one user.
type own struct {
	s     *source
	watch *watch // belongs to the round that runs
	known known
	round *round    // the one that runs, nil for none
	due   time.Time // when to ask again; zero when nothing is known that is still good
	moved bool      // the upstream said, since the round began, that something changed
	err   error     // why the last round failed
}

// round is one round of questions to an upstream, for which several requests may wait.
type round struct {
	done chan struct{}
	late bool // somebody did not wait for it; person.mu guards it
}

func newPerson(p *people) *person {
	who := &person{p: p}
	for _, s := range p.sources {
		o := &own{s: s, watch: p.newWatch(s)}
		o.watch.show = func(state known) { who.show(o, state) }
		// Not announced: it is asked right now, and whoever listens hears what differs.
		o.watch.told = func(kindSet) { who.outdated(s) }
		who.own = append(who.own, o)
	}
	return who
}

// view returns what is shared and their own, merged.
func (who *person) view() *snapshot {
	shared := who.p.c.snap.Load()
	who.mu.Lock()
	defer who.mu.Unlock()
	if !slices.ContainsFunc(who.own, func(o *own) bool { return o.known.heard }) {
		return who.p.strange()
	}
	if who.over != shared {
		who.merged = who.p.overlay(shared, func(i int) known { return who.own[i].known }, who.merged)
		who.over = shared
	}
	return who.merged
}

func (who *person) show(o *own, state known) {
	who.mu.Lock()
	defer who.mu.Unlock()
	o.known, who.over = state, nil
}

// begin returns the rounds that are to be waited for: those that run, and those that
// have to begin. Who is in a hurry does not wait for one that was too slow for somebody
// else already.
func (who *person) begin(caller mcp.Caller, hurry bool, wanted func(*source) bool) (rounds []*round) {
	who.mu.Lock()
	defer who.mu.Unlock()
	for _, o := range who.own {
		if !wanted(o.s) {
			continue
		}
		if o.round == nil && !o.due.After(time.Now()) {
			r := &round{done: make(chan struct{})}
			if who.p.spawn(func() { who.ask(o, r, caller) }) {
				o.round, o.moved = r, false
			}
		}
		if o.round != nil && !(hurry && o.round.late) {
			rounds = append(rounds, o.round)
		}
	}
	return rounds
}

// ask asks an upstream for all that it offers this caller.
func (who *person) ask(o *own, r *round, caller mcp.Caller) {
	ctx, cancel := context.WithTimeout(mcp.WithCaller(who.p.base, caller), ownTime)
	defer cancel()
	w := o.watch
	// No client's session: nothing is declared in it, and it ends with none. The upstream
	// has one for each user.
	w.as = mcp.Call{ID: o.s.callID(), Caller: caller}
	before, saw := w.state.shelves, who.view()
	err := w.discover(ctx)
	if err == nil {
		err = w.fetch(ctx, w.state.offers.kinds)
	}
	if err != nil && who.p.base.Err() == nil {
		w.fail(err)
	}
	changed := differ(before, w.state.shelves)

	who.mu.Lock()
	o.round, o.err = nil, err
	switch {
	case o.moved:
		o.due = time.Time{}
	case err != nil:
		o.due = time.Now().Add(retryOwn)
	default:
		o.due = time.Now().Add(w.untilDue())
	}
	if r.late { // it was answered without what has come now
		changed |= w.state.offers.kinds
	}
	who.mu.Unlock()
	close(r.done)
	who.p.c.hub.announce(o.s.index, changed, caller.User())
	if changed&setOf(tools, prompts) != 0 { // on which skills of others may depend
		for i, kinds := range who.view().changed(saw) {
			who.p.c.hub.announce(i, kinds&setOf(skills), caller.User())
		}
	}
}

// leave goes on without waiting for a round.
func (who *person) leave(r *round) {
	who.mu.Lock()
	r.late = true
	who.mu.Unlock()
}

// outdated says that what an upstream told is not good any more.
func (who *person) outdated(s *source) {
	who.mu.Lock()
	defer who.mu.Unlock()
	for _, o := range who.own {
		if o.s == s {
			o.due, o.moved = time.Time{}, true
		}
	}
}

// failure returns why the last round at an upstream failed.
func (who *person) failure(s *source) error {
	who.mu.Lock()
	defer who.mu.Unlock()
	for _, o := range who.own {
		if o.s == s {
			return o.err
		}
	}
	return nil
}

// differ returns the lists of which both are known and are not the same.
func differ(a, b [kinds]*shelf) (changed kindSet) {
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
	return errors.Is(err, &mcp.Error{Code: mcp.CodeMethodNotFound})
}
