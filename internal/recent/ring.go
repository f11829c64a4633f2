package recent

import "time"

// ring has a cell for each of the last steps of time. Cells are used again without being cleared
// before: each knows which step it is about.
type ring struct {
	step  time.Duration
	cells []cell
}

func newRing(step time.Duration, n int) ring { return ring{step: step, cells: make([]cell, n)} }

// number is that of a step, counted from 1970.
func (r *ring) number(at time.Time) int64 { return at.UnixNano() / int64(r.step) }

// at returns the cell of a time, to be changed; nil if that time is too long ago.
func (r *ring) at(at time.Time) *cell {
	n := r.number(at)
	c := &r.cells[n%int64(len(r.cells))]
	switch {
	case n > c.number:
		*c = cell{number: n}
	case n < c.number:
		return nil
	}
	return c
}

// read returns the cell of a time, nil if nothing was counted then.
func (r *ring) read(at time.Time) *cell {
	n := r.number(at)
	if c := &r.cells[n%int64(len(r.cells))]; c.number == n {
		return c
	}
	return nil
}

// first returns the beginning of the step with since, or of the oldest step that is kept at the
// time now.
func (r *ring) first(since, now time.Time) time.Time {
	n := max(r.number(since), r.number(now)-int64(len(r.cells))+1)
	return time.Unix(0, n*int64(r.step)).UTC()
}

// total sums up the steps that begin before a time, from the one in which since is.
func (r *ring) total(since, before time.Time) Point {
	var sum cell
	for at := r.first(since, before.Add(-1)); at.Before(before); at = at.Add(r.step) {
		sum.merge(r.read(at))
	}
	return sum.point(since)
}
