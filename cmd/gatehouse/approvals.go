package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
)

// lookAtApprovals is the interval at which approvals --follow asks.
const lookAtApprovals = 2 * time.Second

// newApprovals makes the command that shows calls waiting for another person's approval.
func newApprovals() *cobra.Command {
	o, follow := &operator{role: admin.RoleViewer}, false
	cmd := &cobra.Command{
		Use:   "approvals",
		Short: "Show the calls that wait for your approval",
		Long: "Shows the calls that wait for the approval of somebody else than their users (approvers in the\npolicy), with what would run. With your own access token for the gateway in " + tokenVariable + ",\n" +
			"these are the calls on which you may decide; with a token of admin.api, all of them, without\narguments.",
		Example: "  gatehouse approvals --admin http://127.0.0.1:9090 --follow",
		Args:    noArguments,
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with calls as they come")
	return operatorCommand(cmd, o, func(cmd *cobra.Command, _ []string) error {
		if follow {
			return followApprovals(cmd, o)
		}
		all, text, err := listApprovals(cmd.Context(), o, cmd.ErrOrStderr())
		w := cmd.OutOrStdout()
		if err != nil || o.asJSON {
			_, failed := w.Write(text)
			return cmp.Or(err, failed)
		}
		if len(all) == 0 {
			_, err := fmt.Fprintln(cmd.ErrOrStderr(), "nothing waits")
			return err
		}
		for i := range all {
			if err := showApproval(w, &all[i], time.Now()); err != nil {
				return err
			}
		}
		return nil
	})
}

// listApprovals returns the waiting calls, and says on note if some may be missing.
func listApprovals(ctx context.Context, o *operator, note io.Writer) ([]admin.Approval, []byte, error) {
	var answer struct {
		Approvals []admin.Approval `json:"approvals"`
		Partial   string           `json:"partial"`
	}
	text, err := o.ask(ctx, http.MethodGet, "/api/v1/approvals", nil, &answer)
	noteMissing(note, answer.Partial)
	return answer.Approvals, text, err
}

// followApprovals prints calls as they begin to wait, until the user interrupts it.
func followApprovals(cmd *cobra.Command, o *operator) error {
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ticker := time.NewTicker(lookAtApprovals)
	defer ticker.Stop()
	for shown := map[string]bool{}; ; {
		all, _, err := listApprovals(ctx, o, io.Discard)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		now := map[string]bool{}
		for i, a := range all {
			if now[a.ID] = true; shown[a.ID] {
				continue
			}
			if o.asJSON {
				err = json.NewEncoder(cmd.OutOrStdout()).Encode(a)
			} else {
				err = showApproval(cmd.OutOrStdout(), &all[i], time.Now())
			}
			if err != nil {
				return err
			}
		}
		shown = now
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// showApproval prints the call that would run.
func showApproval(w io.Writer, a *admin.Approval, now time.Time) error {
	t := newTable(w, "call "+a.ID)
	t.widths = make([]int, 2)
	row := func(name, value string) {
		if value != "" {
			t.add(cell{name, dim}, cell{value, plain})
		}
	}
	row("user", strings.TrimSpace(a.User+labelledText("of", a.Issuer)))
	row("client", a.Client)
	row("view", a.View)
	row("runs", a.Method+" "+a.Upstream+"/"+a.Original)
	row("file", a.File)
	row("rule", strings.Join(a.Rules, ", ")+labelledText("at", strings.Join(a.RulesAt, ", ")))
	row("waits", fmt.Sprintf("since %s, for %s more", ago(a.Since, now), ago(now, a.Until)))
	row("digest", a.Digest)
	if a.Mine {
		lines("arguments", a.Arguments, t)
		for _, other := range a.Others {
			lines(strings.TrimSpace(other.In+" "+other.Name), other.Value, t)
		}
	}
	return t.flush()
}

// lines adds a JSON value, on as many lines as it needs. Repeated members are all shown.
func lines(name string, value []byte, t *table) {
	var out bytes.Buffer
	if len(value) == 0 || json.Indent(&out, value, "", "  ") != nil {
		out = *bytes.NewBufferString(cmp.Or(string(value), "none"))
	}
	for line := range strings.Lines(out.String()) {
		t.add(cell{name, dim}, cell{strings.TrimRight(line, "\n"), plain})
		name = ""
	}
}

func labelledText(label, text string) string {
	if text == "" {
		return ""
	}
	return " " + label + " " + text
}

// newDecide makes the command approve or the command refuse.
func newDecide(decision, short string) *cobra.Command {
	o := &operator{role: admin.RoleViewer}
	var reason string
	var yes bool
	cmd := &cobra.Command{
		Use:   decision + " CALL-ID",
		Short: short,
		Long: "Shows what would run, and asks whether you are sure. Your decision holds for exactly what was\nshown. It needs your own access token for the gateway in " + tokenVariable + ":\n" +
			"nobody decides on a call of their own.",
		Example: "  gatehouse " + decision + " --admin http://127.0.0.1:9090 77awmbrn4whn-3",
		Args:    needs("CALL-ID"),
	}
	cmd.Flags().StringVar(&reason, "reason", "",
		"a `TEXT` for the record, and, of a refusal, for the caller: at most 500 bytes")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return operatorCommand(cmd, o, func(cmd *cobra.Command, args []string) error {
		all, _, err := listApprovals(cmd.Context(), o, cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		for i := range all {
			if all[i].ID == args[0] && all[i].Mine {
				return decideOn(cmd, o, &all[i], admin.Choice{Decision: decision, Digest: all[i].Digest, Reason: reason}, yes)
			}
		}
		return fmt.Errorf("no call %s waits for your decision: it may have ended, or it is your own, or %s is not the access token of an approver", shown(args[0]), tokenVariable)
	})
}

func decideOn(cmd *cobra.Command, o *operator, a *admin.Approval, choice admin.Choice, yes bool) error {
	told := cmd.ErrOrStderr()
	if err := showApproval(told, a, time.Now()); err != nil {
		return err
	}
	if !yes {
		fmt.Fprintf(told, "%s this call? [y/N] ", choice.Decision)
		answer, _ := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
		if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
			return errors.New("nothing was decided: the call waits")
		}
	}
	body, err := json.Marshal(choice)
	if err != nil {
		return err
	}
	var answer admin.Decided
	text, err := o.tell(cmd.Context(), http.MethodPost, "/api/v1/approvals/"+url.PathEscape(a.ID), body, &answer)
	w := cmd.OutOrStdout()
	if err != nil || o.asJSON {
		_, failed := w.Write(text)
		return cmp.Or(err, failed)
	}
	_, err = fmt.Fprintln(w, map[string]string{admin.Approve: "approved", admin.Refuse: "refused"}[answer.Decision],
		shown(answer.ID))
	return err
}
