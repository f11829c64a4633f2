package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/interop/rig"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

const (
	deskServers = 200     // of 50 tools each
	deskCalls   = 100_000 // that are recorded before pages are opened
	deskViewers = 50      // of the live tail
	deskClients = 8       // that call
	deskTimes   = 20      // that each page is opened
	// deskTarget is the most that a page may take at the server.
	deskTarget = 200 * time.Millisecond
)

// deskPages are the pages of the console that have the most to show.
var deskPages = []string{
	"/console/", "/console/servers", "/console/servers/list0", "/console/catalog", "/console/catalog?kind=tools&from=5000",
	"/console/calls", "/console/calls?user=nobody",
	"/console/policy", "/console/sessions", "/console/sign-ins", "/console/approvals", "/console/configuration",
}

// measureDesk measures what the console costs beside the endpoint: how long its pages take with many
// servers and records, and what people who watch the live tail cost clients.
func measureDesk(ctx context.Context, o options) (err error) {
	checkout, err := rig.FindCheckout()
	if err != nil {
		return err
	}
	binary, err := checkout.Build(ctx, "./cmd/gatehouse")
	if err != nil {
		return err
	}
	r := &rigged{}
	defer func() { err = errors.Join(err, r.tearDown()) }()
	if r.dir, err = os.MkdirTemp("", "bench-"); err != nil {
		return err
	}
	server, err := r.startRole(ctx, roleUpstream, "-lists", strconv.Itoa(deskServers))
	if err != nil {
		return err
	}
	admin, err := mcptest.FreeAddress("127.0.0.1")
	if err != nil {
		return err
	}
	o.upstreams = deskServers
	g, err := r.startGateway(ctx, binary, server.url,
		"policy: {rules: [{name: all, allow: [\"*:*\"]}]}\nadmin: {listen: "+admin+", console: {loopback: auditor}}\n", o,
		rig.GatewayConfig{})
	if err != nil {
		return err
	}
	d := desk{at: "http://" + admin, gateway: named("gatehouse", g), call: scenarios()[3]}
	fmt.Printf("%s  %s/%s  %d CPUs (%s)  %s  revision %s\n%d servers with %d tools, %d calls recorded\n\n",
		time.Now().UTC().Format("2006-01-02 15:04 UTC"),
		runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), cpuModel(), runtime.Version(), revision(ctx), deskServers,
		deskServers*perList, deskCalls)
	if _, err := d.load(ctx, deskCalls, 0); err != nil {
		return err
	}
	missed, err := d.pages(ctx)
	if err == nil {
		err = d.viewers(ctx, admin, o.slice)
	}
	if err == nil && o.gate && missed > 0 {
		err = fmt.Errorf("%d pages take longer than %s", missed, deskTarget)
	}
	return err
}

// desk is the console of a gateway.
type desk struct {
	at      string
	gateway target
	call    scenario
}

// load makes calls: so many, or for some time. It returns how long each took.
func (d desk) load(ctx context.Context, calls int64, last time.Duration) (took []time.Duration, err error) {
	var left atomic.Int64
	left.Store(calls)
	until := time.Now().Add(last)
	var mu sync.Mutex // guards took and err
	var all sync.WaitGroup
	for client := range deskClients {
		all.Go(func() {
			var own []time.Duration
			c, failed := d.gateway.dial(d.call, "")
			if failed == nil {
				request := d.call.request(d.call.upstream(), client, mcp.Raw("{}"))
				for failed == nil && ctx.Err() == nil && (last > 0 && time.Now().Before(until) || last == 0 && left.Add(-1) >= 0) {
					began := time.Now()
					failed = d.call.run(c, request, client)
					own = append(own, time.Since(began))
				}
				failed = errors.Join(failed, c.close())
			}
			mu.Lock()
			defer mu.Unlock()
			took, err = append(took, own...), errors.Join(err, failed)
		})
	}
	all.Wait()
	slices.Sort(took)
	return took, err
}

// pages opens each page and prints how long that takes. It returns how many take too long.
func (d desk) pages(ctx context.Context) (missed int, err error) {
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(table, "page\tKiB\tp50 ms\tmax ms\ttarget\t\n")
	for _, page := range deskPages {
		var took []time.Duration
		var size int64
		for range deskTimes {
			began := time.Now()
			answer, err := d.open(ctx, page, "text/html")
			if err != nil {
				return missed, err
			}
			size, err = io.Copy(io.Discard, answer)
			took = append(took, time.Since(began))
			if err = errors.Join(err, answer.Close()); err != nil {
				return missed, err
			}
		}
		slices.Sort(took)
		target := ms(deskTarget)
		verdict := fmt.Sprintf("%.0f", target)
		if percentile(took, 50) > deskTarget {
			missed++
			verdict += " missed"
		}
		fmt.Fprintf(table, "%s\t%.0f\t%.1f\t%.1f\t%s\t\n", page, float64(size)/1024, ms(percentile(took, 50)),
			ms(took[len(took)-1]), verdict)
	}
	return missed, table.Flush()
}

// open asks for a page.
func (d desk) open(ctx context.Context, page, accept string) (io.ReadCloser, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, d.at+page, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", accept)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("%s: HTTP %d", page, answer.StatusCode), answer.Body.Close())
	}
	return answer.Body, nil
}

// viewers prints what calls and memory are like before and while people watch the live tail.
func (d desk) viewers(ctx context.Context, admin string, slice time.Duration) error {
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(table, "\nviewers\tcalls/s\tp50 ms\tp99 ms\theap MiB\tRSS MiB\tseen MiB\t\n")
	ctx, stop := context.WithCancel(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer stop()
	var seen atomic.Int64
	for i, viewers := range []int{0, deskViewers, deskViewers} {
		if i == 1 {
			for range viewers {
				stream, err := d.open(ctx, "/console/calls", "text/event-stream")
				if err != nil {
					return err
				}
				watching.Go(func() {
					defer stream.Close()
					_, _ = io.Copy(counter{&seen}, stream) // until ctx ends
				})
			}
		}
		took, err := d.load(ctx, 0, 5*slice)
		if err != nil {
			return err
		}
		f, err := footprintOf(ctx, admin)
		if err != nil {
			return err
		}
		fmt.Fprintf(table, "%d\t%.0f\t%.2f\t%.2f\t%.0f\t%.0f\t%.1f\t\n", viewers, float64(len(took))/(5*slice).Seconds(),
			ms(percentile(took, 50)), ms(percentile(took, 99)),
			f.heap/(1<<20), f.rss/(1<<20), float64(seen.Load())/(1<<20))
	}
	return table.Flush()
}

// counter counts what is written to it.
type counter struct{ n *atomic.Int64 }

// Write counts.
func (c counter) Write(b []byte) (int, error) {
	c.n.Add(int64(len(b)))
	return len(b), nil
}
