package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
)

const (
	exitProblem = 1
	exitUsage   = 2
)

// problemError marks an error of a command's work, as opposed to wrong usage.
type problemError struct{ err error }

func (e *problemError) Error() string { return e.err.Error() }
func (e *problemError) Unwrap() error { return e.err }

// exitError ends a command with an exit code; the command has already printed everything.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// work turns a function into a cobra command's RunE; its errors are problems.
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

// needs checks the arguments of a command by their names. A last one that ends with ... may come
// again, and one in brackets may be left out.
func needs(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		for i, name := range names {
			if i >= len(args) && !strings.HasPrefix(name, "[") {
				return fmt.Errorf("%s is missing: %s", strings.TrimSuffix(name, "..."), cmd.UseLine())
			}
		}
		if len(args) > len(names) && !strings.HasSuffix(names[len(names)-1], "...") {
			return fmt.Errorf("unexpected %q: %s", args[len(names)], cmd.UseLine())
		}
		return nil
	}
}

// nameFlag adds the flag --name, also as --tool.
func nameFlag(cmd *cobra.Command, value *string, usage string) {
	cmd.Flags().StringVar(value, "name", "", usage)
	cmd.Flags().StringVar(value, "tool", "", usage)
	if err := cmd.Flags().MarkHidden("tool"); err != nil {
		panic(err) // the flag is defined above
	}
}

// outputFlags adds --json, and -o json as many programs have it.
func outputFlags(cmd *cobra.Command, asJSON *bool, usage string) {
	cmd.Flags().BoolVar(asJSON, "json", false, usage)
	cmd.Flags().VarP((*output)(asJSON), "output", "o", "`FORMAT`: text or json")
}

// output is the value of -o: whether the format is JSON.
type output bool

// String returns the name of the format.
func (o *output) String() string {
	if *o {
		return "json"
	}
	return "text"
}

// Set takes the name of a format.
func (o *output) Set(format string) error {
	if format != "json" && format != "text" {
		return errors.New("want text or json")
	}
	*o = format == "json"
	return nil
}

// Type names the value in the usage.
func (o *output) Type() string { return "format" }

// printJSON prints an answer for programs.
func printJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(v)
}

// printProblem writes an error for people, with each problem of a configuration on its own
// line, so that editors can jump to it.
func printProblem(w io.Writer, err error) {
	bad, ok := errors.AsType[*config.Error](err)
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
