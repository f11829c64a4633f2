package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/gateway/pinning/review"
	"github.com/gatehouse-mcp/gatehouse/gateway/trial"
)

func newLock() *cobra.Command {
	var file string
	var ask, yes, running bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "lock [--config FILE] [--review | --yes]",
		Short: "Approve what upstreams offer, in the lock file",
		Long: "Connects to each pinned upstream (to all, if none is pinned) and compares the tools,\n" +
			"prompts, resource templates, skills and instructions that it has with the lock file, which\n" +
			"is pinning.file of the configuration. Without a lock file it writes one. With one, it\n" +
			"prints every difference and changes nothing, unless told to: with --review it asks for\n" +
			"each difference, with --yes it approves all.\n\n" +
			"With --running it asks a gateway that runs, through its admin API, what that has seen and\n" +
			"is not approved. It needs this for servers that get each user's own credential.\n\n" +
			"The exit code is 0 if everything is approved now, and 1 if something is not.",
		Args: noArguments,
		RunE: work(func(cmd *cobra.Command) error {
			cfg, _, err := config.Load(file)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			var found *review.Review
			if running {
				found, err = reviewSeen(ctx, file, cfg)
			} else {
				found, err = trial.Lock(ctx, inspector(cmd.ErrOrStderr()), cfg)
			}
			if err != nil {
				return err
			}
			session := lockSession{found: found, out: cmd.OutOrStdout(), in: bufio.NewScanner(cmd.InOrStdin()), all: yes ||
				found.Fresh, ask: ask}
			return session.run()
		}),
	}
	configFlag(cmd, &file)
	cmd.Flags().BoolVar(&ask, "review", false, "ask for each difference whether to approve it")
	cmd.Flags().BoolVar(&yes, "yes", false, "approve all differences")
	cmd.MarkFlagsMutuallyExclusive("review", "yes")
	cmd.Flags().BoolVar(&running, "running", false,
		"compare with what a gateway that runs with this configuration has seen")
	cmd.Flags().DurationVar(&timeout, "timeout", 90*time.Second, "how long to wait for the upstreams")
	return cmd
}

// reviewSeen reviews the definitions that a running gateway reports as not approved.
func reviewSeen(ctx context.Context, file string, cfg gateway.Config) (*review.Review, error) {
	o := &operator{config: file, role: admin.RoleViewer}
	if err := o.find(); err != nil {
		return nil, err
	}
	var answer struct {
		Pins []admin.Pin `json:"pins"`
	}
	if _, err := o.ask(ctx, http.MethodGet, "/api/v1/pins", nil, &answer); err != nil {
		return nil, err
	}
	return review.Seen(cfg, answer.Pins)
}

// lockSession goes through the differences of a review.
type lockSession struct {
	found *review.Review
	out   io.Writer
	in    *bufio.Scanner
	ask   bool
	all   bool // approve without asking
	quit  bool // skip without asking

	approved, skipped int
	problems          []string
}

func (s *lockSession) run() error {
	for _, u := range s.found.Upstreams {
		s.upstream(u)
	}
	for _, name := range s.found.Dropped {
		fmt.Fprintf(s.out, "%s: no longer configured\n", name)
	}
	if s.approved > 0 || s.found.Fresh || len(s.found.Dropped) > 0 && (s.ask || s.all) {
		if err := s.found.Save(); err != nil {
			return err
		}
		fmt.Fprintf(s.out, "written: %s\n", s.found.File)
	}
	switch {
	case len(s.problems) > 0:
		return fmt.Errorf("not compared: %s", strings.Join(s.problems, ", "))
	case s.skipped > 0 && !s.ask:
		return fmt.Errorf("%s not approved: gatehouse lock --review asks for each",
			count(s.skipped, "difference is", "differences are"))
	case s.skipped > 0:
		return fmt.Errorf("%s not approved", count(s.skipped, "difference is", "differences are"))
	}
	return nil
}

func (s *lockSession) upstream(u review.Upstream) {
	if u.Problem != "" {
		s.problems = append(s.problems, u.Name)
		fmt.Fprintf(s.out, "%s: not compared: %s\n", u.Name, u.Problem)
		return
	}
	found := count(u.Found, "definition", "definitions")
	if s.found.Fresh {
		found += ", approved as they are"
	} else {
		found += ", " + count(len(u.Changes), "difference", "differences")
	}
	fmt.Fprintf(s.out, "%s: %s\n", u.Name, found)
	for _, c := range u.Changes {
		s.change(u.Name, c)
	}
}

func (s *lockSession) change(upstream string, c review.Change) {
	what := strings.TrimSpace(string(c.Kind) + " " + c.Name)
	if s.found.Fresh {
		fmt.Fprintf(s.out, "  %s\n", what)
	} else {
		fmt.Fprintf(s.out, "\n  %s: %s\n", c.Word(), what)
	}
	for _, hidden := range c.Hidden() {
		fmt.Fprintf(s.out, "  CAREFUL: %s\n", hidden)
	}
	if !s.found.Fresh {
		for line := range strings.Lines(c.Diff()) {
			fmt.Fprintf(s.out, "    %s\n", strings.TrimSuffix(line, "\n"))
		}
	}
	if s.all || s.ask && s.agreed() {
		s.found.Approve(upstream, c)
		s.approved++
		return
	}
	s.skipped++
}

// agreed asks about one difference.
func (s *lockSession) agreed() bool {
	for !s.quit {
		fmt.Fprint(s.out, "  approve? [y]es, [n]o, [a]ll that follow, [q]uit: ")
		if !s.in.Scan() {
			fmt.Fprintln(s.out)
			break
		}
		switch strings.ToLower(strings.TrimSpace(s.in.Text())) {
		case "y", "yes":
			return true
		case "n", "no":
			return false
		case "a", "all":
			s.all = true
			return true
		case "q", "quit":
			s.quit = true
		}
	}
	s.quit = true
	return false
}

// count returns a number with its noun.
func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
