package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/gateway/trial"
)

func newCheck() *cobra.Command {
	var file, view string
	var connect, given bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "check --config FILE",
		Short: "Say what a configuration means, or everything that is wrong with it",
		Long: "Reads a configuration and prints what it means, or every problem with its line: what\n" +
			"serve would refuse, without ports that are in use. Directories of skills are read. With\n" +
			"--offline-secrets it takes the values of references, and the files that the configuration\n" +
			"names, for given, as where there are none of them. With --connect it also connects to Redis, to each\n" +
			"issuer and to each upstream, prints what it found and how known clients sign in at\n" +
			"each issuer, and warns of what known clients cut or refuse. With --view it then\n" +
			"prints what a view shows, by the names that its clients see, to a user who may use\n" +
			"all of it.",
		Args: noArguments,
		RunE: work(func(cmd *cobra.Command) error {
			if view != "" && !connect {
				return errors.New("--view needs --connect: only the upstreams know what a view shows")
			}
			if given && connect {
				return errors.New("--offline-secrets and --connect: only one of them can be given")
			}
			read := (&config.File{Path: file}).Load
			if given {
				read = func(*config.Config) (config.Loaded, error) { return config.ReadGiven(file) }
			}
			l, err := read(nil)
			out, cfg := cmd.OutOrStdout(), l.Config
			for _, w := range l.Warnings {
				fmt.Fprintf(cmd.ErrOrStderr(), "warning: %s\n", w)
			}
			if err != nil {
				return err
			}
			if given {
				fmt.Fprintln(out, "no problems; references, and files that the configuration names, were not looked at")
				return nil
			}
			if err := gateway.Buildable(cfg); err != nil {
				return err
			}
			described, err := cfg.CheckDescriptions()
			if err != nil {
				return err
			}
			printSummary(out, cfg.Summary(), described)
			if !connect {
				reports, err := trial.Skills(cmd.Context(), cfg)
				if err != nil {
					return err
				}
				return printReports(out, reports)
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			backends, err := trial.Backends(ctx, cfg)
			if err != nil {
				return err
			}
			return errors.Join(printBackends(out, backends), checkUpstreams(ctx, out, cmd.ErrOrStderr(), file, view, cfg))
		}),
	}
	configFlag(cmd, &file)
	cmd.Flags().StringVar(&view, "view", "", "say what the view with this `NAME` shows")
	cmd.Flags().BoolVar(&given, "offline-secrets", false, "take references and named files for given")
	cmd.Flags().BoolVar(&connect, "connect", false, "connect to Redis, issuers and upstreams too")
	cmd.Flags().DurationVar(&timeout, "timeout", 90*time.Second, "how long --connect waits")
	return cmd
}

func printSummary(w io.Writer, s config.Summary, described int) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, value string) { fmt.Fprintf(table, "%s\t%s\n", name, value) }
	row("endpoint", s.Endpoint)
	row("listens on", s.Listen)
	row("authentication", authentication(s))
	for _, a := range s.Accepted {
		row("issuer "+a.Issuer, "audience "+strings.Join(a.Audiences, " or "))
	}
	row("hosts", strings.Join(s.Hosts, ", "))
	row("origins", strings.Join(s.Origins, ", "))
	row("sessions", s.Sessions)
	row("policy", s.Policy)
	if len(s.Limits) > 0 {
		row("limits", strings.Join(s.Limits, ", "))
	}
	row("operators", s.Operators)
	if s.Audit != "" {
		row("audit", s.Audit)
	}
	if s.Pinning != "" {
		row("pinning", s.Pinning)
	}
	for _, u := range s.Servers {
		prefix := fmt.Sprintf("prefix %q", u.Prefix)
		if !u.Enabled {
			prefix = "not enabled"
		}
		text := fmt.Sprintf("%s %s, %s", u.Transport, u.Target, prefix)
		if u.Auth != "none" {
			text += ", auth " + u.Auth
		}
		row("upstream "+u.Name, text)
	}
	for _, r := range s.Redirects {
		row("register "+r.Upstream, fmt.Sprintf("redirect URI %s, for the client %s at %s", r.URI, r.Client, r.At))
	}
	for _, v := range s.Views {
		row("view "+v.Name, v.URL+", "+strings.Join(v.Show, ", "))
	}
	if s.Prompt != "" {
		row("disclosure", s.Disclosure)
	}
	if s.Prompt != "" && described > 0 {
		row("descriptions", fmt.Sprintf("files for %d tools", described))
	}
	table.Flush()
	if len(s.Clients) > 0 {
		fmt.Fprintln(w, "\nHow clients sign in, at the gateway's own authorization server (docs/clients.md):")
		printWays(w, s.Clients)
	}
	if s.Prompt == "" {
		return
	}
	fmt.Fprintf(w, "\nFor the system prompt of agents that are shown tools in short (docs/disclosure.md):\n\n  %s\n",
		strings.ReplaceAll(s.Prompt, "\n", "\n  "))
}

// authentication says how callers prove who they are.
func authentication(s config.Summary) string {
	switch s.Keys {
	case 0:
		return s.Auth
	case 1:
		return s.Auth + ": 1 API key"
	default:
		return fmt.Sprintf("%s: %d API keys", s.Auth, s.Keys)
	}
}

// printBackends prints the results for Redis and the issuers; it returns an error if one of
// them cannot be used.
func printBackends(w io.Writer, reports []trial.Backend) error {
	var bad []string
	for _, r := range reports {
		if r.Error == "" {
			fmt.Fprintf(w, "\n%s: %s\n", r.Name, r.Found)
			printClients(w, r)
			continue
		}
		bad = append(bad, r.Name)
		fmt.Fprintf(w, "\n%s: cannot be used\n  error: %s\n", r.Name, r.Error)
	}
	if len(bad) > 0 {
		return errors.New("cannot be used: " + strings.Join(bad, ", "))
	}
	return nil
}

// printClients prints how known clients sign in at an issuer.
func printClients(w io.Writer, r trial.Backend) {
	if r.Unknown != "" {
		fmt.Fprintf(w, "  how clients sign in is not known: %s\n", r.Unknown)
	}
	if len(r.Clients) > 0 {
		fmt.Fprintln(w, "  how clients sign in, by its metadata (docs/clients.md):")
		printWays(w, r.Clients)
	}
}

func printWays[W fmt.Stringer](w io.Writer, ways []W) {
	for _, way := range ways {
		fmt.Fprintf(w, "    %s\n", way)
	}
}

// checkUpstreams prints what each upstream answers; it returns an error if one of them
// cannot be used. Warnings, such as the last output of a process that ended, go to stderr.
func checkUpstreams(ctx context.Context, w, stderr io.Writer, file, view string, cfg gateway.Config) error {
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	reports, shown, doubts, err := trial.Connect(ctx, gateway.Inspector(buildVersion(), log), cfg, view)
	if err != nil {
		return err
	}
	warnings, err := config.Locate(file, doubts)
	if err != nil {
		return err
	}
	for _, warning := range warnings {
		fmt.Fprintf(stderr, "warning: %s\n", warning)
	}
	err = printReports(w, reports)
	if view != "" {
		fmt.Fprintf(w, "\nview %s shows\n", view)
		for _, list := range shown {
			fmt.Fprintf(w, "  %d %s\n", len(list.Names), list.List)
			for _, name := range list.Names {
				fmt.Fprintf(w, "    %s\n", name)
			}
		}
	}
	return err
}

// printReports prints the results; it returns an error if something cannot be used.
func printReports(w io.Writer, reports []trial.Report) error {
	var bad []string
	for _, r := range reports {
		fmt.Fprintf(w, "\n%s: %s\n", r.Name, r.State)
		if r.Error != "" {
			bad = append(bad, r.Name)
			fmt.Fprintf(w, "  error: %s\n", r.Error)
		}
		if r.Skills > 0 {
			fmt.Fprintf(w, "  %d skills\n", r.Skills)
		}
		if r.Server != "" || r.Revision != "" {
			fmt.Fprintf(w, "  server %s, revision %s\n", r.Server, r.Revision)
			fmt.Fprintf(w, "  %d tools, %d prompts, %d resources, %d resource templates\n", r.Tools, r.Prompts, r.Resources, r.Templates)
		}
		if r.Hint != "" {
			fmt.Fprintf(w, "  note: %s\n", r.Hint)
		}
		for _, withheld := range r.Withheld {
			fmt.Fprintf(w, "  withheld from %s: %q: %s\n", withheld.List, withheld.Name, withheld.Reason)
		}
	}
	if len(bad) > 0 {
		return errors.New("cannot be used: " + strings.Join(bad, ", "))
	}
	return nil
}
