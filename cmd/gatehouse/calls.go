package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
)

// callsFlags are the flags of the command.
type callsFlags struct {
	user, tool, upstream, since string
	address, agent              string
	denied, follow              bool
	last                        int
}

// newCalls makes the command that shows recent calls.
func newCalls() *cobra.Command {
	o, f := &operator{role: admin.RoleViewer}, &callsFlags{}
	cmd := &cobra.Command{
		Use:     "calls",
		Short:   "Show recent calls, and what became of them",
		Long:    "Shows the last calls that went through the gateway, over all of its replicas, oldest first.",
		Example: "  gatehouse calls -c gatehouse.yaml --follow --user alice --denied",
		Args:    noArguments,
	}
	flags := cmd.Flags()
	flags.BoolVarP(&f.follow, "follow", "f", false, "go on with calls as they are made")
	flags.StringVar(&f.user, "user", "", "only calls of the user with this `NAME`")
	nameFlag(cmd, &f.tool,
		"only calls of the tool, prompt, skill or URI of this `NAME`: the public one, the server's own, or server/name")
	flags.StringVar(&f.upstream, "upstream", "", "only calls that went to the server with this `NAME`")
	flags.StringVar(&f.address, "address", "", "only calls from this `ADDRESS`, or a network such as 10.0.0.0/8")
	flags.StringVar(&f.agent, "user-agent", "", "only calls of clients that call themselves so, in part")
	flags.BoolVar(&f.denied, "denied", false, "only calls that policy refused, or of names that do not exist")
	flags.StringVar(&f.since, "since", "", "only calls since a `TIME` (2026-11-23T08:00:00Z) or that long ago (1h)")
	flags.IntVarP(&f.last, "last", "n", 20, "how many calls that were already made: at most 1000")
	return operatorCommand(cmd, o, func(cmd *cobra.Command, _ []string) error { return showCalls(cmd, o, f) })
}

func (f *callsFlags) query(now time.Time) (url.Values, error) {
	q := url.Values{"kind": {"call"}}
	set := func(name, value string) {
		if value != "" {
			q.Set(name, value)
		}
	}
	set("user", f.user)
	set("name", f.tool)
	set("upstream", f.upstream)
	set("address", f.address)
	set("user_agent", f.agent)
	since, err := readTime("since", f.since, now)
	if err == nil && !since.IsZero() {
		set("since", since.Format(time.RFC3339))
	}
	if f.denied {
		set("decision", "deny,unknown")
	}
	return q, err
}

func showCalls(cmd *cobra.Command, o *operator, f *callsFlags) error {
	q, err := f.query(time.Now())
	if err != nil {
		return err
	}
	w := cmd.OutOrStdout()
	if f.follow {
		return followCalls(cmd, o, q, f.last)
	}
	q.Set("limit", strconv.Itoa(f.last))
	var page admin.Page
	if _, err := o.ask(cmd.Context(), http.MethodGet, "/api/v1/decisions", q, &page); err != nil {
		return err
	}
	slices.Reverse(page.Decisions)
	noteMissing(cmd.ErrOrStderr(), page.Partial)
	if o.asJSON {
		for _, d := range page.Decisions {
			text, _ := d.MarshalJSON() // cannot fail
			if _, err := fmt.Fprintf(w, "%s\n", text); err != nil {
				return err
			}
		}
		return nil
	}
	if len(page.Decisions) == 0 {
		_, err := fmt.Fprintln(cmd.ErrOrStderr(), "no such calls")
		return err
	}
	t := newCallTable(w)
	for i := range page.Decisions {
		t.addCall(&page.Decisions[i], time.Now())
	}
	return t.flush()
}

// followCalls prints calls as they come, until the user interrupts it.
func followCalls(cmd *cobra.Command, o *operator, q url.Values, last int) error {
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	w := cmd.OutOrStdout()
	q.Set("last", strconv.Itoa(last))
	t := newCallTable(w)
	t.widths = []int{8, 14, 8, 8, 6, 0} // later rows are not known yet
	if !o.asJSON {
		if err := t.flush(); err != nil {
			return err
		}
	}
	return o.follow(ctx, "/api/v1/decisions/live", q, func(event string, data []byte) error {
		switch {
		case event == "missed":
			var m struct{ Missed int64 }
			if err := json.Unmarshal(data, &m); err != nil {
				return err
			}
			_, err := fmt.Fprintf(cmd.ErrOrStderr(), "%d records came too fast to be shown\n", m.Missed)
			return err
		case o.asJSON:
			_, err := fmt.Fprintf(w, "%s\n", data)
			return err
		}
		var d admin.Decision
		if err := d.UnmarshalJSON(data); err != nil {
			return err
		}
		t.addCall(&d, time.Now())
		return t.flush()
	})
}

func newCallTable(w io.Writer) *table {
	return newTable(w, "TIME", "ID", "USER", "RESULT", "    MS", "CALL")
}

// addCall adds the row of a call.
func (t *table) addCall(d *admin.Decision, now time.Time) {
	result, colour := resultOf(d)
	what := d.Method
	if d.Method == "tools/call" {
		what = ""
	}
	what = strings.TrimSpace(what + " " + d.Name)
	switch {
	case d.Limit != "":
		what += "  limit " + d.Limit
	case d.Decision != "allow" && d.Rule != "":
		what += "  rule " + d.Rule
	case d.Decision != "deny" && d.Decision != "unknown" && d.Error != "":
		what += "  " + d.Error
	}
	t.add(cell{clock(d.Time, now), dim}, cell{d.ID, plain}, cell{t.short(cmp.Or(d.User, "-"), 12), plain},
		cell{result, colour}, cell{fmt.Sprintf("%6.0f", float64(d.Duration)/float64(time.Millisecond)), plain},
		cell{what, plain})
}

// resultOf returns the result of a call in a word.
func resultOf(d *admin.Decision) (word, colour string) {
	switch {
	case d.Decision == "deny":
		return "denied", red
	case d.Decision == "unknown":
		return "unknown", red
	case d.Limit != "":
		return "limited", yellow
	case d.Approval != "" && d.Approval != "approved" && d.Approval != "held":
		return d.Approval, yellow
	case d.Outcome == "ok":
		return "ok", green
	case d.Outcome == "cancelled", d.Outcome == "ask", d.Outcome == "sign-in-needed":
		return d.Outcome, yellow
	}
	return d.Outcome, red
}

// noteMissing prints that an answer is incomplete.
func noteMissing(w io.Writer, partial string) {
	if partial != "" {
		fmt.Fprintf(w, "note: %s\n", shown(partial))
	}
}

// newWhy makes the command that explains one call.
func newWhy() *cobra.Command {
	o := &operator{role: admin.RoleViewer}
	cmd := &cobra.Command{
		Use:     "why CALL-ID",
		Short:   "Say what became of a call, and why",
		Long:    "Says what each part of the gateway said of a call, and what policy would decide now. The id is in\nerrors (request_id), in the log and in records.",
		Example: "  gatehouse why -c gatehouse.yaml 77awmbrn4whn-3",
		Args:    needs("CALL-ID"),
	}
	return operatorCommand(cmd, o, func(cmd *cobra.Command,
		args []string) error {
		return showWhy(cmd.Context(), cmd, o, args[0])
	})
}

func showWhy(ctx context.Context, cmd *cobra.Command, o *operator, id string) error {
	var call admin.Call
	text, err := o.ask(ctx, http.MethodGet, "/api/v1/calls/"+url.PathEscape(id), nil, &call)
	w := cmd.OutOrStdout()
	if err != nil || o.asJSON {
		_, failed := w.Write(text)
		return cmp.Or(err, failed)
	}
	noteMissing(cmd.ErrOrStderr(), call.Partial)
	now, last := time.Now(), &call.Record
	result, colour := resultOf(last)
	t := newTable(w, "call "+call.ID)
	t.widths = make([]int, 2)
	t.add(cell{"result", dim}, cell{result, colour})
	t.add(cell{"at", dim}, cell{fmt.Sprintf("%s (%s ago), replica %s", last.Time.Local().Format("2006-01-02 15:04:05.000"),
		ago(last.Time, now), last.Replica), plain})
	for _, l := range call.Layers {
		t.add(cell{l.Layer, dim}, cell{l.Said, plain})
	}
	if last.Session != "" {
		t.add(cell{"session", dim}, cell{last.Session, plain})
	}
	if last.Trace != "" {
		t.add(cell{"trace", dim}, cell{last.Trace, plain})
	}
	if last.Arguments != nil {
		t.add(cell{"arguments", dim}, cell{string(last.Arguments), plain})
	}
	if last.Error != "" {
		t.add(cell{"more", dim}, cell{"docs/errors.md#" + strings.ToLower(last.Error), plain})
	}
	if call.Now != nil {
		t.add(cell{"", plain})
		t.add(cell{"policy would decide now: " + call.Now.Effect, bold})
		for line := range strings.Lines(call.Now.Text) {
			t.add(cell{"  " + strings.TrimRight(line, "\n"), plain})
		}
		for _, note := range call.Now.Notes {
			t.add(cell{"  note: " + note, dim})
		}
	}
	return t.flush()
}
