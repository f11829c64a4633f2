package recent

import (
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/record"
)

// bounds are the upper bounds of the classes of latencies; there is one more class, without a
// bound. Neighbours differ by half, so a quantile is off by less than that.
var bounds = [...]time.Duration{
	1 * ms, 1500 * us, 2 * ms, 3 * ms, 5 * ms, 7 * ms, 10 * ms, 15 * ms, 20 * ms, 30 * ms, 50 * ms, 70 * ms,
	100 * ms, 150 * ms, 200 * ms, 300 * ms, 500 * ms, 700 * ms, 1000 * ms, 1500 * ms, 2000 * ms, 3000 * ms,
	5000 * ms, 7000 * ms,
	10_000 * ms, 15_000 * ms, 20_000 * ms, 30_000 * ms, 60_000 * ms,
}

const (
	us = time.Microsecond
	ms = time.Millisecond
)

// event is the contribution of a record to counters.
type event struct {
	calls, errors, refused, turnedAway int64
	timed                              bool // took is how long a call took
	took                               time.Duration
}

// eventOf says what a record adds. Lists, pings and the like are no calls: clients ask for them as
// often as they like. Of a call that is answered with a question, the request with the answer counts.
func eventOf(r *record.Record) (e event, counts bool) {
	switch {
	case r.Kind == record.KindRefused, r.Kind == record.KindSignIn && r.Event == "refused":
		return event{turnedAway: max(1, r.Count)}, true
	case r.Kind != record.KindCall, r.Name == "" && r.Upstream == "", r.Outcome == "ask":
		return event{}, false
	case refused(r):
		return event{refused: 1}, true
	}
	// approvers take their time
	e = event{calls: 1, timed: r.Approver == "" && r.Executed != record.ExecutedNo, took: r.Duration}
	if r.Outcome == "upstream" || r.Outcome == "unavailable" || r.Outcome == "error" || r.Outcome == "internal" {
		e.errors = 1
	}
	return e, true
}

// refused reports whether a call was not let through.
func refused(r *record.Record) bool {
	switch r.Approval {
	case "declined", "impossible", "refused", "expired":
		return true
	}
	return r.Decision == "deny" || r.Decision == "unknown" || r.Outcome == "limited" ||
		r.Error == failure.HookRefused.String()
}

// cell has the counters of a step of time.
type cell struct {
	number                             int64 // of the step
	calls, errors, refused, turnedAway int64
	slowest                            time.Duration
	classes                            [len(bounds) + 1]uint32 // of latencies
}

func (c *cell) add(e event) {
	c.calls += e.calls
	c.errors += e.errors
	c.refused += e.refused
	c.turnedAway += e.turnedAway
	if !e.timed {
		return
	}
	c.slowest = max(c.slowest, e.took)
	i := 0
	for i < len(bounds) && e.took > bounds[i] {
		i++
	}
	c.classes[i]++
}

// merge adds the counters of another step, nil for none.
func (c *cell) merge(other *cell) {
	if other == nil {
		return
	}
	c.calls += other.calls
	c.errors += other.errors
	c.refused += other.refused
	c.turnedAway += other.turnedAway
	c.slowest = max(c.slowest, other.slowest)
	for i, n := range other.classes {
		c.classes[i] += n
	}
}

// Point is what happened in a step of time.
type Point struct {
	// At is when the step began.
	At time.Time `json:"at"`
	// Calls were let through and have ended, of tools, prompts, resources and skills; Errors of
	// them failed at the server or in the gateway.
	Calls  int64 `json:"calls"`
	Errors int64 `json:"errors"`
	// Refused are further calls, which did not run: by policy, an approver, a limit or a hook, or
	// because nothing of this name is offered.
	Refused int64 `json:"refused"`
	// TurnedAway are requests that became no call, such as those with a bad token.
	TurnedAway int64 `json:"turned_away"`
	// P50, P99 and Slowest are how long calls took, in milliseconds, without those that waited for
	// an approver; 0 for none.
	P50     float64 `json:"p50_ms"`
	P99     float64 `json:"p99_ms"`
	Slowest float64 `json:"slowest_ms"`
}

func (c *cell) point(at time.Time) Point {
	if c == nil {
		return Point{At: at}
	}
	return Point{
		At: at, Calls: c.calls, Errors: c.errors, Refused: c.refused, TurnedAway: c.turnedAway,
		P50: c.quantile(0.50), P99: c.quantile(0.99), Slowest: inMS(c.slowest),
	}
}

// quantile returns how long the given part of calls took at most, in milliseconds. Within a class,
// latencies are taken as evenly spread.
func (c *cell) quantile(part float64) float64 {
	all := 0.0
	for _, n := range c.classes {
		all += float64(n)
	}
	wanted, before := part*all, 0.0
	low := time.Duration(0)
	for i, n := range c.classes {
		high := c.slowest
		if i < len(bounds) {
			high = min(high, bounds[i])
		}
		if n > 0 && before+float64(n) >= wanted {
			return inMS(low + time.Duration((wanted-before)/float64(n)*float64(max(0, high-low))))
		}
		before += float64(n)
		if i < len(bounds) {
			low = bounds[i]
		}
	}
	return inMS(c.slowest)
}

func inMS(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
