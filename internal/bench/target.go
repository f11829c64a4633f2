package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/interop/rig"
)

// target is one of the three that are compared. direct has no process of its own.
type target struct {
	name    string
	process *rig.Process // whose CPU counts; nil for direct
	url     string       // of its root, for the gateway of its endpoint
	gateway bool
}

func (t target) endpoint(s scenario) string {
	if t.gateway {
		return t.url
	}
	return t.url + s.path()
}

// rigged is everything that runs during a measurement.
type rigged struct {
	dir     string // of the gateway's config
	counted string // URL of the server's counters
	targets []target
	started []*rig.Process
}

// setUp starts the server, the bare proxy and the gateway.
func setUp(ctx context.Context, o options) (*rigged, error) {
	checkout, err := rig.FindCheckout()
	if err != nil {
		return nil, err
	}
	binary, err := checkout.Build(ctx, "./cmd/gatehouse")
	if err != nil {
		return nil, err
	}
	r := &rigged{}
	if r.dir, err = os.MkdirTemp("", "bench-"); err != nil {
		return nil, err
	}
	err = func() error {
		upstream, err := r.startRole(ctx, roleUpstream)
		if err != nil {
			return err
		}
		bare, err := r.startRole(ctx, roleBare, "-to", upstream.url)
		if err != nil {
			return err
		}
		g, err := startGateway(ctx, binary, r.dir, upstream.url, o)
		if err != nil {
			return err
		}
		r.started = append(r.started, g.Process)
		r.counted = upstream.url + pathCounts
		r.targets = []target{
			{name: "direct", url: upstream.url},
			{name: "bare", process: bare.process, url: bare.url},
			{name: "gatehouse", process: g.Process, url: g.URL, gateway: true},
		}
		ready, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		names := []string{publicName(upstreamStateful, "small"), publicName(upstreamStateless, "small")}
		for i := range lists {
			names = append(names, publicName(upstreamList(i), "tool_00"))
		}
		return g.WaitTools(ready, names...)
	}()
	if err != nil {
		return nil, errors.Join(err, r.tearDown())
	}
	return r, nil
}

// tearDown stops what was started, the last first.
func (r *rigged) tearDown() error {
	var errs []error
	for i := len(r.started) - 1; i >= 0; i-- {
		errs = append(errs, r.started[i].Stop())
	}
	return errors.Join(append(errs, os.RemoveAll(r.dir))...)
}

// startRole starts this program again, as one of its own servers.
func (r *rigged) startRole(ctx context.Context, role string, args ...string) (target, error) {
	self, err := os.Executable()
	if err != nil {
		return target{}, err
	}
	addr, err := rig.FreeAddress()
	if err != nil {
		return target{}, err
	}
	p, err := rig.Start(exec.Command(self, append([]string{role, "-listen", addr}, args...)...))
	if err != nil {
		return target{}, err
	}
	r.started = append(r.started, p)
	return target{name: role, process: p, url: "http://" + addr}, p.WaitListening(ctx, addr)
}

func startGateway(ctx context.Context, binary, dir, upstream string, o options) (rig.Gateway, error) {
	var config strings.Builder
	config.WriteString("upstreams:\n")
	add := func(name, path string) {
		fmt.Fprintf(&config, "  - {name: %s, url: %q, http_client: %s}\n", name, upstream+path, o.client)
	}
	add(upstreamStateful, pathStateful)
	add(upstreamStateless, pathStateless)
	for i := range lists {
		add(upstreamList(i), fmt.Sprintf("%s%d", pathTools, i))
	}
	// A file takes the log without a process that reads it.
	log, err := os.Create(o.log)
	if err != nil {
		return rig.Gateway{}, err
	}
	defer log.Close() // the child has its own copy
	return rig.StartGateway(ctx, rig.GatewayConfig{Binary: binary, Dir: dir, Sections: config.String(), Log: log})
}
