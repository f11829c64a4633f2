package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// warmUp is how long a scenario runs at each target before it is measured.
const warmUp = 200 * time.Millisecond

// background is how many requests of a gateway's own (lists, sessions, pings) may reach the
// server during one measurement, for each class of clients.
const background = 50

// slice is the result of one measurement of one target.
type slice struct {
	requests int // each with all pages of a list
	posts    int // what the clients sent for them
	elapsed  time.Duration
	cpu      time.Duration   // of the target's process
	latency  []time.Duration // sorted
	upstream counts          // what reached the server
}

// measure runs everything and prints the report.
func measure(ctx context.Context, o options) (err error) {
	r, err := setUp(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.tearDown()) }()
	var picked []scenario
	for _, s := range scenarios() {
		if s.matches(o.scenario) && (!o.replicas || !s.stateless) {
			picked = append(picked, s)
		}
	}
	if len(picked) == 0 {
		return fmt.Errorf("no scenario %q", o.scenario)
	}
	results, err := r.runRounds(ctx, o, picked)
	if err != nil {
		return err
	}
	return report(ctx, os.Stdout, o, r, results)
}

// runRounds measures scenarios in all rounds.
func (r *rigged) runRounds(ctx context.Context, o options, picked []scenario) ([]result, error) {
	results := make([]result, len(picked))
	for i, s := range picked {
		results[i] = result{scenario: s, slices: map[string][]slice{}}
	}
	for round := range o.rounds {
		for i := range results {
			if err := r.runRound(ctx, o, round, &results[i]); err != nil {
				return nil, err
			}
		}
		fmt.Fprintf(os.Stderr, "round %d of %d\n", round+1, o.rounds)
	}
	return results, nil
}

// runRound measures a scenario once at each target. Each round begins with another target.
func (r *rigged) runRound(ctx context.Context, o options, round int, into *result) error {
	for i := range r.targets {
		t := r.targets[(round+i)%len(r.targets)]
		m, err := r.measureOne(ctx, into.scenario, t, o)
		if err != nil {
			return fmt.Errorf("%s, %s: %w", into.scenario.name, t.name, err)
		}
		into.slices[t.name] = append(into.slices[t.name], m)
	}
	return nil
}

func (r *rigged) measureOne(ctx context.Context, s scenario, t target, o options) (m slice, err error) {
	if err := r.chain.meet(s, t); err != nil {
		return m, err
	}
	clients := make([]*client, s.clients)
	defer func() {
		for _, c := range clients {
			if c != nil {
				err = errors.Join(err, c.close())
			}
		}
	}()
	for i := range clients {
		if clients[i], err = t.dial(s, r.chain.requests(s, t, i)[0].token); err != nil {
			return m, err
		}
	}
	if _, err := load(ctx, s, t, r.chain, clients, warmUp, o.rate); err != nil {
		return m, err
	}
	before, err := r.counts(ctx)
	if err != nil {
		return m, err
	}
	cpu, err := t.cpu()
	if err != nil {
		return m, err
	}
	if m, err = load(ctx, s, t, r.chain, clients, o.slice, o.rate); err != nil {
		return m, err
	}
	after, err := t.cpu()
	if err != nil {
		return m, err
	}
	m.cpu = after - cpu
	now, err := r.counts(ctx)
	if err != nil {
		return m, err
	}
	m.upstream = counts{Calls: now.Calls - before.Calls, Other: now.Other - before.Other}
	return m, s.checkCounts(m, t, r.background())
}

// background returns how many requests of all gateways' own may reach the server during one
// measurement.
func (r *rigged) background() (sum int64) {
	for _, t := range r.targets {
		if t.gateway {
			sum += background
		}
	}
	if r.chain != nil {
		sum *= int64(len(classes))
	}
	return sum
}

// checkCounts compares the requests that reached the server with those of the clients: each
// call must arrive once, and so must each page of a list, except through the gateway, which
// answers lists from its own catalog. Some other requests are the gateways' own.
func (s scenario) checkCounts(m slice, t target, background int64) error {
	calls, other := int64(m.requests), int64(0)
	if s.method != mcp.MethodToolsCall {
		calls = 0
		if !t.gateway {
			other = int64(m.posts)
		}
		if s.method == mcp.MethodInitialize {
			other *= 2 // with the notification that follows
		}
	}
	if m.upstream.Calls != calls {
		return fmt.Errorf("%d requests caused %d calls upstream, want %d", m.requests, m.upstream.Calls, calls)
	}
	if m.upstream.Other < other || m.upstream.Other > other+background {
		return fmt.Errorf("%d posts caused %d others upstream, want %d", m.posts, m.upstream.Other, other)
	}
	return nil
}

// load has all clients make requests, one after another, for a time: as many as they can, or together
// rate a second. The first wrong answer ends it.
func load(ctx context.Context, s scenario, t target, around *chain, clients []*client, d time.Duration,
	rate int) (slice, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	latencies := make([][]time.Duration, len(clients))
	requests := make([][]request, len(clients))
	for i := range clients {
		requests[i] = around.requests(s, t, i)
	}
	var wg sync.WaitGroup
	m := slice{}
	for _, c := range clients {
		m.posts -= c.id
	}
	start := time.Now()
	end := start.Add(d)
	due := func(client, n int) time.Time { // a request that is late counts from when it was due
		if rate == 0 {
			return time.Now()
		}
		at := start.Add(time.Duration(n*len(clients)+client) * time.Second / time.Duration(rate))
		time.Sleep(time.Until(at))
		return at
	}
	for i, c := range clients {
		wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				before := due(i, n)
				if before.After(end) {
					return
				}
				next := requests[i][n%len(requests[i])]
				c.token = next.token
				if err := s.run(c, next, i); err != nil {
					cancel(err)
					return
				}
				latencies[i] = append(latencies[i], time.Since(before))
			}
		})
	}
	wg.Wait()
	m.elapsed = time.Since(start)
	for _, c := range clients {
		m.posts += c.id
	}
	for _, l := range latencies {
		m.requests += len(l)
		m.latency = append(m.latency, l...)
	}
	sortDurations(m.latency)
	if ctx.Err() != nil {
		return m, context.Cause(ctx)
	}
	if m.requests == 0 {
		return m, errors.New("not one request")
	}
	return m, nil
}

// dial makes a client of the target and begins its session.
func (t target) dial(s scenario, token string) (*client, error) {
	if t.begin == "" {
		return dial(t.endpoint(s), s.stateless, token)
	}
	c, err := dial(t.begin, s.stateless, token)
	if err != nil {
		return nil, err
	}
	return c, c.move(t.url)
}

// cpu returns the CPU time that the target's processes have used so far.
func (t target) cpu() (sum time.Duration, err error) {
	for _, p := range t.processes {
		used, err := cpuTime(p.PID())
		if err != nil {
			return 0, err
		}
		sum += used
	}
	return sum, nil
}

// memory returns the resident memory of the target's processes, in bytes.
func (t target) memory() (sum int, err error) {
	for _, p := range t.processes {
		used, err := memory(p.PID())
		if err != nil {
			return 0, err
		}
		sum += used
	}
	return sum, nil
}

func (r *rigged) counts(ctx context.Context) (counts, error) {
	var c counts
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.counted, nil)
	if err != nil {
		return c, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return c, err
	}
	defer resp.Body.Close()
	return c, json.NewDecoder(io.LimitReader(resp.Body, 1<<10)).Decode(&c)
}
