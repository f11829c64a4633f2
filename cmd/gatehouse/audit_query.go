package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gatehouse-mcp/gatehouse/internal/record"
)

func newAuditQuery() *cobra.Command {
	var filter record.Filter
	var since, until string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "query FILE...",
		Short: "Find records by user, tool, decision or time",
		Long: "Reads files of records, in any order, and prints a line for each record that fits\n" +
			"every flag that is given, oldest first; with --json, the record itself. Files are read\n" +
			"as streams, whatever their size. It does not say whether records were changed: see\n" +
			"gatehouse audit verify.",
		Example: "  gatehouse audit query --user alice --decision deny --since 24h audit*.jsonl",
		Args:    needs("FILE..."),
		RunE: func(cmd *cobra.Command, files []string) error {
			now := time.Now()
			var errs [3]error
			filter.Since, errs[0] = readTime("since", since, now)
			filter.Until, errs[1] = readTime("until", until, now)
			if errs[2] = record.CheckAddress(filter.ClientAddress); errs[2] != nil {
				errs[2] = misuse("--address %q: %w", filter.ClientAddress, errs[2])
			}
			err := errors.Join(errs[:]...)
			if err == nil {
				err = queryAudit(cmd.OutOrStdout(), files, filter, asJSON)
			}
			if err != nil {
				return &problemError{err}
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&filter.User, "user", "", "`NAME` of the user, as records have it")
	nameFlag(cmd, &filter.Name,
		"`NAME` of the tool, prompt or skill, or URI: the public one, the server's own, or server/name")
	flags.StringVar(&filter.Upstream, "upstream", "", "`NAME` of the server")
	flags.StringVar(&filter.ID, "id", "", "`ID` of the call")
	flags.StringVar(&filter.Session, "session", "", "`DIGEST` of the session")
	flags.StringSliceVar(&filter.Kinds, "kind", nil,
		"`KINDS` of records: call, signin, session, reload, lists, credential, admin, anchor, gap")
	flags.StringSliceVar(&filter.Decisions, "decision", nil, "`DECISIONS`: allow, ask, deny, unknown")
	flags.StringSliceVar(&filter.Outcomes, "outcome", nil, "`OUTCOMES`, as in metrics")
	flags.StringVar(&filter.ClientAddress, "address", "", "the client's `ADDRESS`, or a network such as 10.0.0.0/8")
	flags.StringVar(&filter.UserAgent, "user-agent", "", "a part of what the client calls itself")
	flags.StringVar(&since, "since", "", "a `TIME` (2026-11-23T08:00:00Z) or how long ago (24h)")
	flags.StringVar(&until, "until", "", "likewise, not included: a `TIME` or how long ago")
	outputFlags(cmd, &asJSON, "print the records themselves, one JSON object a line")
	return cmd
}

// readTime reads a time, or a duration before now.
func readTime(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if ago, err := time.ParseDuration(text); err == nil {
		return now.Add(-ago), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, misuse("--%s %q: want a time such as 2026-11-23T08:00:00Z, or how long ago, such as 24h", flag, text)
	}
	return at, nil
}

func queryAudit(w io.Writer, files []string, filter record.Filter, asJSON bool) error {
	out := bufio.NewWriter(w)
	err := record.QueryFiles(files, filter, func(line []byte, e *record.Record) error {
		if asJSON {
			_, err := fmt.Fprintf(out, "%s\n", line)
			return err
		}
		what := strings.TrimSpace(e.Method + " " + e.Name)
		_, err := fmt.Fprintf(out, "%s  %-10s  %-16s  %s  %s\n",
			e.Time.Format("2006-01-02 15:04:05.000"), e.Kind, shown(cmp.Or(e.User, "-")), shown(cmp.Or(what, "-")),
			shown(e.What()))
		return err
	})
	return errors.Join(err, out.Flush())
}
