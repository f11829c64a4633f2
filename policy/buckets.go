package policy

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
)

// maxRate bounds the number in a rate, and a burst.
const maxRate = 1_000_000

// Rate is a number of calls per time. Its text is a number, a slash and s, m, h or d, such as
// 60/m.
type Rate struct {
	Count int
	Per   time.Duration
}

// UnmarshalText parses a rate of 1 to 1,000,000 calls.
func (r *Rate) UnmarshalText(text []byte) error {
	number, unit, _ := strings.Cut(string(text), "/")
	count, err := strconv.Atoi(number)
	per := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour}[unit]
	if err != nil || per == 0 || strconv.Itoa(count) != number {
		return fmt.Errorf("%q: want a number and s, m, h or d, such as 60/m", text)
	}
	if count < 1 || count > maxRate {
		return fmt.Errorf("%q: want 1 to %d calls", text, maxRate)
	}
	*r = Rate{Count: count, Per: per}
	return nil
}

// MarshalText writes the rate in the format of UnmarshalText. It fails for the zero Rate.
func (r Rate) MarshalText() ([]byte, error) {
	for unit, per := range map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour,
		"d": 24 * time.Hour} {
		if r.Per == per {
			return fmt.Appendf(nil, "%d/%s", r.Count, unit), nil
		}
	}
	return nil, errors.New("no rate")
}

func (r Rate) String() string {
	text, err := r.MarshalText()
	if err != nil {
		return ""
	}
	return string(text)
}

// Bucket is an allowance: one call for each Interval, of which up to Burst may come at once.
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

// MemoryBuckets are Buckets in this process, by the generic cell rate algorithm: for each
// bucket it stores only the time at which it will be full again. A full bucket need not be
// stored. If there are too many, it drops one of those that will be full soonest.
type MemoryBuckets struct {
	mu    sync.Mutex // guards full
	full  map[string]time.Duration
	start time.Time // the times are since then: a clock that jumps changes nothing
}

// NewMemoryBuckets returns MemoryBuckets that are all full.
func NewMemoryBuckets() *MemoryBuckets {
	return &MemoryBuckets{full: make(map[string]time.Duration), start: time.Now()}
}

// Take takes a call from each of the buckets, or from none. Its error is always nil.
func (m *MemoryBuckets) Take(_ context.Context, buckets []Bucket) (wait time.Duration, which int, err error) {
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
func (m *MemoryBuckets) dropOne() {
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
