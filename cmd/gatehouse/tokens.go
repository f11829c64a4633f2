package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/gateway/trial"
)

func newTokens() *cobra.Command {
	var file, view string
	var asJSON bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "tokens [--config FILE]",
		Short: "Say about how many tokens the descriptions of tools take",
		Long: "Connects to each upstream and says about how many tokens the descriptions of its tools\n" +
			"take in a model's context: in full, and in short as disclosure.mode progressive shows\n" +
			"them. A token is counted as four bytes of a tool's name, description and schema; which\n" +
			"mode is configured, and what policy hides, makes no difference. With --view, only what\n" +
			"the view shows counts.",
		Args: noArguments,
		RunE: work(func(cmd *cobra.Command) error {
			cfg, _, err := config.Load(file)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			reports, own, err := trial.Tokens(ctx, inspector(cmd.ErrOrStderr()), cfg, view)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), tokenAnswer{reports, own})
			}
			return printTokens(cmd.OutOrStdout(), reports, own)
		}),
	}
	configFlag(cmd, &file)
	cmd.Flags().StringVar(&view, "view", "", "count only the tools of the view with this `NAME`")
	outputFlags(cmd, &asJSON, "print the numbers as JSON")
	cmd.Flags().DurationVar(&timeout, "timeout", 90*time.Second, "how long to wait for the upstreams")
	return cmd
}

// tokenAnswer is the table for programs.
type tokenAnswer struct {
	Upstreams []trial.TokenReport `json:"upstreams"`
	Own       int                 `json:"own"` // tokens of the gateway's own tool
}

// printTokens prints the table; an upstream that is missing from it is an error.
func printTokens(w io.Writer, reports []trial.TokenReport, own int) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(table, "tools\tfull\tshort\tsaved\t  upstream\n")
	var total trial.TokenReport
	var missing []string
	row := func(r trial.TokenReport, name string) {
		fmt.Fprintf(table, "%d\t%d\t%d\t%s\t  %s\n", r.Tools, r.Full, r.Short, saved(r), name)
	}
	for _, r := range reports {
		if r.Problem != "" && r.Tools == 0 {
			missing = append(missing, r.Name)
			fmt.Fprintf(table, "-\t-\t-\t-\t  %s: %s\n", r.Name, r.Problem)
			continue
		}
		row(r, r.Name)
		total.Tools, total.Full, total.Short = total.Tools+r.Tools, total.Full+r.Full, total.Short+r.Short
	}
	fmt.Fprintf(table, "1\t-\t%d\t-\t  describe_tools, the gateway's own in mode progressive\n", own)
	total.Short += own
	row(total, "all")
	table.Flush()
	if len(missing) > 0 {
		return errors.New("not known: " + strings.Join(missing, ", "))
	}
	return nil
}

// saved returns the saving of the short form, in percent of the full one.
func saved(r trial.TokenReport) string {
	if r.Full == 0 {
		return "-"
	}
	return fmt.Sprintf("%d%%", (r.Full-r.Short)*100/r.Full)
}
