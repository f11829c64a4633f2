package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// columns returns how many characters a line of help has: those of the terminal, at least 60 and at most 120, or 100.
func columns() int {
	width, _, err := term.GetSize(int(os.Stdout.Fd()))
	if err != nil {
		return 100
	}
	return min(max(width, 60), 120)
}

// fitHelp breaks the lines of the help of a command, and of those below it.
func fitHelp(cmd *cobra.Command, width int) {
	if !cmd.HasParent() { // those below have its template
		usage := fmt.Sprintf(".FlagUsagesWrapped %d", width)
		cmd.SetUsageTemplate(strings.ReplaceAll(cmd.UsageTemplate(), ".FlagUsages", usage))
	}
	paragraphs := strings.Split(cmd.Long, "\n\n")
	for i, text := range paragraphs {
		if strings.Contains("\n"+text, "\n ") { // as it is written
			continue
		}
		var line int
		var b strings.Builder
		for _, word := range strings.Fields(text) {
			switch {
			case line > 0 && line+1+len(word) > width:
				b.WriteByte('\n')
				line = 0
			case line > 0:
				b.WriteByte(' ')
				line++
			}
			b.WriteString(word)
			line += len(word)
		}
		paragraphs[i] = b.String()
	}
	cmd.Long = strings.Join(paragraphs, "\n\n")
	for _, sub := range cmd.Commands() {
		fitHelp(sub, width)
	}
}
