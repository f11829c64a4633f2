package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/interop/rig"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// sdk is the module that has the server which the suite is run against.
const sdk = "github.com/modelcontextprotocol/go-sdk"

// limit bounds the whole run; a cold cache is filled in it as well.
const limit = 15 * time.Minute

// errFound says that the run itself went well and found something.
var errFound = errors.New("conformance: there are differences, see above")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	only := flag.String("leg", "", "run only the leg of this name")
	verbose := flag.Bool("v", false, "print the gateway's log after each leg")
	flag.Parse()
	err := run(ctx, *only, *verbose)
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, err)
	if errors.Is(err, errFound) {
		os.Exit(1)
	}
	os.Exit(2)
}

// leg is one run of a suite, direct and through.
type leg struct {
	name     string
	suite    string // the package's name in npm/package.json
	revision string // what the suite's client speaks; "" for all that the suite knows
	sessions bool   // whether the server keeps sessions, and so speaks only stateful revisions
}

// legs are same-era pairs, then the two pairs across eras, in which only the
// gateway lets the suite's client and the server meet.
func legs() []leg {
	stateful, stateless := wire.NewestStateful().Name, wire.Stateless().Name
	return []leg{
		{name: "stable-sessions", suite: "conformance-stable", sessions: true},
		{name: "next-sessions", suite: "conformance-next", revision: stateful, sessions: true},
		{name: "next-stateless", suite: "conformance-next", revision: stateless},
		{name: "next-sessions-to-stateless", suite: "conformance-next", revision: stateful},
		{name: "next-stateless-to-sessions", suite: "conformance-next", revision: stateless, sessions: true},
	}
}

func run(ctx context.Context, only string, verbose bool) error {
	checkout, err := rig.FindCheckout()
	if err != nil {
		return err
	}
	here := func(elem ...string) string {
		return checkout.Path(append([]string{"internal", "conformance"}, elem...)...)
	}
	excused, err := readBaseline(here("baseline.yml"))
	if err != nil {
		return err
	}
	b := bench{verbose: verbose}
	if b.node, err = checkout.InstallNode(ctx, "conformance", here("npm")); err != nil {
		return err
	}
	if b.server, err = checkout.BuildModule(ctx, sdk, "conformance/everything-server"); err != nil {
		return err
	}
	if b.gateway, err = checkout.Build(ctx, "./cmd/gatehouse"); err != nil {
		return err
	}
	found, ran := 0, 0
	for _, l := range legs() {
		if only != "" && l.name != only {
			continue
		}
		ran++
		problems, err := b.runLeg(ctx, l, excused[l.name])
		if err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
		found += problems
	}
	if ran == 0 {
		return fmt.Errorf("no leg %q", only)
	}
	for name := range excused {
		if !isLeg(name) {
			return fmt.Errorf("baseline.yml: there is no leg %q", name)
		}
	}
	if found > 0 {
		return fmt.Errorf("%w (%d)", errFound, found)
	}
	return nil
}

func isLeg(name string) bool {
	for _, l := range legs() {
		if l.name == name {
			return true
		}
	}
	return false
}

// bench is what a leg is run with.
type bench struct {
	node            rig.Node
	server, gateway string // binaries
	verbose         bool
}

// runLeg runs one leg and prints its table; it returns how many problems it found.
func (b bench) runLeg(ctx context.Context, l leg, excused map[string]string) (int, error) {
	dir, err := os.MkdirTemp("", "conformance-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	direct, err := b.withServer(ctx, l, func(url string) (results, error) {
		return runSuite(ctx, b.node, l, url, filepath.Join(dir, "direct"))
	})
	if err != nil {
		return 0, fmt.Errorf("direct: %w", err)
	}
	through, err := b.withServer(ctx, l, func(url string) (results, error) {
		return b.withGateway(ctx, l, url, dir, func(url string) (results, error) {
			return runSuite(ctx, b.node, l, url, filepath.Join(dir, "through"))
		})
	})
	if err != nil {
		return 0, fmt.Errorf("through: %w", err)
	}
	return compare(direct, through, excused).print(os.Stdout, l.name), nil
}

// withServer runs fn with the URL of a fresh server: the suite changes its lists.
func (b bench) withServer(ctx context.Context, l leg, fn func(url string) (results, error)) (results, error) {
	addr, err := rig.FreeAddress()
	if err != nil {
		return nil, err
	}
	p, err := rig.Start(exec.Command(b.server, "-http="+addr, "-stateless="+strconv.FormatBool(!l.sessions)))
	if err != nil {
		return nil, err
	}
	if err := p.WaitListening(ctx, addr); err != nil {
		return nil, errors.Join(err, p.Stop())
	}
	r, err := fn("http://" + addr)
	return r, errors.Join(err, p.Stop())
}

// withGateway runs fn with the URL of a gateway that has the server at url as its
// only upstream, once it lists what the server has.
func (b bench) withGateway(ctx context.Context, l leg, url, dir string, fn func(url string) (results, error)) (results, error) {
	config := fmt.Sprintf("upstreams:\n  - {name: everything, url: %q, prefix: \"\"}\n", url)
	g, err := rig.StartGateway(ctx, rig.GatewayConfig{Binary: b.gateway, Dir: dir, Sections: config})
	if err != nil {
		return nil, err
	}
	ready, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := g.WaitTools(ready, "test_simple_text"); err != nil {
		return nil, errors.Join(err, g.Stop())
	}
	r, err := fn(g.URL)
	err = errors.Join(err, g.Stop())
	if b.verbose {
		fmt.Printf("log of the gateway, %s:\n%s\n", l.name, g.Log())
	}
	return r, err
}
