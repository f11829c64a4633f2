package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gatehouse-mcp/gatehouse/internal/interop/rig"
)

// sdk is the module with the server that the suite tests.
const sdk = "github.com/modelcontextprotocol/go-sdk"

// limit bounds the whole run, including filling a cold cache.
const limit = 15 * time.Minute

// atOnce is how many faces run at the same time.
const atOnce = 2

// errFound means that the run itself succeeded and found differences.
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

func run(ctx context.Context, only string, verbose bool) error {
	if only != "" && !isLeg(only) {
		return fmt.Errorf("no leg %q", only)
	}
	checkout, err := rig.FindCheckout()
	if err != nil {
		return err
	}
	here := func(elem ...string) string {
		return checkout.Path(append([]string{"internal", "conformance"}, elem...)...)
	}
	b := bench{only: only, verbose: verbose}
	if b.explained, err = readBaseline(here("baseline.yml")); err != nil {
		return err
	}
	if b.node, err = checkout.InstallNode(ctx, "conformance", here("npm")); err != nil {
		return err
	}
	if b.server, err = checkout.BuildModule(ctx, sdk, "conformance/everything-server"); err != nil {
		return err
	}
	if b.asker, err = checkout.Build(ctx, "./internal/conformance/asker"); err != nil {
		return err
	}
	if b.gateway, err = checkout.Build(ctx, "./cmd/gatehouse"); err != nil {
		return err
	}
	all := faces()
	outs, found := make([]bytes.Buffer, len(all)), make([]int, len(all))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i, f := range all {
		group.Go(func() (err error) {
			found[i], err = b.run(ctx, f, &outs[i])
			return err
		})
	}
	err = group.Wait()
	problems := 0
	for i := range all {
		problems += found[i]
		os.Stdout.Write(outs[i].Bytes())
	}
	if err == nil && problems > 0 {
		err = fmt.Errorf("%w (%d)", errFound, problems)
	}
	return err
}
