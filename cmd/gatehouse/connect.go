package main

import (
	"errors"

	"github.com/spf13/cobra"
)

// newConnect makes the command. What it does with --stdio is in bridge.go.
func newConnect() *cobra.Command {
	var stdio bool
	cmd := &cobra.Command{
		Use:   "connect --stdio URL",
		Short: "Connect a client that only starts programs",
		Long: "Carries MCP between the client that has started it, on standard input and output, and the\n" +
			"server at a URL. If the server asks for it, you sign in in your browser; docs/bridge.md has more.",
		Example: "  gatehouse connect --stdio http://127.0.0.1:8080/mcp",
		Args:    needs("URL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !stdio {
				return errors.New("--stdio is missing: " + cmd.UseLine())
			}
			return work(func(cmd *cobra.Command) error { return runBridge(cmd, args[0]) })(cmd, nil)
		},
	}
	cmd.Flags().BoolVar(&stdio, "stdio", false, "carry MCP between standard input and output and the URL")
	bridgeFlags(cmd)
	return cmd
}
