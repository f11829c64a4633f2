package main

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
)

// newStatus makes the command that shows problems of a running gateway.
func newStatus() *cobra.Command {
	o := &operator{role: admin.RoleViewer}
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show what is not well, why, and what to do",
		Long:  "Shows what is not well with the gateway, worst first, each with its cause and the next step. The\nexit code is 1 if something does not work.",
		Args:  noArguments,
	}
	return operatorCommand(cmd, o, func(cmd *cobra.Command, _ []string) error {
		var answer admin.Findings
		text, err := o.ask(cmd.Context(), http.MethodGet, "/api/v1/findings", nil, &answer)
		if err != nil {
			return err
		}
		if o.asJSON {
			_, err = cmd.OutOrStdout().Write(text)
		} else {
			err = printFindings(cmd.OutOrStdout(), answer.Findings, time.Now())
		}
		if err == nil && slices.ContainsFunc(answer.Findings,
			func(f admin.Finding) bool { return f.Severity == admin.Critical }) {
			return exitError(exitProblem)
		}
		return err
	})
}

// printFindings prints findings for people.
func printFindings(w io.Writer, all []admin.Finding, now time.Time) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(w, "everything is well, as far as this replica sees it")
		return err
	}
	t := newTable(w, "SEVERITY", "WHAT")
	for _, f := range all {
		colour := map[string]string{admin.Critical: red, admin.Warning: yellow}[f.Severity]
		t.add(cell{f.Severity, colour}, cell{f.What, bold})
		cause := f.Cause
		if f.Since != nil {
			cause += " (" + ago(*f.Since, now) + " ago)"
		}
		t.add(cell{"", plain}, cell{cause, plain})
		for line := range strings.Lines(f.Excerpt) {
			t.add(cell{"", plain}, cell{"  " + strings.TrimSuffix(line, "\n"), dim})
		}
		t.add(cell{"", plain}, cell{"next: " + f.Next, plain})
	}
	return t.flush()
}
