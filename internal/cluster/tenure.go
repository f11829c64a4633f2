package cluster

import "time"

// tenure is for how long a replica's own lease has been held, by its monotonic clock. All
// times are since the replica's start. It counts from when a renewal was sent, so that its
// end comes no later than Redis's.
type tenure struct {
	lease time.Duration // how long one lasts

	ever     bool          // it was renewed at all
	unbroken bool          // it was there at each renewal since, and none of them failed
	since    time.Duration // when this began
	asked    time.Duration // when the newest renewal that succeeded was sent
	answered time.Duration // and when its answer came
}

// renewed notes a renewal that succeeded, and whether Redis still had the lease. lapsed says
// that it had ended: the others may have gone on without us.
func (t *tenure) renewed(asked, answered time.Duration, there bool) (lapsed bool) {
	lapsed = t.ever && (!there || asked >= t.end())
	if !t.unbroken || !there || lapsed {
		t.since = asked
	}
	t.ever, t.unbroken, t.asked, t.answered = true, true, asked, answered
	return lapsed
}

// failed notes that a renewal did not succeed.
func (t *tenure) failed() { t.unbroken = false }

// end is when the lease ends unless it is renewed.
func (t *tenure) end() time.Duration {
	if !t.ever {
		return 0
	}
	return t.asked + t.lease
}

// settled reports whether, by the newest renewal, the lease had been held for a whole lease
// without a break: by then everyone who is there has renewed theirs, also where Redis had
// lost its data or answered nobody. Before that nobody is taken to have gone.
func (t *tenure) settled() bool { return t.unbroken && t.asked-t.since >= t.lease }
