package catalog

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/gatehouse-mcp/gatehouse/gateway/catalog/classes"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// Some upstreams get the user's own credential. What they offer may differ by user, so no
// user sees what another user was told: each has separate lists, which are fetched with the
// user's credential when the user calls, and merged with the shared ones.

const (
	// maxUsers bounds how many users' lists are kept. Beyond that, the lists of the user
	// seen longest ago are dropped. A merged view of 500 tools takes some 200 kB.
	maxUsers = 500
	// userIdle is how long the lists of a user are kept without a call.
	userIdle = 10 * time.Minute
	// userWait is how long a list waits for upstreams that are asked on behalf of its
	// caller.
	userWait = 2 * time.Second
	// roundTime bounds one round of requests, which may outlive the call that began it.
	roundTime = 30 * time.Second
	// retryUser is how long a failed upstream is not asked again for a user.
	retryUser = 10 * time.Second
)

// users holds what per-user upstreams told each user.
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

// classOf is classes.ClassOf where some upstream may show something else to clients that declare
// less, else "".
func (u *users) classOf(c *mcp.Call) string {
	if !u.c.byClass {
		return ""
	}
	return classes.Of(c.Caps)
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

// view returns what a caller sees, and the audience that the caller is.
func (u *users) view(call *mcp.Call) (*snapshot, *audience) {
	if !call.Aside {
		if who := u.find(call, false); who != nil {
			return who.view()
		}
	}
	return u.strangers(u.classOf(call))
}

// strangers returns what users see of whom nothing is known.
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

// look asks those upstreams that the caller may know of and whose answers are missing or
// out of date. It waits a little for the answers.
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
			who.leave(r)
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

// told handles an upstream's notice that something has changed for a user. It applies to
// all clients of the user, whichever of them received it.
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

// refresh has an upstream asked again for each user who calls. Clients that listen hear that they
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
