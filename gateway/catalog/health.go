package catalog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// breakDown records that a list fails; the last good one is served for a while.
func (w *watch) breakDown(k kind, err error) {
	now := time.Now()
	if w.broken[k].why == "" {
		w.broken[k].since = now
	}
	w.broken[k].why = fmt.Sprintf("%s: %s", k.method(), mcp.Why(err))
	w.broken[k].name = mcp.FailureOf(err)
	w.due[k] = now.Add(retryList)
	if now.Sub(w.broken[k].since) >= keepLists {
		w.state.drop(k)
		w.state.unlook(w.s)
	}
}

// drop forgets a list, but for the names in it.
func (s *sourceState) drop(k kind) {
	if s.lists[k] != nil {
		s.former[k], s.lists[k] = s.lists[k], nil
	}
}

// unlook forgets the lists of a source for classes of clients.
func (k *sourceState) unlook(at *source) {
	k.classes, k.halfSeen = nil, at.byClass && at.users == nil
}

// lostContact distinguishes failures of the whole upstream from those of one list.
func lostContact(err error) bool {
	e, ok := errors.AsType[*mcp.Error](err)
	if !ok {
		return true
	}
	switch e.Code {
	case mcp.CodeUpstreamUnreachable, mcp.CodeUpstreamAuthFailed, mcp.CodeUpstreamSessionLost, mcp.CodeUpstreamTimeout:
		return true
	}
	return false
}

// fail records why following ended. If the upstream merely stopped sending changes, this is
// not a failure yet: the next attempt will show.
func (w *watch) fail(err error) {
	if lost, ok := errors.AsType[*lostWatch](err); ok {
		w.c.log.LogAttrs(context.Background(), slog.LevelInfo, "upstream stopped telling of changes",
			slog.String("upstream", w.s.naming.upstream), slog.Any("cause", lost.cause))
		return
	}
	if w.lost == "" {
		w.since = time.Now()
	}
	w.lost, w.lostTo = mcp.Why(err), mcp.FailureOf(err)
	w.dropStale()
	w.publish()
	w.tellTried()
}

// sleep waits for the next attempt; lists that become too old in the meantime are dropped.
func (w *watch) sleep(ctx context.Context, pause time.Duration) {
	end := time.Now().Add(pause)
	if w.lost != "" {
		if drop := w.since.Add(keepLists); drop.After(time.Now()) && drop.Before(end) {
			if w.rest(ctx, time.Until(drop)) {
				return
			}
			if w.dropStale() {
				w.publish()
			}
		}
	}
	w.rest(ctx, time.Until(end))
}

// rest waits, and reports whether Refresh has ended that.
func (w *watch) rest(ctx context.Context, d time.Duration) (again bool) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-w.s.again:
		return true
	}
	return false
}

// dropStale drops the lists of an upstream that has failed for too long, that an operator has
// disabled, or at which the user has no account any more.
func (w *watch) dropStale() (dropped bool) {
	if time.Since(w.since) < keepLists && w.lostTo != failure.UpstreamDisabled && w.lostTo != failure.SignInNeeded {
		return false
	}
	for k, s := range w.state.lists {
		if s != nil && s.offered {
			w.state.drop(kind(k))
			dropped = true
		}
	}
	w.state.unlook(w.s)
	w.aside = nil
	return dropped
}

// publish makes the state visible to clients.
func (w *watch) publish() {
	was, wasCut := w.state.state, w.cut
	w.state.state, w.state.failure, w.state.failed = StateUp, w.lost, w.lostTo
	for _, b := range w.broken {
		if w.state.failure == "" {
			w.state.failure, w.state.failed = b.why, b.name
		}
	}
	if w.state.failure != "" {
		w.state.state = StateDown
		for _, s := range w.state.lists {
			if s != nil && s.offered {
				w.state.state = StateFailing
			}
		}
	}
	cut := w.state.cut()
	if w.cut = len(cut) > 0; w.cut != wasCut && w.state.state == was && !w.quiet {
		w.state.since = time.Now()
		w.turn(cut)
	}
	if w.state.state != was && !w.quiet {
		w.state.since = time.Now()
		level, attrs := slog.LevelInfo, []slog.Attr{slog.String("upstream", w.s.naming.upstream)}
		if w.state.failure != "" {
			level, attrs = slog.LevelWarn, append(attrs, w.state.failed.Attr(), slog.String("error", w.state.failure))
		}
		if w.s.users != nil { // this concerns only one user
			level, attrs = slog.LevelInfo, append(attrs, slog.String("user", w.as.Caller.User()))
		}
		w.c.log.LogAttrs(context.Background(), level, "upstream is "+string(w.state.state), attrs...)
		w.turn(cut)
	}
	w.show(w.state)
}

// turn reports the upstream's new state; cut is what is behind a bound.
func (w *watch) turn(cut []Withheld) {
	if w.c.turned != nil && w.s.users == nil {
		w.c.turned(UpstreamView{
			Name: w.s.naming.upstream, State: w.state.state, Since: w.state.since, LastError: w.state.failure,
			Failed: w.state.failed, Withheld: cut,
		})
	}
}

// cut returns the items that the upstream lists beyond a bound.
func (k *sourceState) cut() (all []Withheld) {
	for _, list := range k.lists {
		if list != nil {
			all = append(all, slices.DeleteFunc(slices.Clone(list.withheld), func(w Withheld) bool { return w.Behind == 0 })...)
		}
	}
	return all
}

// askEvery is the shortest time between two attempts of calls to fetch missing lists of an upstream.
const askEvery = time.Second

// asked is an attempt to fetch lists that calls wait for.
type asked struct {
	mu      sync.Mutex // guards the fields below
	last    time.Time
	over    chan struct{} // closed when the attempt is over; nil for none
	running bool          // an attempt is under way, for any caller
}

// ask fetches all lists of an upstream now, unless that was tried within the last second, and waits
// a little.
func (s *source) ask(ctx context.Context) {
	a := &s.asked
	a.mu.Lock()
	if now := time.Now(); a.over == nil && !a.running && now.Sub(a.last) >= askEvery {
		a.last, a.over = now, make(chan struct{})
		select {
		case s.again <- struct{}{}:
		default:
		}
	}
	over := a.over
	a.mu.Unlock()
	if over == nil {
		return
	}
	timer := time.NewTimer(userWait)
	defer timer.Stop()
	select {
	case <-over:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// try records whether an attempt is under way.
func (s *source) try(running bool) {
	s.asked.mu.Lock()
	defer s.asked.mu.Unlock()
	s.asked.running = running
	if s.asked.over != nil && !running {
		close(s.asked.over)
		s.asked.over = nil
	}
}

// tellTried ends an attempt, and counts the source as heard from after the first one.
func (w *watch) tellTried() {
	w.s.try(false)
	if !w.counted {
		w.counted = true
		w.c.heardFrom()
	}
}

func waitFor(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
