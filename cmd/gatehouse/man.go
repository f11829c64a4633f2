package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

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
