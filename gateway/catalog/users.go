package catalog

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// Some upstreams get the user's own credential. What they offer may differ by user, so no user sees
// the lists of another: each has separate lists, which are fetched with the user's credential when
// the user calls, and merged with the shared ones.

const (
	// maxUsers bounds the users with lists in memory. Beyond that, the lists of the user seen
	// longest ago are dropped. A merged view of 500 tools takes some 200 kB.
	maxUsers = 500
	// userIdle is the time after which the lists of a user without a call are dropped.
	userIdle = 10 * time.Minute
	// userWait bounds the wait of a list for upstreams that are asked on behalf of its caller.
	userWait = 2 * time.Second
	// roundTime bounds one round of requests, which may outlive the call that began it.
	roundTime = 30 * time.Second
	// retryUser is the wait before a failed upstream is asked again for a user.
	retryUser = 10 * time.Second
)

// users holds the lists of per-user upstreams for each user.
type users struct {
	c       *Catalog
	sources []*source
	base    context.Context // of the rounds
	stop    context.CancelFunc

	mu     sync.Mutex // guards the fields below; never held over I/O
	all    *simplelru.LRU[userKey, *userView]
	closed bool
	rounds sync.WaitGroup // one for each round; grows only while not closed
}

// userKey identifies the owner of lists. It includes the client, because tokens of one user
// that two clients got may have different rights; and, where that can matter, what the
// client declares.
type userKey struct{ user, client, class string }

func (u *users) keyOf(c *mcp.Call) userKey {
	return userKey{c.Caller.User(), c.Caller.ClientID, u.classOf(c)}
}

// classOf returns the class of a client if some upstream may show something else to clients that
// declare less, else "".
func (u *users) classOf(c *mcp.Call) string {
	if !u.c.byClass {
		return ""
	}
	return classOf(c.Caps)
}

func newUsers(c *Catalog) *users {
	u := &users{c: c, all: newLRU[userKey, *userView](maxUsers)}
	u.base, u.stop = context.WithCancel(context.Background())
	return u
}

// run drops the lists of users who no longer call, until ctx ends. Then it ends all rounds
// and waits for them.
func (u *users) run(ctx context.Context) {
	ticker := time.NewTicker(userIdle / 10)
	defer ticker.Stop()
	for ctx.Err() == nil {
		select {
		case <-ticker.C:
			u.mu.Lock()
			u.sweep()
			u.mu.Unlock()
		case <-ctx.Done():
		}
	}
	u.mu.Lock()
	u.closed = true
	u.mu.Unlock()
	u.stop()
	u.rounds.Wait()
}

// sweep drops users who were not seen for too long. The map is ordered by when users were
// last seen. mu is held.
func (u *users) sweep() {
	for {
		_, oldest, ok := u.all.GetOldest()
		if !ok || time.Since(oldest.seen) < userIdle {
			return
		}
		u.all.RemoveOldest()
	}
}

// find returns the view of a caller. If there is none, it makes one if add is set, and
// otherwise returns nil.
func (u *users) find(call *mcp.Call, add bool) *userView {
	key := u.keyOf(call)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.sweep()
	who, ok := u.all.Get(key)
	if !ok {
		if !add {
			return nil
		}
		who = newUserView(u, key.class)
		u.all.Add(key, who)
	}
	who.seen = time.Now()
	return who
}

// view returns the snapshot of a caller, and the caller's audience.
func (u *users) view(call *mcp.Call) (*snapshot, *audience) {
	if !call.Aside {
		if who := u.find(call, false); who != nil {
			return who.view()
		}
	}
	return u.strangers(u.classOf(call))
}

// strangers returns the snapshot of users about which nothing is known.
func (u *users) strangers(class string) (*snapshot, *audience) {
	shared, of := u.c.classes.of(u.c.snap.Load(), mcp.Raw(class))
	a := of.unknown()
	return a.over(shared, func() map[int]sourceState {
		own := make(map[int]sourceState)
		for _, s := range u.sources {
			own[s.index] = sourceState{state: StateConnecting}
		}
		return own
	}), a
}

// look asks the upstreams that the caller may know of, if their answers are missing or out of date.
// It waits a little for the answers.
func (u *users) look(ctx context.Context, call *mcp.Call, sees visible) error {
	if call.Aside {
		return nil
	}
	who := u.find(call, true)
	rounds := who.begin(call.Caller, true, func(s *source) bool { return sees.has(s.index) })
	if len(rounds) == 0 {
		return nil
	}
	timer := time.NewTimer(userWait)
	defer timer.Stop()
	for _, r := range rounds {
		select {
		case <-r.done:
		case <-timer.C:
			timer.Reset(0)
			who.release(r)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// fetch asks one upstream, if necessary, and waits for its answer. The error says why something may
// be missing.
func (u *users) fetch(ctx context.Context, call *mcp.Call, from *source) error {
	if call.Aside {
		return nil
	}
	who := u.find(call, true)
	for _, r := range who.begin(call.Caller, false, func(s *source) bool { return s == from }) {
		select {
		case <-r.done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return who.failure(from)
}

// spawn runs a round, unless the catalog has ended.
func (u *users) spawn(round func()) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return false
	}
	u.rounds.Go(round)
	return true
}

// told takes an upstream's notice of a change for a user. It applies to all clients of the user,
// whichever of them received it.
func (u *users) told(s *source, caller mcp.Caller, kinds kindSet) {
	u.outdated(s, caller)
	u.c.hub.announce(s.index, kinds, caller.User())
}

func (u *users) outdated(s *source, caller mcp.Caller) {
	var clients []*userView
	user := caller.User()
	u.mu.Lock()
	for _, key := range u.all.Keys() {
		if key.user == user {
			who, _ := u.all.Peek(key)
			clients = append(clients, who)
		}
	}
	u.mu.Unlock()
	for _, who := range clients {
		who.outdated(s)
	}
}

// refresh lets an upstream be asked again for each user who calls. Listening clients hear that they
// should look.
func (u *users) refresh(s *source) {
	u.mu.Lock()
	all := u.all.Values()
	u.mu.Unlock()
	for _, who := range all {
		who.outdated(s)
	}
	u.c.hub.announce(s.index, everyKind, everyone)
}

// listen listens to an upstream for a listening call, in the call's session, until ctx
// ends.
func (u *users) listen(ctx context.Context, call *mcp.Call, s *source, kinds kindSet) {
	w := u.newWatch(s)
	w.as = *call
	w.as.ID = s.callID()
	w.told = func(kinds kindSet) { u.told(s, call.Caller, kinds) }
	again := false
	repeat(ctx, func() bool {
		err := w.listen(ctx, kinds, func() {
			if again {
				w.told(kinds) // changes may have been missed
			} else {
				u.outdated(s, call.Caller)
			}
		})
		again = true
		return !isMethodNotFound(err)
	})
}

// newWatch makes a watch for one user. Its owner sets the caller and the receivers of its
// results.
func (u *users) newWatch(s *source) *watch {
	return &watch{c: u.c, s: s, counted: true, state: sourceState{state: StateConnecting, since: time.Now()}}
}

// userView holds the lists of per-user upstreams for one user.
type userView struct {
	users *users
	class string    // see userKey
	seen  time.Time // when they called last; users.mu guards it
	lists audience

	mu      sync.Mutex    // guards the fields below; never held over I/O
	sources []*userSource // one for each per-user source
}

// userSource holds the lists of one upstream for one user.
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

// release stops waiting for a round.
func (who *userView) release(r *round) {
	who.mu.Lock()
	r.late = true
	who.mu.Unlock()
}

// outdated records that the lists of an upstream are no longer valid.
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
