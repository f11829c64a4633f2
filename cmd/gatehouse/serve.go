package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

func newServe() *cobra.Command {
	var config string
	var allowUnknown bool
	cmd := &cobra.Command{
		Use:   "serve [--config FILE]",
		Short: "Run the gateway",
		Long: "Runs the gateway until SIGTERM or SIGINT, which lets running calls end within\n" +
			"shutdown_timeout. A second signal ends it at once. SIGHUP has it read the\n" +
			"configuration again, which it also does by itself when the file changes.",
		Args: noArguments,
		RunE: work(func(cmd *cobra.Command) error {
			g, err := gateway.New(gateway.Options{ConfigFile: config, Version: mcp.Version(), FitMemory: true,
				AllowUnknown: allowUnknown})
			if err != nil {
				return err
			}
			ctx := untilSignal(cmd.Context())
			defer reloadOnSignal(g)()
			return g.Run(ctx)
		}),
	}
	configFlag(cmd, &config)
	cmd.Flags().BoolVar(&allowUnknown, "allow-unknown-keys", false,
		"ignore keys of a later release, with a warning, except where they might restrict something")
	return cmd
}

// untilSignal returns a context that ends with the first SIGTERM or SIGINT. The second
// signal exits: it is handled here because its default action does nothing in a process
// with id 1, as in a container.
func untilSignal(parent context.Context) context.Context {
	ctx, cancel := context.WithCancel(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	go func() {
		<-signals
		cancel()
		<-signals
		fmt.Fprintln(os.Stderr, "gatehouse: a second signal came: ended at once, and what ran was cut off")
		os.Exit(exitProblem)
	}()
	return ctx
}

// reloadOnSignal makes the gateway reload its configuration at each SIGHUP, until stop is
// called. The gateway logs the result. Signals during a reload count as one.
func reloadOnSignal(g *gateway.Gateway) (stop func()) {
	signals, done, ended := make(chan os.Signal, 1), make(chan struct{}), make(chan struct{})
	signal.Notify(signals, syscall.SIGHUP)
	go func() {
		defer close(ended)
		for {
			select {
			case <-signals:
				_ = g.Reload()
			case <-done:
				return
			}
		}
	}()
	return func() {
		signal.Stop(signals)
		close(done)
		<-ended
	}
}
