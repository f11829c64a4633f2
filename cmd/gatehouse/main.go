// Command gatehouse is one MCP endpoint in front of many MCP servers.
//
// It owns flags, signals and exit codes, with one file for each command. It leaves all
// other work to package gateway. A command that serves has one goroutine that waits for
// signals until the process ends.
//
// Exit codes: 0 for success, 1 for a problem, 2 for an invalid command line; explain and
// policy replay have others for what they find out.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"

	"github.com/spf13/cobra"

	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport/stdio/sandbox"
)

func main() {
	sandbox.Main()
	if err := protect(); err != nil {
		fmt.Fprintf(os.Stderr, "gatehouse: other programs of this user may read secrets of this one: %v\n", err)
	}
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
	if _, misused := errors.AsType[usageError](err); misused || !ok { // without ok, it is cobra's
		text := excluded.ReplaceAllString(err.Error(), "flags that do not go together: --$1 --$2")
		fmt.Fprintf(stderr, "gatehouse: %s\nRun 'gatehouse --help' for how to use it.\n", text)
		return exitUsage
	}
	printProblem(stderr, problem.err)
	return exitProblem
}

// excluded matches cobra's words for two flags that exclude each other.
var excluded = regexp.MustCompile(`^if any flags .*; \[(\S+) (\S+)\] were all set$`)

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "gatehouse",
		Short:         "One MCP endpoint in front of many MCP servers",
		Long:          "Gatehouse is one MCP endpoint in front of many MCP servers: clients and servers of\nevery revision, one URL, one list of tools.",
		Version:       mcp.Version(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetVersionTemplate(versionLine())
	root.AddCommand(newInit(), newConnect(), newServe(), newCheck(), newSchema(), newDiscover(),
		newExplain(), newCalls(), newWhy(), newSessions(), newAccounts(),
		newUpstreams(), newStatus(), newHealth(), newApprovals(),
		newDecide(admin.Approve, "Approve of a call that waits"), newDecide(admin.Refuse, "Refuse a call that waits"),
		newReload(), newLock(), newPolicy(), newAudit(), newTokens(), newKey(), newAuth(), newState(), newDemo(),
		newDemoStdio(), newVersion(), newMan())
	fitHelp(root)
	return root
}
