package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

func newVersion() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version, its revision and the Go version",
		Args:  noArguments,
		RunE: work(func(cmd *cobra.Command) error {
			if asJSON {
				return printJSON(cmd.OutOrStdout(), built())
			}
			_, err := fmt.Fprint(cmd.OutOrStdout(), versionLine())
			return err
		}),
	}
	outputFlags(cmd, &asJSON, "print it as JSON")
	return cmd
}

func newSchema() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of the configuration",
		Long: "Prints the JSON Schema of the configuration, with the meaning and default of each key. An\n" +
			"editor that knows it completes keys and shows mistakes: write into the file's first line\n\n" +
			"  # yaml-language-server: $schema=./gatehouse.schema.json",
		Args: noArguments,
		RunE: work(func(cmd *cobra.Command) error {
			_, err := fmt.Fprint(cmd.OutOrStdout(), config.Schema())
			return err
		}),
	}
}

// build is what is known of the program.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision"` // the commit; "unknown" if the build did not record it
	Modified bool   `json:"modified"` // the files were not those of the commit
	Go       string `json:"go"`
}

func versionLine() string {
	b := built()
	if b.Modified {
		b.Revision += ", modified"
	}
	return fmt.Sprintf("gatehouse %s (revision %s, %s)\n", b.Version, b.Revision, b.Go)
}

func built() build {
	b := build{Version: mcp.Version(), Revision: "unknown", Go: runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			b.Revision = setting.Value
		case "vcs.modified":
			b.Modified = setting.Value == "true"
		}
	}
	return b
}

// newMan makes the hidden command with which packages get their manual pages.
func newMan() *cobra.Command {
	return &cobra.Command{
		Use:    "man DIR",
		Short:  "Write a manual page for each command",
		Long:   "Writes a manual page for each command into a directory. SOURCE_DATE_EPOCH sets their date.",
		Hidden: true,
		Args:   needs("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			root.DisableAutoGenTag = true // it has the day, and more than one build in a day is to be equal
			header := &doc.GenManHeader{Section: "1", Source: "Gatehouse " + mcp.Version(), Manual: "Gatehouse"}
			if err := doc.GenManTree(root, header, args[0]); err != nil {
				return &problemError{err}
			}
			return nil
		},
	}
}
