package main

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/gateway/demo"
)

func newDemo() *cobra.Command {
	var listen string
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run a gateway with three embedded MCP servers, and show how to use it",
		Args:  noArguments,
		RunE:  work(func(cmd *cobra.Command) error { return runDemo(cmd, listen) }),
	}
	cmd.Flags().StringVar(&listen, "listen", "", "`ADDRESS` of the endpoint (default 127.0.0.1:8080)")
	return cmd
}

func runDemo(cmd *cobra.Command, listen string) (err error) {
	executable, err := os.Executable()
	if err != nil {
		return err
	}
	ctx := untilSignal(cmd.Context())
	servers, err := demo.Start(ctx, demo.Options{Executable: executable, Listen: listen})
	if err != nil {
		return err
	}
	defer servers.Close()
	cfg, _, err := gateway.ParseConfig("demo", servers.Config())
	if err != nil {
		return err
	}
	g, err := gateway.New(gateway.Options{Config: cfg, Version: buildVersion()})
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w (gatehouse demo --listen 127.0.0.1:0 takes a free port)", err)
	}
	if err != nil {
		return err
	}
	// Said before it serves, since from then on log lines come in between.
	if err := servers.Welcome(cmd.OutOrStdout(), g.URL()); err != nil {
		return errors.Join(err, g.Stop(ctx))
	}
	return g.Run(ctx)
}

// newDemoStdio is the command by which the demo starts its stdio server, which is
// this program.
func newDemoStdio() *cobra.Command {
	return &cobra.Command{
		Use:    demo.StdioCommand,
		Hidden: true,
		Args:   noArguments,
		RunE: work(func(cmd *cobra.Command) error {
			return demo.ServeStdio(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
		}),
	}
}
