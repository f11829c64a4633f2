package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"regexp"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/gateway/trial"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

const (
	exitProblem = 1
	exitUsage   = 2
)

// problemError marks an error of a command's work, as opposed to wrong usage.
type problemError struct{ err error }

func (e *problemError) Error() string { return e.err.Error() }
func (e *problemError) Unwrap() error { return e.err }

// usageError marks an error of the command line that a command finds while it works.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// misuse returns a usageError.
func misuse(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

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

// configFiles are where the configuration is found without --config; the first that is there counts.
var configFiles = []string{"gatehouse.yaml", "/etc/gatehouse/gatehouse.yaml"}

// configFlag adds the flag --config. Before the command runs, the file is found where none is named.
func configFlag(cmd *cobra.Command, file *string) {
	namedConfig(cmd, file)
	cmd.PreRunE = func(*cobra.Command, []string) error { return findConfig(file) }
}

// namedConfig is configFlag for a command that finds the file itself.
func namedConfig(cmd *cobra.Command, file *string) {
	cmd.Flags().StringVarP(file, "config", "c", "",
		"configuration `FILE` (YAML); by default "+strings.Join(configFiles, ", else "))
}

// findConfig finds the configuration where none is named.
func findConfig(file *string) error {
	for _, found := range configFiles {
		if *file != "" {
			return nil
		}
		if _, err := os.Stat(found); err == nil {
			*file = found
		} else if !errors.Is(err, fs.ErrNotExist) {
			return &problemError{fmt.Errorf("--config is missing, and %w", err)}
		}
	}
	if *file == "" {
		return errNoConfig
	}
	return nil
}

// errNoConfig is the error where no configuration is named, and none is found.
var errNoConfig = fmt.Errorf("--config is missing, and there is no %s", strings.Join(configFiles, " and no "))

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

// columns returns how many characters a line has: COLUMNS or the terminal says it. It returns 0 where neither does.
func columns() int {
	if width, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && width > 0 {
		return width
	}
	width, _, _ := term.GetSize(int(os.Stdout.Fd()))
	return max(width, 0)
}

// fitHelp breaks the lines of the help of a command, and of those below it.
func fitHelp(root *cobra.Command) {
	width := min(max(cmp.Or(columns(), 100), 60), 120)
	usage := fmt.Sprintf(".FlagUsagesWrapped %d", width)
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages", usage)) // those below have it, too
	line := regexp.MustCompile(fmt.Sprintf("(.{1,%d})(?: |$)", width))
	for all := []*cobra.Command{root}; len(all) > 0; all = append(all[1:], all[0].Commands()...) {
		paragraphs := strings.Split(all[0].Long, "\n\n")
		for i, text := range paragraphs {
			if !strings.Contains("\n"+text, "\n ") { // else it stays as it is written
				words := strings.Join(strings.Fields(text), " ")
				paragraphs[i] = strings.TrimSuffix(line.ReplaceAllString(words, "$1\n"), "\n")
			}
		}
		all[0].Long = strings.Join(paragraphs, "\n\n")
	}
}

// inspector connects to upstreams for a command. Its warnings go to w.
func inspector(w io.Writer) trial.Inspect {
	return gateway.Inspector(mcp.Version(), slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelWarn})))
}
