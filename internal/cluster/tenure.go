package cluster

import "time"

// tenure is how long a replica's own lease has been held, by its monotonic clock. All times
// are since the start of the replica. A lease counts from the time its renewal was sent, so
// that it ends here no later than in Redis.
type tenure struct {
	lease time.Duration // how long a lease lasts

	ever     bool          // the lease was renewed at all
	unbroken bool          // since then, each renewal found the same lease, and none failed
	began    int64         // the number of the renewal that began the lease
	since    time.Duration // when the unbroken time began
	asked    time.Duration // when the newest successful renewal was sent
	answered time.Duration // when its answer came
}

// renewed records a successful renewal of the lease that began with the renewal of the given
// number. lapsed says that the lease before it had ended: the others may have continued without
// us.
func (t *tenure) renewed(asked, answered time.Duration, began int64) (lapsed bool) {
	lapsed = t.ever && (began != t.began || asked >= t.end())
	if !t.unbroken || lapsed {
		t.since = asked
	}
	t.ever, t.unbroken, t.began, t.asked, t.answered = true, true, began, asked, answered
	return lapsed
}

// failed records a failed renewal.
func (t *tenure) failed() { t.unbroken = false }

// end is when the lease ends without a further renewal.
func (t *tenure) end() time.Duration {
	if !t.ever {
		return 0
	}
	return t.asked + t.lease
}

// settled reports whether, at the newest renewal, the lease had been held for a whole lease
// without a break. By then every live replica has renewed its lease, even if Redis had lost
// its data or had answered nobody. Before that, no replica counts as gone.
func (t *tenure) settled() bool { return t.unbroken && t.asked-t.since >= t.lease }
