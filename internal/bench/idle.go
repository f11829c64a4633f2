package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/gatehouse-mcp/gatehouse/internal/interop/rig"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

const (
	// idleTarget is the most memory, heap and stacks in bytes, that an idle stream may take
	//.
	idleTarget = 30 << 10
	// openers is how many goroutines open streams at the same time.
	openers = 16
	// idleBefore is how many are opened before the count begins, to leave out what is
	// allocated once.
	idleBefore = 64
	oldPath    = "/sse"
)

// idle is a kind of thing that a client opens and then leaves idle.
type idle struct {
	name string
	open func(o *opener) error
	most float64 // limit of heap and stacks in bytes; 0 for none
}

func idles() []idle {
	return []idle{
		{"stream of a session (GET)", (*opener).get, idleTarget},
		{"subscription without a session", (*opener).listen, idleTarget},
		{"stream of HTTP+SSE", (*opener).old, idleTarget},
		{"session without a stream", (*opener).session, 0},
		{"connection without a request", (*opener).ping, 0},
	}
}

// footprint is the memory of a process in bytes.
type footprint struct{ rss, heap, stacks float64 }

// measureIdle opens many of each kind, each kind at a gateway of its own, and prints the
// memory of one.
func measureIdle(ctx context.Context, o options) error {
	checkout, err := rig.FindCheckout()
	if err != nil {
		return err
	}
	binary, err := checkout.Build(ctx, "./cmd/gatehouse")
	if err != nil {
		return err
	}
	fmt.Printf("%s  %s/%s  %d CPUs (%s)  %s  revision %s\n%d of each, at a gateway of its own; KiB\n\n",
		time.Now().UTC().Format("2006-01-02 15:04 UTC"),
		runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), cpuModel(), runtime.Version(), revision(ctx), o.idle)
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(table, "idle\theap\tstacks\tboth\tRSS\ttarget\t\n")
	var missed []string
	for _, kind := range idles() {
		each, err := measureOneIdle(ctx, o, binary, kind)
		if err != nil {
			return fmt.Errorf("%s: %w", kind.name, err)
		}
		both, target := each.heap+each.stacks, ""
		if kind.most > 0 {
			target = fmt.Sprintf("%.0f", kind.most/1024)
			if both > kind.most {
				target += " missed"
				missed = append(missed, kind.name)
			}
		}
		fmt.Fprintf(table, "%s\t%.1f\t%.1f\t%.1f\t%.1f\t%s\t\n", kind.name, each.heap/1024, each.stacks/1024, both/1024,
			each.rss/1024, target)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if o.gate && len(missed) > 0 {
		return fmt.Errorf("targets missed: %s", strings.Join(missed, ", "))
	}
	return nil
}

func measureOneIdle(ctx context.Context, o options, binary string, kind idle) (each footprint, err error) {
	r := &rigged{}
	defer func() { err = errors.Join(err, r.tearDown()) }()
	if r.dir, err = os.MkdirTemp("", "bench-"); err != nil {
		return each, err
	}
	server, err := r.startRole(ctx, roleUpstream)
	if err != nil {
		return each, err
	}
	admin, err := mcptest.FreeAddress("127.0.0.1")
	if err != nil {
		return each, err
	}
	n := o.idle + idleBefore
	limits := fmt.Sprintf("max_per_user: %d, max: %d, ", n, n)
	sessions := fmt.Sprintf("sessions: {%s}\n", limits)
	if o.replicas {
		redis, err := r.startRedis(ctx)
		if err != nil {
			return each, err
		}
		if sessions, err = redis.replica(limits); err != nil {
			return each, err
		}
	}
	g, err := rig.StartGateway(ctx, rig.GatewayConfig{Binary: binary, Dir: r.dir,
		// Collect often, so that the heap holds little garbage.
		Env: []string{"GOGC=5"},
		Sections: fmt.Sprintf("upstreams: [{name: %s, url: %q}, {name: %s, url: %q}]\nadmin: {listen: %s}\n%sconnections: {max: %d, per_address: %d}\nhttp: {sse_path: %s}\n",
			upstreamStateful, server.url+pathStateful, upstreamStateless, server.url+pathStateless, admin, sessions, 2*n,
			2*n, oldPath)})
	if err != nil {
		return each, err
	}
	r.started = append(r.started, g.Process)
	ready, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := g.WaitTools(ready, publicName(upstreamStateful, "small"),
		publicName(upstreamStateless, "small")); err != nil {
		return each, err
	}
	open := &opened{address: strings.TrimSuffix(strings.TrimPrefix(g.URL, "http://"), "/mcp")}
	defer open.closeAll()
	if err := open.more(kind, idleBefore); err != nil {
		return each, err
	}
	before, err := footprintOf(ctx, admin)
	if err != nil {
		return each, err
	}
	if err := open.more(kind, o.idle); err != nil {
		return each, err
	}
	after, err := footprintOf(ctx, admin)
	share := func(after, before float64) float64 { return (after - before) / float64(o.idle) }
	return footprint{share(after.rss, before.rss), share(after.heap, before.heap), share(after.stacks, before.stacks)}, err
}

// footprintOf reads a gateway's memory from its admin listener.
func footprintOf(ctx context.Context, admin string) (f footprint, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+admin+"/metrics", nil)
	if err != nil {
		return f, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return f, err
	}
	defer resp.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(resp.Body)
	if err != nil {
		return f, err
	}
	for name, into := range map[string]*float64{
		"process_resident_memory_bytes": &f.rss,
		"go_memstats_heap_alloc_bytes":  &f.heap,
		"go_memstats_stack_inuse_bytes": &f.stacks,
	} {
		if families[name] == nil {
			return f, fmt.Errorf("the gateway does not tell %s", name)
		}
		*into = families[name].Metric[0].GetGauge().GetValue()
	}
	return f, nil
}

// opened is everything that was opened at a gateway.
type opened struct {
	address string

	mu    sync.Mutex // guards conns
	conns []net.Conn
}

func (o *opened) closeAll() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, c := range o.conns {
		_ = c.Close() // nothing more is expected of it
	}
}

// more opens n more of a kind.
func (o *opened) more(kind idle, n int) error {
	var wg sync.WaitGroup
	errs := make([]error, openers)
	for i := range openers {
		wg.Go(func() {
			p := &opener{opened: o}
			defer p.close()
			for j := i; j < n && errs[i] == nil; j += openers {
				errs[i] = kind.open(p)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
