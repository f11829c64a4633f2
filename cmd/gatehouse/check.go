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

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/gateway/trial"
)

// checkFlags are the flags of the command.
type checkFlags struct {
	file, view             string
	connect, asJSON, given bool
	timeout                time.Duration
}

// checked is the result of the command.
type checked struct {
	Problems      []config.Problem `json:"problems"`
	Warnings      []config.Problem `json:"warnings"`
	Configuration *config.Summary  `json:"configuration,omitempty"`
	Backends      []trial.Backend  `json:"backends,omitempty"`
	Upstreams     []trial.Report   `json:"upstreams,omitempty"`
	Shown         any              `json:"shown,omitempty"` // by the view
}

func newCheck() *cobra.Command {
	var flags checkFlags
	cmd := &cobra.Command{
		Use:   "check [--config FILE | -]",
		Short: "Say what a configuration means, or all that is wrong with it",
		Long: "Reads a configuration and prints what it means, or every problem with its line: what\n" +
			"serve would refuse, without ports that are in use. - stands for standard input.\n" +
			"Directories of skills are read. With\n" +
			"--offline-secrets it takes the values of references, and the files that the configuration\n" +
			"names, for given, as where there are none of them. With --connect it also connects to Redis, to each\n" +
			"issuer and to each upstream, prints what it found and how known clients sign in at\n" +
			"each issuer, and warns of what known clients cut or refuse. With --view it then\n" +
			"prints what a view shows, by the names that its clients see, to a user who may use\n" +
			"all of it.",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 && args[0] == stdinFile {
				return cmd.Flags().Set("config", stdinFile)
			}
			return noArguments(cmd, args)
		},
		RunE: work(func(cmd *cobra.Command) error {
			if flags.view != "" && !flags.connect {
				return misuse("--view needs --connect: only the upstreams know what a view shows")
			}
			if flags.given && flags.connect {
				return misuse("--offline-secrets and --connect: only one of them can be given")
			}
			found := checked{Problems: []config.Problem{}, Warnings: []config.Problem{}}
			out, warn := cmd.OutOrStdout(), cmd.ErrOrStderr()
			if flags.asJSON {
				out, warn = io.Discard, io.Discard
			}
			err := found.look(cmd, flags, out, warn)
			if !flags.asJSON {
				return err
			}
			if bad, ok := errors.AsType[*config.Error](err); ok {
				found.Problems = bad.Problems
			}
			return errors.Join(printJSON(cmd.OutOrStdout(), found), err)
		}),
	}
	configFlag(cmd, &flags.file)
	cmd.Flags().StringVar(&flags.view, "view", "", "say what the view with this `NAME` shows")
	cmd.Flags().BoolVar(&flags.given, "offline-secrets", false, "take references and named files for given")
	cmd.Flags().BoolVar(&flags.connect, "connect", false, "connect to Redis, issuers and upstreams too")
	cmd.Flags().DurationVar(&flags.timeout, "timeout", 90*time.Second, "how long --connect waits")
	outputFlags(cmd, &flags.asJSON, "print what was found, as JSON")
	return cmd
}

// stdinFile stands for standard input in place of a file.
const stdinFile = "-"

// read reads the configuration.
func (f checkFlags) read(stdin io.Reader) (config.Loaded, error) {
	if f.file != stdinFile {
		if f.given {
			return config.ReadGiven(f.file)
		}
		return (&config.File{Path: f.file}).Load(nil)
	}
	const name = "standard input"
	text, err := io.ReadAll(io.LimitReader(stdin, config.MaxBytes+1))
	if err != nil {
		return config.Loaded{}, fmt.Errorf("%s: %w", name, err)
	}
	if f.given {
		return config.ReadBlindly(name, text, nil)
	}
	return config.LoadText(name, text)
}

// look checks a configuration, and prints each finding at once.
func (c *checked) look(cmd *cobra.Command, flags checkFlags, out, stderr io.Writer) error {
	l, err := flags.read(cmd.InOrStdin())
	cfg := l.Config
	c.warn(stderr, l.Warnings)
	if err != nil {
		return err
	}
	if flags.given {
		_, err := fmt.Fprintln(out, "no problems; references, and files that the configuration names, were not looked at")
		return err
	}
	if err := gateway.Buildable(cfg); err != nil {
		return err
	}
	described, err := cfg.CheckDescriptions()
	if err != nil {
		return err
	}
	summary := cfg.Summary()
	c.Configuration = &summary
	printSummary(out, summary, described)
	if !flags.connect {
		if c.Upstreams, err = trial.Skills(cmd.Context(), cfg); err != nil {
			return err
		}
		return printReports(out, c.Upstreams)
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), flags.timeout)
	defer cancel()
	if c.Backends, err = trial.Backends(ctx, cfg); err != nil {
		return err
	}
	return errors.Join(printBackends(out, c.Backends), c.lookAtUpstreams(ctx, flags, l, out, stderr))
}

// warn prints warnings.
func (c *checked) warn(stderr io.Writer, warnings []config.Problem) {
	for _, w := range warnings {
		fmt.Fprintf(stderr, "warning: %s\n", w)
	}
	c.Warnings = append(c.Warnings, warnings...)
}

// lookAtUpstreams prints what each upstream answers; it returns an error if one of them
// cannot be used. Warnings, such as the last output of a process that ended, go to stderr.
func (c *checked) lookAtUpstreams(ctx context.Context, flags checkFlags, l config.Loaded, w,
	stderr io.Writer) error {
	reports, shown, doubts, err := trial.Connect(ctx, inspector(stderr), l.Config, flags.view)
	if err != nil {
		return err
	}
	c.Upstreams = reports
	c.warn(stderr, l.Locate(doubts))
	err = printReports(w, reports)
	if flags.view != "" {
		c.Shown = shown
		fmt.Fprintf(w, "\nview %s shows\n", flags.view)
		for _, list := range shown {
			fmt.Fprintf(w, "  %d %s\n", len(list.Names), list.List)
			for _, name := range list.Names {
				fmt.Fprintf(w, "    %s\n", name)
			}
		}
	}
	return err
}

func printSummary(w io.Writer, s config.Summary, described int) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, value string) { fmt.Fprintf(table, "%s\t%s\n", name, value) }
	for _, file := range s.Included {
		row("includes", file)
	}
	row("endpoint", s.Endpoint)
	row("listens on", s.Listen)
	if s.TLS != "" {
		row("TLS", s.TLS)
	}
	row("authentication", authentication(s))
	for _, a := range s.Accepted {
		row("issuer "+a.Issuer, "audience "+strings.Join(a.Audiences, " or "))
	}
	row("hosts", strings.Join(s.Hosts, ", "))
	row("origins", strings.Join(s.Origins, ", "))
	row("sessions", s.Sessions)
	row("policy", s.Policy)
	if s.Proxy != "" {
		row("proxy", s.Proxy)
	}
	if len(s.Limits) > 0 {
		row("limits", strings.Join(s.Limits, ", "))
	}
	row("operators", s.Operators)
	for _, section := range [][2]string{
		{"operators' TLS", s.AdminTLS},
		{"console", s.Console}, {"own server", s.OwnServer}, {"accounts", s.Accounts}, {"vault", s.Vault},
		{"state", s.Kept}, {"audit", s.Audit}, {"tracing", s.Tracing}, {"memory", s.Memory},
		{"hooks", strings.Join(s.Hooks, ", ")}, {"pinning", s.Pinning},
	} {
		if section[1] != "" {
			row(section[0], section[1])
		}
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
		if u.Sandbox != "" {
			text += ", sandbox: " + u.Sandbox
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

// authentication describes how callers prove who they are.
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
			if r.Certificate != "" {
				fmt.Fprintf(w, "  certificate %s\n", r.Certificate)
			}
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

// printReports prints the results; it returns an error if something cannot be used.
func printReports(w io.Writer, reports []trial.Report) error {
	var bad []string
	for _, r := range reports {
		fmt.Fprintf(w, "\n%s: %s\n", r.Name, r.State)
		if r.Error != "" {
			bad = append(bad, r.Name)
			fmt.Fprintf(w, "  error: %s\n", r.Error)
		}
		if r.Certificate != "" {
			fmt.Fprintf(w, "  certificate %s\n", r.Certificate)
		}
		if r.Proxy != "" {
			fmt.Fprintf(w, "  through the proxy at %s\n", r.Proxy)
		}
		if r.Skills > 0 {
			fmt.Fprintf(w, "  %s\n", count(r.Skills, "skill", "skills"))
		}
		if r.Server != "" || r.Revision != "" {
			fmt.Fprintf(w, "  server %s, revision %s\n", r.Server, r.Revision)
			fmt.Fprintf(w, "  %s, %s, %s, %s\n", count(r.Tools, "tool", "tools"), count(r.Prompts, "prompt", "prompts"),
				count(r.Resources, "resource", "resources"), count(r.Templates, "resource template", "resource templates"))
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
