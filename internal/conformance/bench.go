package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/interop/rig"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// bench holds what all legs need to run.
type bench struct {
	node                   rig.Node
	server, asker, gateway string // binaries
	explained              baseline
	only                   string // the one leg to run, "" for all
	verbose                bool
}

// run runs the legs of a face, prints a table for each, and returns the number of problems.
func (b bench) run(ctx context.Context, f face, out io.Writer) (int, error) {
	dir, err := os.MkdirTemp("", "conformance-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	problems := 0
	var direct results
	for _, leg := range f.legs() {
		if b.only != "" && leg != b.only {
			continue
		}
		if direct == nil { // the standard for both legs
			if direct, err = b.direct(ctx, f, filepath.Join(dir, "direct")); err != nil {
				return 0, fmt.Errorf("%s, direct: %w", f.name, err)
			}
		}
		isCrossed := leg != f.name
		through, err := b.through(ctx, f, isCrossed, filepath.Join(dir, leg), out)
		if err != nil {
			return 0, fmt.Errorf("%s, through: %w", leg, err)
		}
		problems += compare(direct, through, b.explained[leg], isCrossed || f.tasks).print(out, leg)
	}
	return problems, nil
}

// direct runs the suite against a server of its era, without a gateway.
func (b bench) direct(ctx context.Context, f face, dir string) (r results, err error) {
	err = b.withServerOf(ctx, f, f.stateful, func(url string) error {
		r, err = runAll(ctx, b.node, f, url, dir)
		return err
	})
	return r, err
}

// withServerOf runs fn with the URL of a server with the tools and resources that the suite
// expects.
func (b bench) withServerOf(ctx context.Context, f face, sessions bool, fn func(url string) error) error {
	if !f.tasks {
		return b.withServer(ctx, b.server, sessions, fn)
	}
	t := newTasker(sessions)
	defer t.close()
	return fn(t.URL)
}

// through runs the suite through a gateway. Where the server has the other era, scenarios
// with a stand-in are judged by their run against the stand-in.
func (b bench) through(ctx context.Context, f face, isCrossed bool, dir string, out io.Writer) (r results, err error) {
	sessions := f.stateful != isCrossed
	known := "test_simple_text"
	if f.tasks {
		known = "greet"
	}
	err = b.withServerOf(ctx, f, sessions, func(url string) error {
		return b.withGateway(ctx, url, known, filepath.Join(dir, "everything"), out, func(url string) error {
			r, err = runAll(ctx, b.node, f, url, filepath.Join(dir, "results"))
			return err
		})
	})
	if err != nil || !isCrossed || f.tasks {
		return r, err
	}
	err = b.withServer(ctx, b.asker, sessions, func(url string) error {
		return b.withGateway(ctx, url, known, filepath.Join(dir, "asker"), out, func(url string) error {
			for _, scenario := range standIns(f.stateful) {
				if r[scenario] == nil {
					continue // this revision has no such scenario
				}
				one, err := runSuite(ctx, b.node, f, scenario, url, filepath.Join(dir, scenario))
				if err != nil {
					return err
				}
				maps.Copy(r, one)
			}
			return nil
		})
	})
	return r, err
}

// withServer runs fn with the URL of a new server, because the suite changes the server's
// lists.
func (b bench) withServer(ctx context.Context, binary string, sessions bool, fn func(url string) error) error {
	addr, err := mcptest.FreeAddress("127.0.0.1")
	if err != nil {
		return err
	}
	p, err := rig.Start(exec.Command(binary, "-http="+addr, "-stateless="+strconv.FormatBool(!sessions)))
	if err != nil {
		return err
	}
	if err := p.WaitListening(ctx, addr); err != nil {
		return errors.Join(err, p.Stop())
	}
	err = fn("http://" + addr)
	return errors.Join(err, p.Stop())
}

// withGateway runs fn with the URL of a gateway with the server at url as its only upstream. It
// waits until the gateway lists a known tool of that server.
func (b bench) withGateway(ctx context.Context, url, known, dir string, out io.Writer,
	fn func(url string) error) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	config := fmt.Sprintf("upstreams:\n  - {name: everything, url: %q, prefix: \"\"}\n", url)
	g, err := rig.StartGateway(ctx, rig.GatewayConfig{Binary: b.gateway, Dir: dir, Sections: config})
	if err != nil {
		return err
	}
	ready, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := g.WaitTools(ready, known); err != nil {
		return errors.Join(err, g.Stop())
	}
	err = errors.Join(fn(g.URL), g.Stop())
	if b.verbose {
		fmt.Fprintf(out, "log of the gateway, %s:\n%s\n", filepath.Base(filepath.Dir(dir)), g.Log())
	}
	return err
}
