package recent

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/gatehouse-mcp/gatehouse/internal/record"
)

const (
	// MostFollowers bounds those who follow at a time.
	MostFollowers = 100
	// mostPending bounds what waits for a follower, in records.
	mostPending = 1024
)

// Errors of following.
var (
	// ErrFull means that there are as many followers as allowed.
	ErrFull = errors.New("recent: too many follow already")
	// ErrClosed means that the gateway stops.
	ErrClosed = errors.New("recent: closed")
)

// Follower gets records as they come.
type Follower struct {
	from   *Records
	filter record.Filter

	mu      sync.Mutex // guards the fields below; may be taken while that of from is held
	pending []*Item
	missed  int64
	news    chan struct{} // holds one token
	over    chan struct{} // closed at the end
	ended   bool
}

// Follow follows what is recorded. It begins with the kept records after a cursor, if there is
// one, or else with the last ones, at most n. Close the Follower in the end. Errors: ErrFull,
// ErrClosed.
func (r *Records) Follow(ctx context.Context, filter record.Filter, after Cursor, n int) (*Follower, error) {
	_ = r.look(ctx) // followers get what is there; the rest comes when Redis is back
	f := &Follower{from: r, filter: filter, news: make(chan struct{}, 1), over: make(chan struct{})}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closed:
		return nil, ErrClosed
	case len(r.followers) >= MostFollowers:
		return nil, ErrFull
	}
	before := r.items
	if after != (Cursor{}) {
		at, _ := slices.BinarySearchFunc(r.items, after, (*Item).compareTo)
		before, n = r.items[at:], mostPending
	}
	for i := len(before) - 1; i >= 0 && len(f.pending) < n; i-- {
		if item := before[i]; item.Cursor != after && filter.Fits(item.Record) && !slices.Contains(r.fresh, item) {
			f.pending = append(f.pending, item)
		}
	}
	slices.Reverse(f.pending)
	if len(f.pending) > 0 {
		give(f.news)
	}
	r.followers[f] = true
	return f, nil
}

// Next waits for records, oldest first, and says how many were missed before them for lack of room;
// these may be unwanted records. Errors: ErrClosed, and that of ctx.
func (f *Follower) Next(ctx context.Context) (items []*Item, missed int64, err error) {
	select {
	case <-f.news:
	case <-f.over:
		return nil, 0, ErrClosed
	case <-ctx.Done():
		return nil, 0, context.Cause(ctx)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	items, missed = f.pending, f.missed
	f.pending, f.missed = nil, 0
	return items, missed, nil
}

// Close ends following. It may be called twice.
func (f *Follower) Close() {
	f.from.mu.Lock()
	delete(f.from.followers, f)
	f.from.mu.Unlock()
	f.end()
}

func (f *Follower) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.ended {
		f.ended = true
		close(f.over)
	}
}

// add gives a follower records, as far as there is room.
func (f *Follower) add(items []*Item, missed int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.missed += missed
	for _, item := range items {
		if !f.filter.Fits(item.Record) {
			continue
		}
		if len(f.pending) >= mostPending {
			f.missed++
			continue
		}
		f.pending = append(f.pending, item)
	}
	if len(f.pending) > 0 || f.missed > 0 {
		give(f.news)
	}
}

// deliver gives followers what is new.
func (r *Records) deliver() {
	r.mu.Lock()
	items, missed := r.fresh, r.missed
	r.fresh, r.missed = nil, 0
	followers := make([]*Follower, 0, len(r.followers))
	for f := range r.followers {
		followers = append(followers, f)
	}
	r.mu.Unlock()
	if len(items) == 0 && missed == 0 {
		return
	}
	for _, f := range followers {
		f.add(items, missed)
	}
}

// followed reports whether there are followers.
func (r *Records) followed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.followers) > 0
}
