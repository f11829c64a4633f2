package catalog

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

const (
	// refreshAfter is when a list is fetched again whose upstream does not say how
	// long it is good, a little earlier at random.
	refreshAfter = 5 * time.Minute
	// minRefresh keeps a short ttlMs from becoming a polling interval.
	minRefresh = 30 * time.Second
	// retryList is when a list is tried again that failed while the others came.
	retryList = time.Minute
	// keepLists is how long the last good lists of an upstream that fails are served.
	keepLists = 10 * time.Minute
	// ackWait is how long lists wait for the listening to begin, so that no change
	// falls between the two.
	ackWait = 500 * time.Millisecond
	// guard bounds each request of the watch, should the upstream's own limits not.
	guard = 2 * time.Minute
	// steady is how long contact must have lasted for the next pause to be short again.
	steady = time.Minute
)

// lostWatch ends following: the upstream does not tell about changes any more, so
// whatever is known of it has to be asked again.
type lostWatch struct{ cause error }

func (l *lostWatch) Error() string { return fmt.Sprintf("listening ended: %v", l.cause) }

// watch keeps what is known of one source up to date. All of it belongs to the one
// goroutine that runs it.
type watch struct {
	c       *Catalog
	s       *source
	as      mcp.Call          // on whose behalf it asks: whose each of its calls is
	show    func(sourceState) // takes what is known whenever that changes
	told    func(kindSet)     // takes at any time what the upstream says has changed
	state   sourceState
	counted bool // the first answer or failure was told

	lost   string           // why there is no contact, "" while there is
	since  time.Time        // of lost
	broken [kinds]breakdown // lists that fail by themselves
	due    [kinds]time.Time // when to fetch again
}

type breakdown struct {
	why   string
	since time.Time
}

// newWatch makes the watch of the gateway's own, for all callers.
func newWatch(c *Catalog, s *source) *watch {
	return &watch{
		c: c, s: s, as: mcp.Call{ID: s.callID()},
		show:  func(state sourceState) { c.publish(s, state) },
		told:  s.changes.add,
		state: c.snap.Load().states[s.index], counted: s.inherits,
	}
}

// newPause makes the pauses between attempts: half a second at first, a minute in
// the end, with jitter.
func newPause() *backoff.ExponentialBackOff {
	return &backoff.ExponentialBackOff{InitialInterval: 500 * time.Millisecond, RandomizationFactor: 0.5, Multiplier: 2, MaxInterval: time.Minute}
}

// repeat does work that lasts, and does it again after a pause whenever it ends, until ctx
// ends or work reports that it is over.
func repeat(ctx context.Context, work func() (more bool)) {
	pause := newPause()
	for {
		start := time.Now()
		if !work() || ctx.Err() != nil {
			return
		}
		if time.Since(start) >= steady {
			pause.Reset()
		}
		waitFor(ctx, pause.NextBackOff())
	}
}

// run follows the upstream, and begins anew whenever contact is lost, until ctx ends.
func (w *watch) run(ctx context.Context) {
	pause := newPause()
	for {
		start := time.Now()
		err := w.follow(ctx)
		if ctx.Err() != nil {
			return
		}
		if time.Since(start) >= steady {
			pause.Reset()
		}
		w.fail(err)
		w.sleep(ctx, pause.NextBackOff())
	}
}

// follow asks the upstream for all there is, and then for what changes. It returns
// an error when contact is lost or ctx ends.
func (w *watch) follow(ctx context.Context) error {
	w.s.changes.forget() // all is fetched now
	if err := w.discover(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	acked, ended := make(chan struct{}), make(chan error, 1)
	announced := w.state.offers.announces
	if announced != 0 {
		wg.Go(func() { ended <- w.listen(ctx, announced, sync.OnceFunc(func() { close(acked) })) })
		timer := time.NewTimer(ackWait)
		select {
		case <-acked:
			acked = nil
		case <-timer.C:
		case err := <-ended:
			ended <- err // there is something to serve all the same
		case <-ctx.Done():
		}
		timer.Stop()
	}
	err := w.fetch(ctx, w.state.offers.kinds)
	w.tellFirst()
	timer := time.NewTimer(w.untilDue())
	defer timer.Stop()
	for err == nil {
		var now, told kindSet
		select {
		case <-ctx.Done():
			return ctx.Err()
		case cause := <-ended:
			if !errors.Is(cause, &mcp.Error{Code: mcp.CodeMethodNotFound}) {
				return &lostWatch{cause}
			}
			// It does not listen after all: its lists are asked for from time to time.
		case <-acked: // late, so that a change may have been missed
			acked, now = nil, announced
		case <-w.s.changes.some():
			told = w.s.changes.take(ctx)
			now = told
		case <-timer.C:
			now = w.dueNow()
		}
		err = w.fetch(ctx, now)
		// The upstream may mean more than the list shows: its word goes on to listeners
		// even where nothing looks different.
		w.c.hub.announce(w.s.index, told, everyone)
		timer.Reset(w.untilDue())
	}
	return err
}

// discover asks what the upstream can.
func (w *watch) discover(ctx context.Context) error {
	reply, err := w.request(ctx, mcp.MethodDiscover, nil)
	if err != nil {
		return err
	}
	if !reply.Result.IsObject() {
		return mcp.Errorf(mcp.CodeUpstreamBadAnswer, "upstream %s answered server/discover without a result", w.s.naming.upstream)
	}
	capabilities, _ := reply.Result.Member("capabilities")
	instructions, _ := reply.Result.Member("instructions")
	w.state.heard, w.state.offers, w.state.instructions = true, readOffers(capabilities), instructions.Text()
	if w.state.plainSkills {
		w.state.offers.kinds |= setOf(skills) // until its resources tell otherwise
	}
	for k := range kinds {
		if !w.state.offers.kinds.has(k) {
			w.state.lists[k], w.broken[k] = &publicList{}, breakdown{}
		} else if old := w.state.lists[k]; old != nil && !old.offered {
			w.state.lists[k] = nil // it has one now, and it is still to come
		}
	}
	w.lost, w.since = "", time.Time{}
	w.publish()
	return nil
}

// fetch fetches lists and publishes each. The error means that contact is lost;
// lists that fail by themselves are tried again later.
func (w *watch) fetch(ctx context.Context, which kindSet) error {
	var lost error
	for k := range kinds {
		if k == skills && which.has(resources) && w.findPlainSkills() {
			which |= setOf(skills)
		}
		if !which.has(k) || !w.state.offers.kinds.has(k) {
			continue
		}
		list, err := fetchList(ctx, w, k)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			w.state.lists[k], w.broken[k] = newPublicList(w.c.plan, w.s.naming, k, list), breakdown{}
			if k == tools {
				w.state.lists[k].withTasks(w.state.offers.coreTasks)
			}
			w.due[k] = dueAt(list.expires)
		case errors.Is(err, &mcp.Error{Code: mcp.CodeMethodNotFound}):
			w.state.lists[k], w.broken[k] = &publicList{}, breakdown{}
			w.due[k] = dueAt(time.Time{})
		default:
			w.breakDown(k, err)
			if lostContact(err) { // though discover may be answered, from memory
				lost = err
			}
		}
		w.publish()
	}
	return lost
}

func dueAt(expires time.Time) time.Time {
	now := time.Now()
	if !expires.After(now) { // unknown, or never fresh
		return now.Add(refreshAfter - rand.N(refreshAfter/10))
	}
	if earliest := now.Add(minRefresh); expires.Before(earliest) {
		return earliest
	}
	return expires
}

func (w *watch) untilDue() time.Duration {
	next := time.Now().Add(refreshAfter)
	for k := range kinds {
		if w.state.offers.kinds.has(k) && w.due[k].Before(next) {
			next = w.due[k]
		}
	}
	return time.Until(next)
}

func (w *watch) dueNow() (now kindSet) {
	for k := range kinds {
		if !w.due[k].After(time.Now()) {
			now |= setOf(k)
		}
	}
	return now
}
