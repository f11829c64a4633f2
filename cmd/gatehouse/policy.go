package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gatehouse-mcp/gatehouse/gateway/replay"
	"github.com/gatehouse-mcp/gatehouse/gateway/whatif"
)

// exitChanged is the exit code of a replay with a change that --fail-on names.
const exitChanged = 3

// mostShown bounds the changes of a replay that are printed without --json.
const mostShown = 50

func newPolicy() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Try a policy before it is in force",
		Args:  cobra.NoArgs,
	}
	cmd.AddCommand(newReplay())
	return cmd
}

// replayFlags are the flags of policy replay.
type replayFlags struct {
	question          whatif.Recorded
	since, until, key string
	failOn            []string
	asJSON            bool
}

func newReplay() *cobra.Command {
	var f replayFlags
	cmd := &cobra.Command{
		Use:   "replay --config DRAFT [--current FILE] [FILE...]",
		Short: "Say what a draft would change for recorded calls",
		Long: "Decides on recorded calls by a draft of a configuration, as a gateway with it would, and\n" +
			"says which calls of whom would be refused, asked about or allowed that were not, and\n" +
			"which another rule would decide. Limits are left aside. What depends on something that\n" +
			"records do not have is counted as untold, never guessed.\n\n" +
			"The records are in FILE..., or else in the files of the first sink of the type file of\n" +
			"the section audit, in --current, or without it in the draft. With --current, the rules in\n" +
			"force are looked at, too.\n\n" +
			"The exit code is 0, or 3 if something has changed that --fail-on names; 1 for a problem,\n" +
			"also if a file could not be read, and 2 for a command line that makes no sense.",
		Example: "  gatehouse policy replay -c new.yaml --since 24h --fail-on refused",
		RunE: func(cmd *cobra.Command, files []string) error {
			f.question.Files = files
			for _, change := range f.failOn {
				if !slices.Contains(replay.Changes, change) {
					return fmt.Errorf("--fail-on %q: want some of %s", change, strings.Join(replay.Changes, ", "))
				}
			}
			return f.run(cmd)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.question.Draft, "config", "c", "", "draft of a configuration, a `FILE` (YAML, required)")
	_ = cmd.MarkFlagRequired("config") // the flag is defined above
	flags.StringVar(&f.question.Current, "current", "", "configuration `FILE` in force")
	flags.StringVar(&f.since, "since", "", "a `TIME` (2026-11-23T08:00:00Z) or how long ago (24h)")
	flags.StringVar(&f.until, "until", "", "likewise, not included: a `TIME` or how long ago")
	flags.StringVar(&f.key, "key-file", "",
		"a `FILE` with the secret of audit.key, with which recorded arguments are known to be whole; - for standard input")
	flags.StringSliceVar(&f.failOn, "fail-on", nil,
		"`CHANGES` that make the exit code 3: "+strings.Join(replay.Changes, ", "))
	outputFlags(cmd, &f.asJSON, "print the whole report, as JSON")
	return cmd
}

func (f *replayFlags) run(cmd *cobra.Command) error {
	now := time.Now()
	var errs [3]error
	f.question.Since, errs[0] = readTime("since", f.since, now)
	f.question.Until, errs[1] = readTime("until", f.until, now)
	f.question.Key, errs[2] = readKey(cmd.InOrStdin(), f.key)
	if err := errors.Join(errs[:]...); err != nil {
		return &problemError{err}
	}
	report, err := whatif.Replay(cmd.Context(), f.question)
	if err != nil {
		return &problemError{err}
	}
	if f.asJSON {
		err = json.NewEncoder(cmd.OutOrStdout()).Encode(report)
	} else {
		printProblems(cmd.ErrOrStderr(), report)
		err = printReplay(cmd.OutOrStdout(), report, now)
	}
	if err == nil && slices.ContainsFunc(report.Problems, func(p replay.Problem) bool { return p.Line == 0 }) {
		err = errors.New("not all files could be read")
	}
	if err != nil {
		return &problemError{err}
	}
	for _, change := range f.failOn {
		if report.Changed[change] > 0 {
			return exitError(exitChanged)
		}
	}
	return nil
}

func printProblems(w io.Writer, r *replay.Report) {
	for _, p := range r.Problems {
		fmt.Fprintf(w, "%s: %s\n", placeOf(shown(p.File), p.Line), shown(p.Message))
	}
	if r.MoreProblems > 0 {
		fmt.Fprintf(w, "and %d more lines that are no records\n", r.MoreProblems)
	}
}

func placeOf(file string, line int) string {
	if line == 0 {
		return file
	}
	return fmt.Sprintf("%s:%d", file, line)
}

// changeTitles name the effects of a draft, each in its colour.
var changeTitles = map[string]cell{
	replay.Refused: {"refused", red}, replay.Asked: {"asked", yellow}, replay.Allowed: {"allowed", green},
	replay.Rule: {"rule", plain}, replay.Untold: {"untold", dim},
}

// printReplay prints a report for people.
func printReplay(w io.Writer, r *replay.Report, now time.Time) error {
	span := ""
	if r.Calls > 0 {
		span = fmt.Sprintf(", %s to %s", r.First.UTC().Format(time.RFC3339), r.Last.UTC().Format(time.RFC3339))
	}
	fmt.Fprintf(w, "%d calls%s: %d as they were\n", r.Calls, span, r.Same)
	for _, line := range []struct {
		change, text string
	}{
		{replay.Refused, "refused, and were not"}, {replay.Asked, "asked about, and were not"},
		{replay.Allowed, "allowed, and were not"},
		{replay.Rule, "decided alike by another rule"}, {replay.Untold, "cannot be told"},
	} {
		if n := r.Changed[line.change]; n > 0 {
			fmt.Fprintf(w, "  %d %s\n", n, line.text)
		}
	}
	if len(r.Rows) > 0 {
		fmt.Fprintln(w)
		if err := replayTable(w, r, now); err != nil {
			return err
		}
	}
	printUnused(w, "rules of the draft that applied to no call", r.Unused)
	printUnused(w, "rules in force that applied to no call", r.UnusedNow)
	if r.Unclear > 0 {
		fmt.Fprintf(w, "\nOf %d calls that are decided as they were, it cannot be told by which rule.\n", r.Unclear)
	}
	if r.Unchecked > 0 {
		fmt.Fprintf(w, "\n%d calls are judged without the input schema of their tool: with arguments that do not fit it, they are refused.\n", r.Unchecked)
	}
	for _, note := range r.Notes {
		fmt.Fprintf(w, "\n%s\n", note)
	}
	return nil
}

func replayTable(w io.Writer, r *replay.Report, now time.Time) error {
	t := newTable(w, "CHANGE", "CALLS", "FIRST", "LAST", "USER", "WHAT", "WAS", "NOW")
	for i, row := range r.Rows {
		if i == mostShown {
			break
		}
		what := row.What
		if row.View != "" {
			what += " at " + row.View
		}
		then := row.Reason
		if row.Now != nil {
			then = sideText(*row.Now)
		}
		user := row.User
		if user == "" {
			user = "-"
		}
		t.add(changeTitles[row.Change], cell{fmt.Sprint(row.Count), plain}, cell{clock(row.First, now), dim},
			cell{clock(row.Last, now), dim},
			cell{t.short(user, 30), plain}, cell{t.short(what, 60), plain}, cell{sideText(row.Was), plain}, cell{then, plain})
	}
	if err := t.flush(); err != nil {
		return err
	}
	if hidden := len(r.Rows) - mostShown; hidden > 0 || r.MoreRows > 0 {
		fmt.Fprintf(w, "and %d more lines, which --json has\n", max(hidden, 0))
	}
	return nil
}

// sideText describes a decision: the effect, its rule, and the place of that.
func sideText(s replay.Side) string {
	text := s.Decision
	if text == "" {
		text = "-"
	}
	if s.Rule != "" {
		text += " by " + s.Rule
	}
	if s.At != "" {
		text += " (" + s.At + ")"
	}
	if s.Why != "" {
		text += ": " + s.Why
	}
	return text
}

func printUnused(w io.Writer, title string, rules []replay.Unused) {
	if len(rules) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s:\n", title)
	for _, u := range rules {
		fmt.Fprintf(w, "  %s", shown(u.Rule))
		if u.At != "" {
			fmt.Fprintf(w, " (%s)", shown(u.At))
		}
		if u.Untold > 0 {
			fmt.Fprintf(w, ": of %d calls, that cannot be told", u.Untold)
		}
		fmt.Fprintln(w)
	}
}
