package catalog

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

const (
	// refreshAfter is the time until a list is fetched again if its upstream does not say how long
	// it is valid; the actual time is a random bit shorter.
	refreshAfter = 5 * time.Minute
	// minRefresh keeps a short ttlMs from becoming a polling interval.
	minRefresh = 30 * time.Second
	// retryList is the wait before a list that failed alone is fetched again.
	retryList = time.Minute
	// keepLists is the time for which the last good lists of a failing upstream are served.
	keepLists = 10 * time.Minute
	// ackWait bounds the wait of lists for listening to begin, so that no change falls in between.
	ackWait = 500 * time.Millisecond
	// guard bounds each request of the watch, in case the upstream's own limits do not.
	guard = 2 * time.Minute
	// steady is the time for which contact must last before the next pause is short again.
	steady = time.Minute
)

// lostWatch ends follow: the upstream no longer reports changes, so everything has to be fetched
// again.
type lostWatch struct{ cause error }

func (l *lostWatch) Error() string { return fmt.Sprintf("listening ended: %v", l.cause) }

// errAgain ends follow for Refresh.
var errAgain = errors.New("everything is fetched again")

// watch keeps the state of one source up to date. Only the goroutine that runs it uses its
// fields.
type watch struct {
	c       *Catalog
	s       *source
	as      mcp.Call          // the caller for its calls
	show    func(sourceState) // receives the state whenever that changes
	told    func(kindSet)     // receives, at any time, the changes that the upstream reports
	state   sourceState
	counted bool              // the first answer or failure was reported
	cut     bool              // a list is longer than it may be
	quiet   bool              // it is not the upstream's own state
	aside   map[string]*watch // the looks as classes of clients that declare less

	calm   calm
	lost   string           // why there is no contact, "" while there is
	lostTo failure.Name     // the name of that failure
	since  time.Time        // of lost
	broken [kinds]breakdown // lists that fail individually
	due    [kinds]time.Time // when to fetch again
}

type breakdown struct {
	why   string
	name  failure.Name
	since time.Time
}

// newWatch makes the gateway's own watch, for all callers.
func newWatch(c *Catalog, s *source) *watch {
	return &watch{
		c: c, s: s, as: mcp.Call{ID: s.callID()},
		show:  func(state sourceState) { c.publisher.publish(s.index, state) },
		told:  s.changes.add,
		state: c.snap.Load().states[s.index], counted: s.inherits,
	}
}

// newPause makes the pauses between attempts: half a second at first, a minute in the end,
// with jitter.
func newPause() *backoff.ExponentialBackOff {
	return &backoff.ExponentialBackOff{InitialInterval: 500 * time.Millisecond, RandomizationFactor: 0.5, Multiplier: 2,
		MaxInterval: time.Minute}
}

// echoTime is the time after a fetch of lists within which a notice may be an answer to it.
const echoTime = 500 * time.Millisecond

// calm spaces out fetches after notices if an upstream announces a change whenever it is asked. The
// zero value is ready to use.
type calm struct {
	pause *backoff.ExponentialBackOff // nil for none
	until time.Time                   // notices wait until then
	asked time.Time                   // when lists were fetched last
}

// echoes reports whether a notice taken now may only be an echo of the last fetch.
func (c *calm) echoes() bool {
	return time.Since(c.asked) < echoTime || time.Since(c.until) < echoTime/5
}

// saw records the result of a notice: nothing says that it was an echo and showed nothing new.
func (c *calm) saw(nothing bool) {
	c.asked = time.Now()
	if !nothing {
		c.pause = nil
		return
	}
	if c.pause == nil {
		c.pause = newPause()
	}
	c.until = c.asked.Add(c.pause.NextBackOff())
}

// repeat runs work, and runs it again after a pause whenever it ends, until ctx ends or
// work returns false.
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

// run follows the upstream, and starts again whenever contact is lost, until ctx ends.
func (w *watch) run(ctx context.Context) {
	pause := newPause()
	for {
		start := time.Now()
		err := w.follow(ctx)
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, errAgain) {
			pause.Reset()
			continue
		}
		if time.Since(start) >= steady {
			pause.Reset()
		}
		w.fail(err)
		w.sleep(ctx, pause.NextBackOff())
	}
}

// follow fetches everything from the upstream, and then whatever changes. It returns an
// error when contact is lost or ctx ends.
func (w *watch) follow(ctx context.Context) error {
	w.s.changes.forget() // everything is fetched now
	w.s.try(true)
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
			ended <- err // the lists can be served all the same
		case <-ctx.Done():
		}
		timer.Stop()
	}
	err := w.fetch(ctx, w.state.offers.kinds)
	if err == nil {
		w.lookAgain(ctx, w.state.offers.kinds)
	}
	w.calm.asked = time.Now()
	w.tellTried()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for err == nil {
		var now, told kindSet
		echo := false
		before, notices, due := w.state, w.s.changes.some(), w.untilDue()
		if rest := time.Until(w.calm.until); rest > 0 {
			notices, due = nil, min(due, rest)
		}
		timer.Reset(due)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.s.again:
			return errAgain
		case cause := <-ended:
			if !mcp.HasCode(cause, mcp.CodeMethodNotFound) {
				return &lostWatch{cause}
			}
			// The upstream does not listen after all: its lists are fetched at intervals.
		case <-acked: // late: a change may have been missed
			acked, now = nil, announced
		case <-notices:
			echo = w.calm.echoes()
			told = w.s.changes.take(ctx)
			now = told
		case <-timer.C:
			now = w.dueNow()
		case <-w.s.classes.wake:
			w.lookAsNew(ctx)
		}
		if err = w.fetch(ctx, now); err == nil {
			w.lookAgain(ctx, now)
		}
		// The upstream may mean more than the list shows, so its notice goes to listeners
		// even if nothing looks different.
		w.c.hub.announce(w.s.index, told, everyone)
		switch {
		case told != 0:
			w.calm.saw(echo && w.state.shows(&before))
		case now&w.state.offers.kinds != 0:
			w.calm.asked = time.Now()
		}
	}
	return err
}

// discover fetches the upstream's capabilities.
func (w *watch) discover(ctx context.Context) error {
	reply, err := w.request(ctx, mcp.MethodDiscover, nil)
	if err != nil {
		return err
	}
	if !reply.Result.IsObject() {
		return mcp.Errorf(failure.UpstreamBadAnswer, "upstream %s answered server/discover without a result",
			w.s.naming.upstream)
	}
	capabilities, _ := reply.Result.Member("capabilities")
	instructions, _ := reply.Result.Member("instructions")
	w.state.heard, w.state.offers, w.state.instructions = true, readOffers(capabilities), instructions.Text()
	if w.state.plainSkills {
		w.state.offers.kinds |= setOf(skills) // until its resources show otherwise
	}
	for k := range kinds {
		if !w.state.offers.kinds.has(k) {
			w.state.without(k)
			w.broken[k] = breakdown{}
		} else if old := w.state.lists[k]; old != nil && !old.offered {
			w.state.lists[k] = nil // it is offered now, but has not come yet
		}
	}
	w.lost, w.since = "", time.Time{}
	w.publish()
	return nil
}

// fetch fetches lists and publishes each. The error means that contact is lost; lists that
// fail individually are fetched again later.
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
			public := newPublicList(w.c.plan, w.s.naming, k, list)
			if k == tools {
				public.withTasks(w.state.offers.coreTasks)
			}
			w.state.take(k, public)
			w.broken[k], w.due[k] = breakdown{}, dueAt(list.expires)
		case mcp.HasCode(err, mcp.CodeMethodNotFound):
			w.state.without(k)
			w.broken[k], w.due[k] = breakdown{}, dueAt(time.Time{})
		default:
			w.breakDown(k, err)
			if lostContact(err) { // discover may still be answered, from memory
				lost = err
			}
		}
		w.publish()
	}
	return lost
}

func dueAt(expires time.Time) time.Time {
	now := time.Now()
	if expires.IsZero() { // unknown
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
