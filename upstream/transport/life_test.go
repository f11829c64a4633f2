package transport

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestLifeIsWatched(t *testing.T) {
	for _, tt := range []struct {
		name    string
		touches []time.Duration // when the server shows life
		caller  time.Duration   // when the caller leaves, 0 for never
		want    time.Duration
		cause   error
	}{
		{"silent", nil, 0, 60 * time.Second, ErrTimeout},
		{"lively for a while", []time.Duration{50 * time.Second, 100 * time.Second}, 0, 160 * time.Second, ErrTimeout},
		{"lively for ever", []time.Duration{50e9, 100e9, 150e9, 200e9, 250e9, 299e9}, 0, 300 * time.Second, ErrTimeout},
		{"the caller leaves", nil, 10 * time.Second, 10 * time.Second, context.Canceled},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				caller, leave := context.WithCancel(t.Context())
				defer leave()
				began := time.Now()
				d := NewLife(caller, 60*time.Second, 300*time.Second)
				for _, at := range tt.touches {
					time.AfterFunc(at, d.Touch)
				}
				if tt.caller > 0 {
					time.AfterFunc(tt.caller, leave)
				}
				<-d.Done()
				if took := time.Since(began); took != tt.want || d.Cause() != tt.cause {
					t.Errorf("ended after %s by %v, want %s and %v", took, d.Cause(), tt.want, tt.cause)
				}
				d.End()
			})
		})
	}
	t.Run("too late to fail what is answered", func(t *testing.T) {
		d := NewLife(t.Context(), time.Minute, time.Minute)
		d.Cancel(ErrTimeout)
		if err := d.Why(nil); err != nil {
			t.Errorf("error %v", err)
		}
		d.End()
	})
	t.Run("paused and resumed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			first, leave := context.WithCancel(t.Context())
			d := NewLife(first, time.Minute, 2*time.Minute)
			d.Pause()
			leave()
			time.Sleep(time.Hour) // of the bubble's clock
			if d.Err() != nil {
				t.Fatal("ended while nobody waited")
			}
			began := time.Now()
			d.Resume(t.Context(), time.Minute, 2*time.Minute)
			<-d.Done()
			if took := time.Since(began); took != time.Minute || !errors.Is(d.Cause(), ErrTimeout) {
				t.Errorf("ended after %s by %v", took, d.Cause())
			}
			d.End()
		})
	})
}

// TestLifeOutlivesItsCaller: a paused exchange has its caller's values, but neither its end
// nor its deadline, and only the first cause of its own end counts.
func TestLifeOutlivesItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		caller, leave := context.WithTimeout(context.WithValue(t.Context(), key{}, "value"), time.Second)
		l := NewLife(caller, 0, 0)
		l.Pause()
		if l.Value(key{}) != "value" {
			t.Error("a value is missing")
		}
		child, cancel := context.WithTimeout(l, time.Hour)
		defer cancel()
		leave()
		time.Sleep(time.Minute)
		synctest.Wait()
		if l.Err() != nil || l.Cause() != nil || child.Err() != nil {
			t.Fatalf("it ended with its caller: %v", l.Err())
		}
		if _, ok := l.Deadline(); ok {
			t.Error("it has its caller's deadline")
		}

		l.Cancel(ErrTimeout)
		l.Cancel(ErrEnded)
		<-l.Done()
		if l.Err() != context.Canceled || l.Cause() != ErrTimeout || child.Err() != context.Canceled {
			t.Errorf("error %v because of %v, of a context made from it %v", l.Err(), l.Cause(), child.Err())
		}
	})
}

func TestLifeEndsWithoutACause(t *testing.T) {
	l := NewLife(t.Context(), 0, 0)
	l.Cancel(nil)
	<-l.Done()
	if !errors.Is(l.Cause(), context.Canceled) {
		t.Errorf("it ended because of %v", l.Cause())
	}
}

func BenchmarkLife(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		NewLife(b.Context(), time.Minute, time.Minute).End()
	}
}
