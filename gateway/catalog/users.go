package catalog

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// Some upstreams see the user's own credential. What they offer may differ by user, so
// nobody is shown what another one was told: each user has lists of their own, asked
// for with their credential when they call, and merged with what is shared.

const (
	// maxPeople bounds of how many users lists are kept; beyond, who was not seen for
	// the longest time is asked for anew. A merged view of 500 tools takes some 200 kB.
	maxUsers = 500
	// peopleIdle is how long the lists of a user are kept who does not call.
	userIdle = 10 * time.Minute
	// ownWait is how long a list waits for upstreams that are asked on its caller's
	// behalf.
	userWait = 2 * time.Second
	// ownTime bounds one round of questions, which may outlive the request that began it.
	roundTime = 30 * time.Second
	// retryOwn is how long an upstream that failed is not asked again for a user.
	retryUser = 10 * time.Second
)

// people keeps what per-user upstreams told each user.
type users struct {
	c       *Catalog
	sources []*source
	base    context.Context // of the rounds of questions
	stop    context.CancelFunc

	mu        sync.Mutex // guards the fields below; never held over I/O
	all       *simplelru.LRU[userKey, *userView]
	closed    bool
	newcomers *snapshot      // for users of whom nothing is known
	over      *snapshot      // the shared snapshot that strangers was made over
	rounds    sync.WaitGroup // one for each round; grows only while not closed
}

// userKey says whose lists they are: the tokens of one user that two clients got may
// be good for different things.
type userKey struct{ user, client string }

func keyOf(c mcp.Caller) userKey { return userKey{c.User(), c.ClientID} }

func newUsers(c *Catalog) *users {
	all, err := simplelru.NewLRU[userKey, *userView](maxUsers, nil)
	if err != nil {
		panic(err) // its size is a constant
	}
	p := &users{c: c, all: all}
	p.base, p.stop = context.WithCancel(context.Background())
	return p
}

// run drops the lists of users who do not call any more, until ctx ends, and then ends
// all rounds and waits for them.
func (p *users) run(ctx context.Context) {
	ticker := time.NewTicker(userIdle / 10)
	defer ticker.Stop()
	for ctx.Err() == nil {
		select {
		case <-ticker.C:
			p.mu.Lock()
			p.sweep()
			p.mu.Unlock()
		case <-ctx.Done():
		}
	}
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.stop()
	p.rounds.Wait()
}

// sweep is called with mu held. Who was seen last stands last.
func (p *users) sweep() {
	for {
		_, oldest, ok := p.all.GetOldest()
		if !ok || time.Since(oldest.seen) < userIdle {
			return
		}
		p.all.RemoveOldest()
	}
}

// find returns the person of a caller, nil for a stranger, unless one is to be made.
func (p *users) find(caller mcp.Caller, add bool) *userView {
	key := keyOf(caller)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sweep()
	who, ok := p.all.Get(key)
	if !ok {
		if !add {
			return nil
		}
		who = newUserView(p)
		p.all.Add(key, who)
	}
	who.seen = time.Now()
	return who
}

// view returns what is known for a caller.
func (p *users) view(caller mcp.Caller) *snapshot {
	if who := p.find(caller, false); who != nil {
		return who.view()
	}
	return p.newcomer()
}

// strange returns what there is for a user of whom nothing is known.
func (p *users) newcomer() *snapshot {
	shared := p.c.snap.Load()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over != shared {
		p.newcomers, p.over = p.overlay(shared, func(int) sourceState { return sourceState{state: StateConnecting} }, p.newcomers), shared
	}
	return p.newcomers
}

// overlay puts what per-user upstreams tell one user into a shared snapshot.
func (p *users) overlay(shared *snapshot, own func(i int) sourceState, previous *snapshot) *snapshot {
	states := append([]sourceState(nil), shared.states...)
	for i, s := range p.sources {
		states[s.index] = own(i)
	}
	return build(p.c.plan, states, previous)
}

// look asks the upstreams that the caller may know of for what has to be asked, waits
// a little for the answers and returns what there is.
func (p *users) look(ctx context.Context, caller mcp.Caller, sees visible) (*snapshot, error) {
	who := p.find(caller, true)
	rounds := who.begin(caller, true, func(s *source) bool { return sees.has(s.index) })
	if len(rounds) == 0 {
		return who.view(), nil
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
			return nil, ctx.Err()
		}
	}
	return who.view(), nil
}

// fetch asks one upstream, if it has to be asked, and waits for its answer. With what
// there is then it returns why there may be nothing.
func (p *users) fetch(ctx context.Context, caller mcp.Caller, from *source) (*snapshot, error) {
	who := p.find(caller, true)
	for _, r := range who.begin(caller, false, func(s *source) bool { return s == from }) {
		select {
		case <-r.done:
		case <-ctx.Done():
			return who.view(), ctx.Err()
		}
	}
	return who.view(), who.failure(from)
}

// spawn runs a round of questions, unless the catalog has ended.
func (p *users) spawn(round func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.rounds.Go(round)
	return true
}

// told takes what an upstream says has changed for a user: whatever client of theirs
// heard it, all of them ask again.
func (p *users) told(s *source, caller mcp.Caller, kinds kindSet) {
	p.outdated(s, caller)
	p.c.hub.announce(s.index, kinds, caller.User())
}

func (p *users) outdated(s *source, caller mcp.Caller) {
	var clients []*userView
	user := caller.User()
	p.mu.Lock()
	for _, key := range p.all.Keys() {
		if key.user == user {
			who, _ := p.all.Peek(key)
			clients = append(clients, who)
		}
	}
	p.mu.Unlock()
	for _, who := range clients {
		who.outdated(s)
	}
}

// follow listens to an upstream for a call that listens, in its session, until ctx
// ends.
func (p *users) listen(ctx context.Context, call *mcp.Call, s *source, kinds kindSet) {
	w := p.newWatch(s)
	w.as = *call
	w.as.ID = s.callID()
	w.told = func(kinds kindSet) { p.told(s, call.Caller, kinds) }
	pause := newPause()
	for again := false; ; again = true {
		start := time.Now()
		err := w.listen(ctx, kinds, func() {
			if again {
				w.told(kinds) // while nobody listened
			} else {
				p.outdated(s, call.Caller)
			}
		})
		if ctx.Err() != nil || isMethodNotFound(err) {
			return
		}
		if time.Since(start) >= steady {
			pause.Reset()
		}
		waitFor(ctx, pause.NextBackOff())
	}
}

// newWatch makes a watch for one user. Its owner says for whom it asks, and who is told.
func (p *users) newWatch(s *source) *watch {
	return &watch{c: p.c, s: s, counted: true, state: sourceState{state: StateConnecting, since: time.Now()}}
}
