package cluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
)

// TestKilled: the next replica that is asked takes over the homes of a killed replica at once,
// even if the lease of the killed one still holds. Whether a request that ran there was done
// is unknown.
func TestKilled(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	a, b := startProcess(t, redis, time.Hour), startProcess(t, redis, time.Hour)
	a.want(t, "/u/x", a, 1)
	b.want(t, "/u/x", a, 2)
	hung := make(chan int, 1)
	go func() {
		_, status, _ := b.get(t.Context(), "/u/x?hang")
		hung <- status
	}()
	<-a.hanging
	a.kill()
	if status := <-hung; status != http.StatusBadGateway {
		t.Errorf("the request that ran there: %d", status)
	}
	b.want(t, "/u/x", b, 3)
}

// TestStopped: the other replicas wait for the lease of a hanging replica to end. When it
// resumes, it serves none of the homes that another replica has taken over.
func TestStopped(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	a, b := startProcess(t, redis, processLease), startProcess(t, redis, processLease)
	a.want(t, "/u/x", a, 1)
	a.want(t, "/u/y", a, 1)
	b.want(t, "/u/x", a, 2)
	settle(t, b)
	hung := make(chan int, 1)
	go func() {
		_, status, _ := b.get(t.Context(), "/u/x?hang")
		hung <- status
	}()
	<-a.hanging
	pause(t, a)
	b.until(t, "/u/x", b, 3)
	if status := <-hung; status != http.StatusBadGateway {
		t.Errorf("the request that ran there: %d", status)
	}
	resume(a)
	a.until(t, "/u/x", b, 4) // what waited while it hung may time out first
	a.want(t, "/u/y", a, 2)
	b.want(t, "/u/y", a, 3)
	b.want(t, "/u/x", b, 5)
}

// TestLinkIsCut: a replica that cannot be reached but whose lease holds keeps its homes. The
// other replica answers that it cannot serve them.
func TestLinkIsCut(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	a, b := startProcess(t, redis, processLease), startProcess(t, redis, processLease)
	a.want(t, "/u/x", a, 1)
	b.want(t, "/u/x", a, 2)
	a.link.BlackHole()
	b.link.BlackHole()
	count := 2
	for until := time.Now().Add(processLease + time.Second); time.Now().Before(until); {
		if got, status, err := b.get(t.Context(), "/u/x"); status < 500 {
			t.Fatalf("it is served elsewhere: %+v, %v", got, err)
		}
		count++
		a.want(t, "/u/x", a, count)
	}
	a.link.Pass()
	b.link.Pass()
	eventually(t, "it is reached again", func() bool {
		got, _, err := b.get(t.Context(), "/u/x")
		if err == nil && got.Replica != a.Name {
			t.Fatalf("%+v", got)
		}
		return err == nil
	})
}

// TestCutOff: a replica that reaches neither Redis nor the others loses its homes when its
// lease ends. It serves none of them, whether or not it can ask the others.
func TestCutOff(t *testing.T) {
	for _, alone := range []bool{false, true} {
		t.Run(fmt.Sprintf("from the others too=%t", alone), func(t *testing.T) {
			t.Parallel()
			redis := redistest.Start(t)
			a, b := startProcess(t, redis, processLease), startProcess(t, redis, processLease)
			a.want(t, "/u/x", a, 1)
			b.want(t, "/u/y", b, 1)
			a.want(t, "/u/y", b, 2)
			b.want(t, "/u/x", a, 2)
			settle(t, a, b)
			a.redis.BlackHole()
			if alone {
				a.link.BlackHole()
				b.link.BlackHole()
			}
			b.until(t, "/u/x", b, 3)
			if got, status, err := a.get(t.Context(), "/u/x"); status != http.StatusServiceUnavailable {
				t.Errorf("what another has is served: %+v, %v", got, err)
			}
			b.want(t, "/u/x", b, 4)
			a.redis.Pass()
			a.link.Pass()
			b.link.Pass()
			a.until(t, "/u/x", b, 5)
		})
	}
}

// TestOneOwner: whatever happens to replicas, no two of them write for a home at a time. Each
// count that is written follows the count that its writer has in memory.
func TestOneOwner(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	replicas := []*process{startProcess(t, redis, processLease), startProcess(t, redis, processLease),
		startProcess(t, redis, processLease)}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var clients sync.WaitGroup
	var answered, refused atomic.Int64
	counts := make([]atomic.Int64, 10)
	for i := range counts {
		clients.Go(func() {
			path, last := fmt.Sprintf("/u%d/x", i), 0
			for ctx.Err() == nil {
				got, _, err := replicas[rand.IntN(len(replicas))].get(ctx, path)
				switch {
				case err != nil:
				case got.Refused:
					refused.Add(1)
				case got.Torn || got.Count <= last:
					t.Errorf("%s: %+v after %d", path, got, last)
				default:
					answered.Add(1)
					last = got.Count
				}
			}
		})
	}
	wait := func(d time.Duration) {
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
	}
	faults := []func(p *process){
		func(p *process) { pause(t, p); wait(processLease + time.Second/2); resume(p) },
		func(p *process) { p.redis.BlackHole(); wait(processLease + time.Second/2); p.redis.Pass() },
		func(p *process) { p.link.Reset(); wait(time.Second / 2); p.link.Pass() },
	}
	for i, fault := range faults {
		fault(replicas[i%len(replicas)])
		wait(time.Second / 2)
	}
	before := answered.Load()
	eventually(t, "all is well again", func() bool { return answered.Load() > before+50 })
	stop()
	clients.Wait()
	t.Logf("%d answers, %d refused by the fence", answered.Load(), refused.Load())
}

// TestNoClock: the clocks of two replicas are never compared.
func TestNoClock(t *testing.T) {
	redis := redistest.Start(t)
	told := redis.Times(t, func() {
		a, b := startReplica(t, redis, nil), startReplica(t, redis, nil)
		o := a.own(t, some("x"))
		b.own(t, some("x"))
		if _, err := a.Renew(t.Context(), some("x"), o); err != nil {
			t.Error(err)
		}
		a.Leaving(t.Context())
		if err := a.Release(t.Context(), some("x"), o); err != nil {
			t.Error(err)
		}
	})
	if len(told) > 0 {
		t.Errorf("Redis is told the time: %q", told)
	}
}
