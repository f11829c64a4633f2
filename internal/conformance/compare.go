package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// comparison is the result of a leg, a row for each scenario.
type comparison []row

type row struct {
	scenario        string
	direct, through []check
	verdict         verdict
	notes           []string
}

type verdict string

const (
	same          verdict = "ok"
	better        verdict = "better through us"
	expected      verdict = "expected failure"
	untested      verdict = "not applicable through us"
	explainedLoss verdict = "lost, for a reason"
	// The rest are problems.
	worse     verdict = "WORSE THROUGH US"
	unknown   verdict = "NEW FAILURE"
	unexcused verdict = "NOT APPLICABLE, AND NOT IN THE BASELINE"
	stale     verdict = "NOT IN NEED OF ITS BASELINE ENTRY"
	missing   verdict = "IN THE BASELINE, BUT NOT IN THE SUITE"
)

func (v verdict) problem() bool {
	return v != same && v != better && v != expected && v != untested && v != explainedLoss
}

// compare compares the results through the gateway with the direct ones and the baseline, by
// scenario. The baseline can explain a loss only with mayLose: the server has the other era, or it
// leaves to the gateway what it cannot do for its client.
func compare(direct, through results, explained map[string]string, mayLose bool) comparison {
	names := maps.Clone(direct)
	maps.Copy(names, through)
	var c comparison
	for _, scenario := range slices.Sorted(maps.Keys(names)) {
		r := row{scenario: scenario, direct: direct[scenario], through: through[scenario]}
		_, hasReason := explained[scenario]
		lost, bad := losses(r.direct, r.through), messages(r.through, isBad)
		notApplicable := messages(r.through, func(s status) bool { return s == statusInfo })
		isWorse := len(lost) > 0 && (len(bad) > 0 || len(notApplicable) == 0)
		switch {
		case isWorse && mayLose && hasReason:
			r.verdict = explainedLoss
		case isWorse:
			r.verdict, r.notes = worse, append(lost, bad...)
		case len(lost) > 0 && hasReason:
			r.verdict = untested
		case len(lost) > 0:
			r.verdict, r.notes = unexcused, append(lost, notApplicable...)
		case count(r.through, isFailure) > 0 && hasReason:
			r.verdict = expected
		case count(r.through, isFailure) > 0:
			r.verdict, r.notes = unknown, bad
		case hasReason:
			r.verdict = stale
		case count(r.direct, isFailure) > 0:
			r.verdict = better
		default:
			r.verdict = same
		}
		c = append(c, r)
	}
	for _, scenario := range slices.Sorted(maps.Keys(explained)) {
		if _, ok := names[scenario]; !ok {
			c = append(c, row{scenario: scenario, verdict: missing})
		}
	}
	return c
}

// losses returns the checks that succeeded directly but failed, or were not made, through
// the gateway.
func losses(direct, through []check) []string {
	type key struct{ id, name string }
	have := make(map[key][]check)
	for _, c := range through {
		k := key{c.ID, c.Name}
		have[k] = append(have[k], c)
	}
	var lost []string
	for _, c := range direct {
		k := key{c.ID, c.Name}
		now := check{ID: c.ID, Name: c.Name, Status: "not made"}
		if list := have[k]; len(list) > 0 {
			now, have[k] = list[0], list[1:]
		}
		if c.Status == statusSuccess && now.Status != statusSuccess {
			lost = append(lost, fmt.Sprintf("%s (%s): succeeds directly, through us: %s", c.ID, c.Name, now.Status))
		}
	}
	return lost
}

func isFailure(s status) bool { return s == statusFailure }

// isBad reports whether a status is a failure. A check that does not apply to the server
// has statusInfo.
func isBad(s status) bool {
	return s == statusFailure || s == statusWarning || s == statusSkipped
}

func count(checks []check, is func(status) bool) int {
	n := 0
	for _, c := range checks {
		if is(c.Status) {
			n++
		}
	}
	return n
}

// messages returns the suite's messages for the checks with some status.
func messages(checks []check, of func(status) bool) []string {
	var out []string
	for _, c := range checks {
		if of(c.Status) {
			out = append(out, fmt.Sprintf("%s %s (%s): %s%s", c.Status, c.ID, c.Name, c.ErrorMessage, c.Details.Message))
		}
	}
	return out
}

// print writes the table and returns the number of problems.
func (c comparison) print(w io.Writer, leg string) int {
	problems := 0
	fmt.Fprintf(w, "\n%s\n", leg)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "scenario\tdirect\tthrough\t\n")
	for _, r := range c {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", r.scenario, score(r.direct), score(r.through), r.verdict)
	}
	table.Flush()
	for _, r := range c {
		if !r.verdict.problem() {
			continue
		}
		problems++
		fmt.Fprintf(w, "%s: %s\n", r.scenario, strings.ToLower(string(r.verdict)))
		for _, note := range r.notes {
			fmt.Fprintf(w, "    %s\n", strings.ReplaceAll(note, "\n", "\n    "))
		}
	}
	return problems
}

// score says how many of the checks succeeded.
func score(checks []check) string {
	s := fmt.Sprintf("%d/%d", len(checks)-count(checks, isBad), len(checks))
	if warnings := count(checks, isBad) - count(checks, isFailure); warnings > 0 {
		s += fmt.Sprintf(" (%d warned)", warnings)
	}
	return s
}
