package e2e

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/gateway/front"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/session"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

const (
	leakWorkers = 32

	// leakSettled is how long no goroutine may end before they are counted: longer than an
	// idle connection to a server is kept.
	leakSettled = 4 * time.Second

	// How much more there may be at the end. Of 10,000 calls, each way to leave a call gets
	// about 600: a leak of 4 kB for each of these is found.
	leakGoroutines = 5
	leakHeap       = 2 << 20
)

// TestNothingIsLeft abandons thousands of calls, many at a time, by clients and servers of
// both eras: questions without an answer, cancelled calls, calls that die, dropped streams.
// Afterwards everything must be as before. With the race detector, which takes four times
// as long, there are fewer calls, and make test has the profile of goroutines that nothing
// can wake; it also runs the test without both.
func TestNothingIsLeft(t *testing.T) {
	mcptest.Long(t)
	ground := newLeakGround(t)
	ground.leave(t, leakWarmUp)
	before := ground.rest(t)
	ground.leave(t, leaks)
	after := ground.rest(t)
	t.Logf("before: %s\nafter: %s", before, after)
	if after.load != before.load {
		t.Errorf("held before: %s\nafter: %s", before.load, after.load)
	}
	if after.goroutines > before.goroutines+leakGoroutines {
		var all strings.Builder
		_ = pprof.Lookup("goroutine").WriteTo(&all, 1) // a strings.Builder returns no error
		t.Errorf("%d goroutines, before: %d\n%s", after.goroutines, before.goroutines, all.String())
	}
	if after.heap > before.heap+leakHeap {
		t.Errorf("%d bytes of heap, before: %d", after.heap, before.heap)
	}
	noneIsStuck(t)
}

// noneIsStuck requires that no goroutine waits for something that nothing else can reach.
// Only Go built with GOEXPERIMENT=goroutineleakprofile can tell.
func noneIsStuck(t *testing.T) {
	t.Helper()
	profile := pprof.Lookup("goroutineleak")
	if profile == nil {
		return
	}
	var stuck strings.Builder
	if err := profile.WriteTo(&stuck, 1); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(stuck.String(), "goroutineleak profile: total 0\n") {
		t.Errorf("goroutines that nothing can wake: %s", stuck.String())
	}
}

// leakGround is the gateway, servers and clients of the test.
type leakGround struct {
	g       *gateway.Gateway
	servers []*mcptest.Server
	names   []string // of the upstreams
	clients *http.Transport
}

func newLeakGround(t *testing.T) *leakGround {
	l := &leakGround{clients: &http.Transport{MaxIdleConnsPerHost: 2 * leakWorkers}}
	t.Cleanup(l.clients.CloseIdleConnections)
	const soon = 100 * time.Millisecond
	cfg := gateway.Config{
		HTTP:     front.Config{AskTimeout: soon},
		Sessions: session.Config{MaxPerUser: leakWorkers}, // a session that is not ended leaves no room
	}
	for _, revision := range []string{statefulServer, stateless} {
		name, s := "s"+revision[:4], scripted(t, revision)
		s.Discard()
		s.Tools("do")
		s.Tool("do", func(c *mcptest.Call) { leakScript(c, revision != stateless) })
		l.servers, l.names = append(l.servers, s), append(l.names, name)
		cfg.Upstreams = append(cfg.Upstreams, upstream.Config{
			Name: name, URL: s.URL,
			Timeout: upstream.Timeout{Ask: soon, Idle: 2 * time.Second},
			Limits:  upstream.Limits{AsksPerUser: leaks},
		})
	}
	var stop func()
	var err error
	if l.g, stop, err = run(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return l
}

// leakScript does what the arguments say.
func leakScript(c *mcptest.Call, stateful bool) {
	what := ""
	c.Param("arguments|what", &what)
	switch {
	case what == "ask" && stateful:
		_, _ = c.Ask("sampling/createMessage", aSample.Params) // whatever the answer is
		c.Text("done")
	case what == "ask":
		c.Result(fmt.Sprintf(`{"resultType":"input_required","inputRequests":{"q":{"method":%q,"params":%s}},"requestState":"s"}`, aSample.Method, aSample.Params))
	case what == "hang":
		c.Progress(1)
		c.Hang()
	case what == "die":
		c.Progress(1)
		c.Die()
	default:
		c.Progress(1)
		c.Text("done")
	}
}

// leave abandons n calls, some at the same time.
func (l *leakGround) leave(t *testing.T, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*patience)
	defer cancel()
	var next atomic.Int64
	var workers sync.WaitGroup
	for range leakWorkers {
		workers.Go(func() {
			w := &leaver{ground: l, clients: map[string]*mcptest.Client{}}
			for !t.Failed() {
				i := int(next.Add(1) - 1)
				if i >= n {
					break
				}
				way, server := leakWays[i%len(leakWays)], i/len(leakWays)%len(l.servers)
				if err := w.leave(ctx, way, server); err != nil {
					t.Errorf("%s, client %s, server %d: %v", way.name, way.revision, server, err)
				}
			}
			if err := w.endSession(ctx); err != nil {
				t.Errorf("the end of a session: %v", err)
			}
		})
	}
	workers.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// leakCount is what exists at rest.
type leakCount struct {
	load       string
	goroutines int
	heap       uint64
}

func (c leakCount) String() string {
	return fmt.Sprintf("%d goroutines, %d bytes of heap, %s", c.goroutines, c.heap, c.load)
}

// rest waits until nothing runs, and counts.
func (l *leakGround) rest(t *testing.T) leakCount {
	t.Helper()
	ctx := deadline(t)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		load := l.g.Load()
		busy := load.Front.Sessions + load.Front.Calls + load.Front.Questions + load.Front.Streams
		running, sessions := 0, 0
		for i, u := range load.Upstreams {
			busy += u.Calls + u.Parked + u.Sessions - 1 // those of the gateway itself
			at, kept, asked := l.servers[i].Load()
			busy += asked
			running, sessions = running+at, sessions+kept
		}
		// The gateway itself has a session at the first server and a subscription at each.
		if text := fmt.Sprintf("%+v, at the servers %d exchanges and %d sessions", load, running, sessions); busy == 0 &&
			running == 2 && sessions == 1 {
			l.clients.CloseIdleConnections()
			fewest, since := runtime.NumGoroutine(), time.Now()
			for time.Since(since) < leakSettled && ctx.Err() == nil {
				<-tick.C
				if n := runtime.NumGoroutine(); n < fewest {
					fewest, since = n, time.Now()
				}
			}
			c := leakCount{load: fmt.Sprintf("%d exchanges, %d sessions at the servers", running, sessions)}
			runtime.GC()
			runtime.GC()
			var mem runtime.MemStats
			runtime.ReadMemStats(&mem)
			c.goroutines, c.heap = runtime.NumGoroutine(), mem.HeapAlloc
			return c
		} else if ctx.Err() != nil {
			t.Fatalf("not at rest: %s", text)
		}
		<-tick.C
	}
}
