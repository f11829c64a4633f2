package allowance

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestBuckets: what is given out never exceeds rate and burst, with any callers at any time.
func TestBuckets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory()
		b := []Bucket{{Key: "k", Interval: 100 * time.Millisecond, Burst: 5}}
		var mu sync.Mutex
		given := 0
		var wg sync.WaitGroup
		for i := range 10 {
			wg.Go(func() {
				for range 200 {
					if wait, _, err := m.Take(t.Context(), b); err == nil && wait == 0 {
						mu.Lock()
						given++
						mu.Unlock()
					}
					time.Sleep(time.Duration(7+i) * time.Millisecond)
				}
			})
		}
		start := time.Now()
		wg.Wait()
		most := 5 + int(time.Since(start)/(100*time.Millisecond)) + 1
		if given > most || given < most-2 {
			t.Errorf("%d calls in %s, want %d", given, time.Since(start), most)
		}
	})
}

// TestBucketsAreBounded: a full memory gives up buckets that are full soon, not the ones
// that are nearly empty.
func TestBucketsAreBounded(t *testing.T) {
	m := NewMemory()
	slow := []Bucket{{Key: "slow", Interval: 24 * time.Hour, Burst: 1}}
	if wait, _, _ := m.Take(t.Context(), slow); wait != 0 {
		t.Fatal("the first")
	}
	for i := range maxBuckets + 1000 {
		if _, _, err := m.Take(t.Context(), []Bucket{{Key: fmt.Sprint(i), Interval: time.Millisecond,
			Burst: 1}}); err != nil {
			t.Fatal(err)
		}
	}
	if len(m.full) > maxBuckets {
		t.Errorf("%d are kept", len(m.full))
	}
	if wait, _, _ := m.Take(t.Context(), slow); wait == 0 {
		t.Error("the slow one was given up")
	}
}
