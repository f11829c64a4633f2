package main

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
)

// newUpstreams makes the command that shows the states of servers, and acts on one.
func newUpstreams() *cobra.Command {
	o := &operator{role: admin.RoleViewer}
	cmd := &cobra.Command{
		Use:   "upstreams [NAME]",
		Short: "Show the state of each server, or everything about one",
		Long: "Shows whether each server answers, since when, in which protocol revision, what it offers, and\nwhat failed last. With a NAME it shows the timeline of this server's states, how it was probed, and\n" +
			"its tools.",
		Example: "  gatehouse upstreams -c gatehouse.yaml\n  gatehouse upstreams -c gatehouse.yaml crm\n  gatehouse upstreams disable -c gatehouse.yaml crm",
		Args:    needs("[NAME]"),
	}
	cmd.AddCommand(
		newUpstreamAct(admin.Probe, "Probe a server again",
			"Has the gateway find out again how a server is spoken to, and fetch its lists."),
		newUpstreamAct(admin.Reconnect, "Give a server new connections and sessions",
			"Has the gateway make new connections, sessions and processes for a server, and probe it. Calls under\nway end where they began."),
		newUpstreamAct(admin.Disable, "Refuse calls to a server",
			"Has the gateway refuse all calls to a server and take what it offers from all lists, until it is\nenabled or the gateway restarts. Calls under way go on."),
		newUpstreamAct(admin.Enable, "Undo disable", "Has the gateway use a server again that was disabled."),
	)
	return operatorCommand(cmd, o, func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 {
			return showUpstream(cmd, o, args[0])
		}
		return showUpstreams(cmd, o)
	})
}

func showUpstreams(cmd *cobra.Command, o *operator) error {
	var answer struct {
		Upstreams []admin.Upstream `json:"upstreams"`
	}
	text, err := o.ask(cmd.Context(), http.MethodGet, "/api/v1/upstreams", nil, &answer)
	w := cmd.OutOrStdout()
	if err != nil || o.asJSON {
		_, failed := w.Write(text)
		return cmp.Or(err, failed)
	}
	now := time.Now()
	t := newTable(w, "NAME", "STATE", "SINCE", "TRANSPORT", "REVISION", "TOOLS", "CALLS")
	for _, u := range answer.Upstreams {
		t.add(cell{u.Name, plain}, stateCell(u.State), cell{ago(u.Since, now), plain}, cell{u.Transport, plain},
			cell{cmp.Or(u.Revision, "-"), plain}, cell{fmt.Sprint(u.Tools), plain}, cell{fmt.Sprint(u.Calls), plain})
		if f := u.LastFailure; f != nil && u.State != "ready" && u.State != "disabled" {
			t.add(cell{fmt.Sprintf("  %s, %s ago: %s (%s)", f.Stage, ago(f.At, now), cmp.Or(f.Cause, f.Error), f.Code), dim})
		}
		if u.UsersNeedLogin > 0 {
			t.add(cell{fmt.Sprintf("  users who have to sign in there: %d", u.UsersNeedLogin), dim})
		}
	}
	return t.flush()
}

// stateCell returns the state of a server in its colour.
func stateCell(state string) cell {
	colour := map[string]string{"ready": green, "connecting": yellow, "degraded": yellow, "disabled": dim,
		"per user": dim}[state]
	return cell{state, cmp.Or(colour, red)}
}

// upstreamPath returns the path of a server in the API.
func upstreamPath(name string) string { return "/api/v1/upstreams/" + url.PathEscape(name) }

// shownTools bounds the tools that the command shows; --json has pages of them.
const shownTools = "1000"

func showUpstream(cmd *cobra.Command, o *operator, name string) error {
	var s admin.Server
	text, err := o.ask(cmd.Context(), http.MethodGet, upstreamPath(name),
		url.Values{"sort": {"tokens"}, "limit": {shownTools}}, &s)
	w := cmd.OutOrStdout()
	if err != nil || o.asJSON {
		_, failed := w.Write(text)
		return cmp.Or(err, failed)
	}
	now, u := time.Now(), s.Upstream
	t := newTable(w, u.Name, u.State+" for "+ago(u.Since, now))
	fact := func(name, text string) {
		if text != "" {
			t.add(cell{name, dim}, cell{text, plain})
		}
	}
	if s.Disabled != nil {
		fact("disabled by", s.Disabled.By)
	}
	fact("at", u.Transport+" "+s.Target)
	fact("revision", strings.TrimSpace(u.Revision+" "+u.Era))
	fact("server", strings.TrimSpace(u.Server+" "+u.Version))
	fact("credential", s.Credentials.Type+", of "+s.Credentials.Whose+": "+s.Credentials.State)
	fact("in use", fmt.Sprintf("%s, %s under way", count(u.Sessions, "session", "sessions"),
		count(u.Calls, "call", "calls")))
	fact("offers", fmt.Sprintf("%s, %s, %s, %s", count(s.Tools.Total, "tool", "tools"),
		count(u.Prompts, "prompt", "prompts"), count(u.Resources, "resource", "resources"),
		count(u.Skills, "skill", "skills")))
	fact("tokens", fmt.Sprintf("about %d in full, %d in short", s.Tools.Tokens, s.Tools.Short))
	if s.Pinning.Mode != "off" {
		fact("pinning", fmt.Sprintf("%s, %d not approved", s.Pinning.Mode, s.Pinning.Waiting))
	}
	for _, h := range s.Hooks {
		fact("hook", h.Name+" on "+strings.Join(h.On, " and "))
	}
	if err := t.flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	t = newTable(w, "SINCE", "STATE", "WHY")
	for _, c := range s.Timeline {
		why := cmp.Or(c.Cause, c.Error)
		if c.Code != "" {
			why = fmt.Sprintf("%s: %s (%s)", c.Stage, why, c.Code)
		}
		if c.By != "" {
			why = c.Did + " by " + c.By
		}
		t.add(cell{clock(c.Since, now), plain}, stateCell(c.State), cell{why, plain})
	}
	if err := t.flush(); err != nil {
		return err
	}
	if err := printProbe(cmd, s.Probe); err != nil || s.Tools.Total == 0 {
		return err
	}
	fmt.Fprintln(w)
	t = newTable(w, "TOKENS", "SHORT", "TOOL")
	for _, tool := range s.Tools.Items {
		t.add(cell{fmt.Sprint(tool.Tokens), plain}, cell{fmt.Sprint(tool.Short), plain}, cell{tool.Public, plain})
	}
	return t.flush()
}

// printProbe prints the steps of a probe, if there were any.
func printProbe(cmd *cobra.Command, steps []admin.ProbeStep) error {
	if len(steps) == 0 {
		return nil
	}
	fmt.Fprintln(cmd.OutOrStdout())
	t := newTable(cmd.OutOrStdout(), "PROBE", "OFFERED", "OVER", "TOOK", "RESULT")
	for _, s := range steps {
		result := cell{s.Found, plain}
		if s.Error != "" {
			result = cell{fmt.Sprintf("%s (%s)", cmp.Or(s.Cause, s.Error), s.Code), red}
		}
		t.add(cell{s.Method, plain}, cell{s.Revision, plain}, cell{s.Transport, plain},
			cell{fmt.Sprintf("%.0fms", s.Took), plain}, result)
	}
	return t.flush()
}

// newUpstreamAct makes a command that acts on a server.
func newUpstreamAct(what, short, long string) *cobra.Command {
	o := &operator{role: admin.RoleOperator}
	cmd := &cobra.Command{Use: what + " NAME", Short: short, Long: long,
		Example: "  gatehouse upstreams " + what + " -c gatehouse.yaml crm", Args: needs("NAME")}
	return operatorCommand(cmd, o, func(cmd *cobra.Command, args []string) error {
		var done admin.Acted
		text, err := o.ask(cmd.Context(), http.MethodPost, upstreamPath(args[0])+"/"+what, nil, &done)
		if err != nil {
			return err
		}
		w := cmd.OutOrStdout()
		if o.asJSON {
			if _, err := w.Write(text); err != nil {
				return err
			}
		} else if what == admin.Probe || what == admin.Reconnect {
			fmt.Fprintf(w, "%s: %s\n", args[0], done.Upstream.State)
			if err := printProbe(cmd, done.Probe); err != nil {
				return err
			}
		} else if done.Changed {
			fmt.Fprintf(w, "%sd %s\n", what, args[0])
		} else {
			fmt.Fprintf(w, "%s was %sd before\n", args[0], what)
		}
		for _, replica := range done.Missing {
			fmt.Fprintf(cmd.ErrOrStderr(), "replica %s does not answer: nothing was done there\n", replica)
		}
		if f := done.Failure; f != nil {
			return fmt.Errorf("%s (%s)", shown(cmp.Or(f.Cause, f.Error)), f.Code)
		}
		return nil
	})
}
