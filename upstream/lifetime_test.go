package upstream

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestLifetime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		caller, leave := context.WithTimeout(context.WithValue(t.Context(), key{}, "value"), time.Second)
		l := newLifetime(caller)
		if l.Value(key{}) != "value" {
			t.Error("a value is missing")
		}
		var called [4]int
		l.AfterFunc(func() { called[0]++ })
		stop := l.AfterFunc(func() { called[1]++ })
		context.AfterFunc(l, func() { called[2]++ })
		if !stop() || stop() {
			t.Error("stopping does not tell what it did")
		}
		child, cancel := context.WithTimeout(l, time.Hour)
		defer cancel()
		done := l.Done()
		leave()
		time.Sleep(time.Minute)
		synctest.Wait()
		if l.Err() != nil || l.why() != nil || child.Err() != nil || called != [4]int{} {
			t.Fatalf("it ended with its caller: %v, %v", l.Err(), called)
		}
		if _, ok := l.Deadline(); ok {
			t.Error("it has its caller's deadline")
		}

		l.end(errTimeout)
		l.end(errClosed)
		synctest.Wait()
		if l.Err() != context.Canceled || l.why() != errTimeout || child.Err() != context.Canceled {
			t.Errorf("error %v because of %v, of a context made from it %v", l.Err(), l.why(), child.Err())
		}
		<-done
		<-l.Done()
		stop = l.AfterFunc(func() { called[3]++ })
		synctest.Wait()
		if stop() || called != [4]int{1, 0, 1, 1} {
			t.Errorf("called %v", called)
		}
	})
}

func TestLifetimeEndsWithoutACause(t *testing.T) {
	l := newLifetime(t.Context())
	l.end(nil)
	<-l.Done()
	if !errors.Is(l.why(), context.Canceled) {
		t.Errorf("it ended because of %v", l.why())
	}
}

// A function is called or stopped, never both.
func TestLifetimeRaces(t *testing.T) {
	for range 200 {
		l := newLifetime(t.Context())
		var racing, calls sync.WaitGroup
		var mu sync.Mutex
		called, stopped := 0, 0
		for range 8 {
			calls.Add(1)
			stop := l.AfterFunc(func() {
				mu.Lock()
				called++
				mu.Unlock()
				calls.Done()
			})
			racing.Go(func() {
				if stop() {
					mu.Lock()
					stopped++
					mu.Unlock()
					calls.Done()
				}
			})
		}
		racing.Go(func() { l.end(nil) })
		racing.Wait()
		calls.Wait()
		if called+stopped != 8 {
			t.Fatalf("%d were called, %d stopped", called, stopped)
		}
	}
}

func BenchmarkLifetime(b *testing.B) {
	f := func() {}
	b.Run("own", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			l := newLifetime(b.Context())
			l.AfterFunc(f)()
			l.end(nil)
		}
	})
	b.Run("context", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			ctx, cancel := context.WithCancelCause(context.WithoutCancel(b.Context()))
			context.AfterFunc(ctx, f)()
			cancel(nil)
		}
	})
}
