package recent

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/record"
	"github.com/gatehouse-mcp/gatehouse/internal/trail"
)

// trails are records of which trails have 16 MiB.
func trails(t *testing.T, mode trail.Mode) *Records {
	return open(t, Deps{Most: 64 << 20, Messages: mode})
}

// end records a call of a user with its trail.
func end(r *Records, id, user string, walked *trail.Trail, change func(*record.Record)) {
	rec := &record.Record{Time: time.Now(), Kind: record.KindCall, ID: id, User: user, Outcome: "ok", Trail: walked}
	if change != nil {
		change(rec)
	}
	r.Put(rec)
}

// view is the trail of a call; ok is false if its record, or its trail, is not kept.
func view(r *Records, id string) (v trail.View, ok bool) {
	for _, item := range r.Find(context.Background(), Query{Filter: record.Filter{ID: id}}).Items {
		v, ok = item.Record.Trail.View()
	}
	return v, ok
}

// TestRunningCallsForgetNothing: what calls say that still run takes nothing from those that have
// ended.
func TestRunningCallsForgetNothing(t *testing.T) {
	r := trails(t, trail.ModeFull)
	large := bytes.Repeat([]byte("x"), 1<<20)
	for range 60 { // more than all ended calls may have together
		running := r.Trails().Begin(time.Now())
		for range 24 {
			running.ToClient(0, large)
		}
	}
	for i := range 3 {
		end(r, fmt.Sprint("ended", i), "alice", r.Trails().Begin(time.Now()), nil)
	}
	for i := range 3 {
		if _, ok := view(r, fmt.Sprint("ended", i)); !ok {
			t.Errorf("call %d is forgotten", i)
		}
	}
}

// TestTrailsAreBounded: many calls at the same time, with as much as they can say, take a bounded
// memory. The last trails can be found, and the records of calls without one.
func TestTrailsAreBounded(t *testing.T) {
	r := trails(t, trail.ModeFull)
	large := bytes.Repeat([]byte("x"), 1<<20)
	const workers, calls = 4, 200
	var done sync.WaitGroup
	for w := range workers {
		done.Go(func() {
			for i := range calls {
				walked := r.Trails().Begin(time.Now())
				for range 30 {
					walked.ToClient(0, large)
					walked.Begin("hook", "x")
				}
				end(r, fmt.Sprint(w, "-", i), "alice", walked, nil)
				walked.FromServer(large) // late
				view(r, fmt.Sprint(w, "-", i/2))
			}
		})
	}
	done.Wait()
	kept, size := 0, 0
	for w := range workers {
		for i := range calls {
			v, ok := view(r, fmt.Sprint(w, "-", i))
			if ok {
				kept++
			}
			for _, m := range v.Messages {
				size += len(m.Text)
			}
			if len(v.Steps) > 128 {
				t.Errorf("%d steps", len(v.Steps))
			}
		}
	}
	if kept == 0 || size > 16<<20 || size == 0 {
		t.Errorf("%d trails, %d bytes", kept, size)
	}
	if n := len(r.all()); n != workers*calls {
		t.Errorf("%d records, want %d", n, workers*calls)
	}
	if v, ok := view(r, fmt.Sprint(0, "-", calls-1)); ok && len(v.Steps) == 0 {
		t.Error("a trail that is kept has no steps")
	}
	r.Keep(trail.ModeFull, 1<<20)
	end(r, "last", "alice", nil, nil)
	if r.trailed > 1<<20/8 || r.bytes > 1<<20 {
		t.Errorf("with a smaller bound, %d bytes of trails, %d of records", r.trailed, r.bytes)
	}
}

// TestOrdinaryTrailsGoFirst: those of calls that failed or were slow stay longest, those of others
// stay beside a user who makes many calls, and that of the newest call is there.
func TestOrdinaryTrailsGoFirst(t *testing.T) {
	r := open(t, Deps{Most: 8 << 20, Messages: trail.ModeOff})
	call := func(id, user string, change func(*record.Record)) {
		end(r, id, user, r.Trails().Begin(time.Now()), change)
	}
	for i := range 3 {
		call(fmt.Sprint("failed", i), "busy", func(r *record.Record) { r.Outcome = "upstream" })
		call(fmt.Sprint("slow", i), "busy", func(r *record.Record) { r.Duration = time.Minute })
		call(fmt.Sprint("ok", i), "busy", nil)
		call(fmt.Sprint("quiet", i), "quiet", nil)
	}
	for i := range 5000 {
		call(fmt.Sprint("more", i), "busy", nil)
	}
	for id, want := range map[string]bool{
		"failed0": true, "slow0": true, "ok0": false, "quiet0": true, "more1": false, "more4999": true,
	} {
		if _, ok := view(r, id); ok != want {
			t.Errorf("the trail of %s is found: %v", id, ok)
		}
	}
}
