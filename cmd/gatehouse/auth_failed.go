package main

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
)

// newAuthFailed makes the command that shows failed sign-ins.
func newAuthFailed() *cobra.Command {
	o := &operator{role: admin.RoleViewer}
	cmd := &cobra.Command{
		Use:     "failed",
		Short:   "Show which clients' sign-ins failed lately, why, and what to do",
		Long:    "Shows tokens that were refused, and people who could not sign in, by client and reason. A client\nis what it calls itself, and its id if it is known. Tokens, and parts of them, are nowhere.",
		Example: "  gatehouse auth failed -c gatehouse.yaml --since 1h",
		Args:    noArguments,
	}
	since := cmd.Flags().String("since", "", "only those since a `TIME` (2026-11-23T08:00:00Z) or that long ago (1h)")
	return operatorCommand(cmd, o, func(cmd *cobra.Command, _ []string) error {
		now, asked := time.Now(), url.Values{}
		began, err := readTime("since", *since, now)
		if err != nil {
			return err
		}
		if !began.IsZero() {
			asked.Set("since", began.Format(time.RFC3339))
		}
		var answer admin.SignIns
		text, err := o.ask(cmd.Context(), http.MethodGet, "/api/v1/signins", asked, &answer)
		w := cmd.OutOrStdout()
		if err != nil || o.asJSON {
			_, failed := w.Write(text)
			return cmp.Or(err, failed)
		}
		noteMissing(cmd.ErrOrStderr(), answer.Partial)
		if len(answer.Failures) == 0 {
			_, err := fmt.Fprintln(cmd.ErrOrStderr(), "no sign-in failed, as far as records are kept")
			return err
		}
		t := newTable(w, "CLIENT", "TIMES", "LAST", "REASON")
		for _, f := range answer.Failures {
			reason := f.Reason
			if f.Upstream != "" {
				reason = f.Upstream + ": " + reason
			}
			client := t.short(f.Agent, 40)
			if f.Client != "" {
				client = strings.TrimSpace(client + " " + t.short(f.Client, 60))
			}
			t.add(cell{cmp.Or(client, "-"), plain}, cell{strconv.FormatInt(f.Count, 10), plain}, cell{ago(f.Last, now), plain},
				cell{reason, red})
			if f.Remedy != "" {
				t.add(cell{"  " + f.Remedy, dim})
			}
		}
		if answer.LeftOut > 0 {
			noteMissing(cmd.ErrOrStderr(), fmt.Sprintf("%d more are not shown", answer.LeftOut))
		}
		return t.flush()
	})
}
