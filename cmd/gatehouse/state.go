package main

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/gateway/state"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// newState saves and restores what has to outlive gateways.
func newState() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "state",
		Short: "Save, restore or move users' accounts, grants and consents",
		Long: "Saves what has to outlive gateways, and restores it: users' accounts at servers, and grants,\n" +
			"consents and signing keys of auth.server. It is in state.directory of a gateway alone, or in\n" +
			"Redis. An export from one can be imported into the other.",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newStateExport(), newStateImport())
	return cmd
}

func newStateExport() *cobra.Command {
	var partial bool
	cmd := stateCommand(&cobra.Command{
		Use:   "export FILE",
		Short: "Write the state to a file",
		Long: "Writes the state to FILE, for its owner alone. Values stay sealed: to restore them, the keys are\n" +
			"needed, too (sessions.key, vault, or state.key in state.directory). Replicas may run; a gateway\n" +
			"alone has to be stopped before.",
		Example: "  gatehouse state export -c gatehouse.yaml backup.jsonl",
	}, "saved", func(cmd *cobra.Command, cfg config.Config, file string, log *slog.Logger) (state.Report, error) {
		return state.Export(cmd.Context(), cfg, file, mcp.Version(), partial, log)
	})
	cmd.Flags().BoolVar(&partial, "partial", false, "leave out what the keys of the configuration do not open")
	return cmd
}

func newStateImport() *cobra.Command {
	var replace bool
	cmd := stateCommand(&cobra.Command{
		Use:   "import FILE",
		Short: "Restore the state from a file",
		Long: "Restores the state from FILE, which export has written. What was revoked since then is good again:\n" +
			"revoke it once more. Stop a gateway alone before. Replicas may run, and know it after some seconds.",
		Example: "  gatehouse state import -c gatehouse.yaml backup.jsonl",
	}, "restored", func(cmd *cobra.Command, cfg config.Config, file string, log *slog.Logger) (state.Report, error) {
		return state.Import(cmd.Context(), cfg, file, replace, log)
	})
	cmd.Flags().BoolVar(&replace, "replace", false, "forget what is there: have only what FILE has")
	return cmd
}

// stateCommand makes a command with a file that does something to the state of a configuration.
func stateCommand(cmd *cobra.Command, done string,
	do func(*cobra.Command, config.Config, string, *slog.Logger) (state.Report, error)) *cobra.Command {
	var file string
	var asJSON bool
	configFlag(cmd, &file)
	outputFlags(cmd, &asJSON, "print what was "+done+", as JSON")
	cmd.Args = needs("FILE")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		cfg, _, err := config.Load(file)
		if err != nil {
			return &problemError{err}
		}
		log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelError}))
		r, err := do(cmd, cfg, args[0], log)
		if err != nil {
			return &problemError{err}
		}
		if asJSON {
			return printJSON(cmd.OutOrStdout(), r)
		}
		var parts []string
		for _, kind := range slices.Sorted(maps.Keys(r.Counts)) {
			parts = append(parts, fmt.Sprintf("%d %s", r.Counts[kind], kind))
		}
		w := cmd.OutOrStdout()
		counts := ""
		if len(parts) > 0 {
			counts = " (" + strings.Join(parts, ", ") + ")"
		}
		_, err = fmt.Fprintf(w, "%s: %d values of %s%s\n", done, r.Total(), r.Where, counts)
		if err == nil && r.Unopened > 0 {
			_, err = fmt.Fprintf(cmd.ErrOrStderr(), "left out: %d values that no key of the configuration opens\n", r.Unopened)
		}
		return err
	}
	return cmd
}
