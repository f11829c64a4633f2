// Command gatehouse is one MCP endpoint in front of many MCP servers.
//
// It owns flags, signals and exit codes, with one file for each command. It leaves all
// other work to package gateway. A command that serves has one goroutine that waits for
// signals until the process ends.
//
// Exit codes: 0 for success, 1 for a problem, 2 for an invalid command line; explain has
// others for the decisions of policy.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
)

const (
	exitProblem = 1
	exitUsage   = 2
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.Execute()
	if err == nil {
		return 0
	}
	if code, ok := errors.AsType[exitError](err); ok {
		return int(code)
	}
	problem, ok := errors.AsType[*problemError](err)
	if !ok { // from cobra: the command line
		fmt.Fprintf(stderr, "gatehouse: %v\nRun 'gatehouse --help' for how to use it.\n", err)
		return exitUsage
	}
	printProblem(stderr, problem.err)
	return exitProblem
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "gatehouse",
		Short:         "One MCP endpoint in front of many MCP servers",
		Long:          "Gatehouse is one MCP endpoint in front of many MCP servers: clients and servers of\nevery revision, one URL, one list of tools.",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(newServe(), newCheck(), newExplain(), newCalls(), newWhy(), newSessions(), newUpstreams(), newReload(), newLock(), newAudit(), newTokens(), newDemo(), newDemoStdio(), newVersion())
	return root
}

// problemError marks an error of a command's work, as opposed to wrong usage.
type problemError struct{ err error }

func (e *problemError) Error() string { return e.err.Error() }

// exitError ends a command with an exit code; the command has already printed everything.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// work turns a function whose errors are problems into a cobra command's RunE.
func work(do func(*cobra.Command) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		if err := do(cmd); err != nil {
			return &problemError{err}
		}
		return nil
	}
}

// noArguments refuses arguments; the most likely one is a file without its flag.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if cmd.Flags().Lookup("config") != nil {
		return fmt.Errorf("unexpected %q: write --config %s", args[0], args[0])
	}
	return fmt.Errorf("unexpected %q", args[0])
}

// printProblem writes an error for people, with each problem of a configuration on its own
// line, so that editors can jump to it.
func printProblem(w io.Writer, err error) {
	bad, ok := errors.AsType[*gateway.ConfigError](err)
	if !ok {
		fmt.Fprintf(w, "gatehouse: %v\n", err)
		return
	}
	for _, p := range bad.Problems {
		fmt.Fprintln(w, p)
	}
	count := fmt.Sprintf("%d problems", len(bad.Problems))
	if len(bad.Problems) == 1 {
		count = "1 problem"
	}
	fmt.Fprintf(w, "gatehouse: %s in the configuration (%s)\n", count, failure.ConfigInvalid)
}
