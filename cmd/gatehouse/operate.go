package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
)

// newSessions makes the command that shows and ends sessions.
func newSessions() *cobra.Command {
	o := &operator{role: admin.RoleViewer}
	cmd := &cobra.Command{
		Use:   "sessions",
		Short: "Show the sessions of clients, or end one",
		Long:  "Shows the sessions of stateful clients, of all replicas, the last one that was used first.\nStateless clients have none.",
		Args:  noArguments,
	}
	cmd.AddCommand(newSessionsEnd())
	return operatorCommand(cmd, o, func(cmd *cobra.Command, _ []string) error {
		found, text, err := listSessions(cmd, o)
		w := cmd.OutOrStdout()
		if err != nil || o.asJSON {
			_, failed := w.Write(text)
			return cmp.Or(err, failed)
		}
		if len(found) == 0 {
			_, err := fmt.Fprintln(cmd.ErrOrStderr(), "no sessions")
			return err
		}
		now := time.Now()
		columns := []string{"SESSION", "USER", "REVISION", "STARTED", "USED", "CLIENT"}
		several := slices.ContainsFunc(found, func(s admin.Session) bool { return s.Replica != found[0].Replica })
		if several {
			columns = append(columns, "REPLICA")
		}
		t := newTable(w, columns...)
		for _, s := range found {
			client := strings.TrimSpace(s.ClientName + " " + s.ClientVersion)
			if s.Client != "" {
				client += " (" + s.Client + ")"
			}
			id := s.Session
			if !t.wide {
				id = id[:min(digits, len(id))]
			}
			row := []cell{
				{id, plain}, {t.short(cmp.Or(s.User, "-"), 16), plain}, {s.Revision, plain},
				{ago(s.Started, now), plain}, {ago(s.Used, now), plain}, {client, plain},
			}
			if several {
				row = append(row, cell{s.Replica, plain})
			}
			t.add(row...)
		}
		return t.flush()
	})
}

// digits is the number of digits that are shown of a session.
const digits = 12

func listSessions(cmd *cobra.Command, o *operator) ([]admin.Session, []byte, error) {
	var answer struct {
		Sessions []admin.Session `json:"sessions"`
		Missing  []string        `json:"missing"`
	}
	text, err := o.ask(cmd.Context(), http.MethodGet, "/api/v1/sessions", nil, &answer)
	for _, replica := range answer.Missing {
		fmt.Fprintf(cmd.ErrOrStderr(), "replica %s does not answer: its sessions are not shown\n", replica)
	}
	return answer.Sessions, text, err
}

func newSessionsEnd() *cobra.Command {
	o := &operator{role: admin.RoleOperator}
	cmd := &cobra.Command{
		Use:     "end SESSION",
		Short:   "End a session of a client",
		Long:    "Ends a session, with its streams and calls. SESSION is its digest, as the command sessions and\nrecords show it; enough of its first digits will do. The client may begin a new one: to keep a\nuser out, see docs/operations.md.",
		Example: "  gatehouse sessions end -c gatehouse.yaml 3f8e22a04c1b",
		Args:    needs("SESSION"),
	}
	return operatorCommand(cmd, o, func(cmd *cobra.Command, args []string) error {
		found, _, err := listSessions(cmd, o)
		if err != nil {
			return err
		}
		var fit []string
		for _, s := range found {
			if strings.HasPrefix(s.Session, args[0]) {
				fit = append(fit, s.Session)
			}
		}
		switch {
		case len(fit) == 0:
			return fmt.Errorf("there is no session %s", shown(args[0]))
		case len(fit) > 1:
			return fmt.Errorf("%d sessions begin with %s: write more digits", len(fit), shown(args[0]))
		}
		resp, err := o.request(cmd.Context(), http.MethodDelete, "/api/v1/sessions/"+url.PathEscape(fit[0]), nil,
			http.StatusNoContent)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if o.asJSON {
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "{\"ended\":%q}\n", fit[0])
			return err
		}
		_, err = fmt.Fprintln(cmd.OutOrStdout(), "ended", fit[0])
		return err
	})
}

// newReload makes the command that reloads the configuration.
func newReload() *cobra.Command {
	o := &operator{role: admin.RoleOperator}
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "Have a gateway read its configuration again",
		Long:  "Has the gateway read its configuration file, and says whether that was applied, or what is wrong\nwith it; then nothing was changed.",
		Args:  noArguments,
	}
	return operatorCommand(cmd, o, func(cmd *cobra.Command, _ []string) error {
		var answer admin.Reload
		text, err := o.ask(cmd.Context(), http.MethodPost, "/api/v1/reload", nil, &answer, http.StatusUnprocessableEntity)
		if err != nil {
			return err
		}
		if o.asJSON {
			if _, err := cmd.OutOrStdout().Write(text); err != nil {
				return err
			}
		}
		for _, p := range slices.Concat(answer.Problems, answer.Pending) {
			place := ""
			if p.File != "" {
				place = fmt.Sprintf("%s:%d: ", p.File, p.Line)
			}
			fmt.Fprintln(cmd.ErrOrStderr(), shown(place+p.Message))
		}
		if !answer.Applied {
			return errors.New("not reloaded: nothing was changed")
		}
		if o.asJSON {
			return nil
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "reloaded: revision %s is in force\n", answer.Revision)
		return err
	})
}

// newStatus makes the command that shows problems of a running gateway.
func newStatus() *cobra.Command {
	o := &operator{role: admin.RoleViewer}
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show what is not well, why, and what to do",
		Long: "Shows what is not well with the gateway, worst first, each with its cause and the next step. The " +
			"exit code is 1 if something does not work.",
		Args: noArguments,
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

// newHealth makes the command that asks a gateway whether it is well, for containers and scripts.
func newHealth() *cobra.Command {
	o, ready := &operator{}, false
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Say by the exit code whether a gateway runs, or is ready",
		Long: "Asks the admin listener of a gateway (admin.listen) whether it runs (/healthz), or with --ready\n" +
			"whether it takes new sessions (/readyz). The exit code is 1 if not. It needs no token.",
		Args: noArguments,
	}
	cmd.Flags().BoolVar(&ready, "ready", false, "ask whether it takes new sessions, and why not")
	outputFlags(cmd, &o.asJSON, "print the answer as JSON")
	return askingCommand(cmd, o, func(cmd *cobra.Command, _ []string) error {
		ctx, cancel := context.WithTimeout(cmd.Context(), answerTimeout)
		defer cancel()
		w, said, text, err := cmd.OutOrStdout(), "ok", []byte("{\"ok\":true}\n"), error(nil)
		if ready {
			said = "ready"
			text, err = o.ready(ctx)
		} else {
			if err = o.alive(ctx); err != nil {
				text = nil
			}
		}
		switch {
		case o.asJSON:
			_, failed := w.Write(text) // also the reasons why it is not ready
			err = cmp.Or(err, failed)
		case err == nil:
			_, err = fmt.Fprintln(w, said)
		}
		return err
	})
}

// alive returns an error if the gateway does not answer as one that runs.
func (o *operator) alive(ctx context.Context) error {
	resp, err := o.request(ctx, http.MethodGet, "/healthz", nil, http.StatusOK)
	if err == nil {
		err = resp.Body.Close()
	}
	return err
}

// ready returns the gateway's answer, and an error with the reasons if it takes no new sessions.
func (o *operator) ready(ctx context.Context) (text []byte, err error) {
	var answer struct {
		Ready   bool
		Reasons []string
	}
	text, err = o.ask(ctx, http.MethodGet, "/readyz", nil, &answer, http.StatusServiceUnavailable)
	if err == nil && !answer.Ready {
		err = errors.New("not ready: " + shown(strings.Join(answer.Reasons, "; ")))
	}
	return text, err
}
