package allowance

import (
	"context"
	"sync"
	"time"
)

// Bucket is an allowance: one call for each Interval, up to Burst of them at once.
type Bucket struct {
	Key      string
	Interval time.Duration
	Burst    int
}

// Buckets keep allowances.
type Buckets interface {
	// Take takes a call from each of the buckets, or from none if one is empty. Then wait is
	// the time until that bucket has a call again, and which is its index. wait is 0 if the
	// call may be made.
	Take(ctx context.Context, buckets []Bucket) (wait time.Duration, which int, err error)
}

const (
	// maxBuckets bounds how many allowances are kept.
	maxBuckets = 100_000
	// looks is how many allowances are considered when one has to be dropped.
	looks = 16
)

// Memory are Buckets in this process, by the generic cell rate algorithm: for each
// bucket it stores only the time at which it will be full again. A full bucket need not be
// stored. If there are too many, it drops one of those that will be full soonest.
type Memory struct {
	mu    sync.Mutex // guards full
	full  map[string]time.Duration
	start time.Time // the times are since then: a clock that jumps changes nothing
}

// NewMemory returns Memory that are all full.
func NewMemory() *Memory {
	return &Memory{full: make(map[string]time.Duration), start: time.Now()}
}

// Take takes a call from each of the buckets, or from none. Its error is always nil.
func (m *Memory) Take(_ context.Context, buckets []Bucket) (wait time.Duration, which int, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Since(m.start)
	for i, b := range buckets {
		// It holds a call if one more makes it at most empty.
		empty := now + time.Duration(b.Burst)*b.Interval
		if short := max(m.full[b.Key], now) + b.Interval - empty; short > wait {
			wait, which = short, i
		}
	}
	if wait > 0 {
		return wait, which, nil
	}
	for _, b := range buckets {
		at, known := m.full[b.Key]
		if !known && len(m.full) >= maxBuckets {
			m.dropOne()
		}
		m.full[b.Key] = max(at, now) + b.Interval
	}
	return 0, 0, nil
}

// dropOne drops the bucket that will be full soonest, among a few.
func (m *Memory) dropOne() {
	soonest, left := "", looks
	for key, at := range m.full {
		if soonest == "" || at < m.full[soonest] {
			soonest = key
		}
		if left--; left == 0 {
			break
		}
	}
	delete(m.full, soonest)
}
