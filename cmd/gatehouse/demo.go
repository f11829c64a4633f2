package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/gateway/demo"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// demoFlags are the flags of the command.
type demoFlags struct {
	listen  string
	noAuth  bool
	offline bool
	short   bool
	quiet   bool
}

func newDemo() *cobra.Command {
	var flags demoFlags
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run a gateway with everything embedded, and show how to use it",
		Long: "Runs a gateway in front of three embedded MCP servers and a directory of skills, with\n" +
			"users who have different rights and a page to sign in as one of them, and prints\n" +
			"commands to try it with.",
		Args: noArguments,
		RunE: work(func(cmd *cobra.Command) error { return runDemo(cmd, flags) }),
	}
	cmd.Flags().StringVar(&flags.listen, "listen", "127.0.0.1:8080", "`ADDRESS` of the endpoint, on this machine")
	cmd.Flags().BoolVar(&flags.noAuth, "no-auth", false, "without sign-in and policy: everyone may use everything")
	cmd.Flags().BoolVar(&flags.offline, "offline", false,
		"clients register; their metadata documents on the web are not read")
	cmd.Flags().BoolVar(&flags.quiet, "no-clients", false,
		"without the clients of other users that call something now and then, for the console to show")
	cmd.Flags().BoolVar(&flags.short, "progressive", false,
		"tools are listed in short, and described in full when a model asks")
	return cmd
}

func runDemo(cmd *cobra.Command, flags demoFlags) (err error) {
	executable, err := os.Executable()
	if err != nil {
		return err
	}
	ctx := untilSignal(cmd.Context())
	log := slog.New(demo.WithoutVisitors(slog.NewTextHandler(cmd.ErrOrStderr(), nil)))
	// Tokens are for one URL, so the port has to be known first.
	listener, err := net.Listen("tcp", flags.listen)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w (gatehouse demo --listen 127.0.0.1:0 takes a free port)", err)
	}
	if err != nil {
		return err
	}
	defer listener.Close() // the gateway closes it; this is for errors before that
	admin, err := demo.ListenBeside(listener.Addr())
	if err != nil {
		return err
	}
	defer admin.Close() // likewise
	parts, err := demo.Start(ctx, demo.Options{
		Executable: executable,
		Command:    os.Args[0],
		Bold:       isTerminal(cmd.OutOrStdout()),
		Listen:     listener.Addr().String(),
		Admin:      admin.Addr().String(),
		SignIn:     !flags.noAuth,
		Offline:    flags.offline,

		Progressive: flags.short,
		Log:         log,
	})
	if err != nil {
		return err
	}
	defer parts.Close()
	file, err := parts.WriteConfig()
	if err != nil {
		return err
	}
	g, err := gateway.New(gateway.Options{
		ConfigFile: file, Version: mcp.Version(), Listener: listener, Admin: admin, Log: log,
	})
	if err != nil {
		return err
	}
	// Printed before the gateway serves, because log lines follow from then on.
	if err := parts.Welcome(cmd.OutOrStdout(), g.URL()); err != nil {
		return errors.Join(err, g.Stop(ctx))
	}
	if !flags.quiet {
		defer parts.Visit(ctx, g.URL())()
	}
	return g.Run(ctx)
}

// newDemoStdio makes the command of the demo's stdio server, which is this program.
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
