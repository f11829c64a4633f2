package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gatehouse-mcp/gatehouse/auth/apikey"
	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/gateway/whatif"
)

// mostToken bounds the size of a token, in bytes.
const mostToken = 64 << 10

func newAuth() *cobra.Command {
	cmd := &cobra.Command{Use: "auth", Short: "Find out why a caller is refused"}
	cmd.AddCommand(newAuthTest(), newAuthFailed())
	return cmd
}

func newAuthTest() *cobra.Command {
	o := &operator{role: admin.RoleOperator}
	var from, file, user, view string
	var running bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "test (--token - | --token-file FILE | --user NAME)",
		Short: "Say step by step why a token or API key is refused, or who it is",
		Long: "Reads a token or API key from standard input or a file, never from the command line, and\n" +
			"says step by step whether a gateway with this configuration accepts it, what policy reads\n" +
			"of it, or why it is refused and what to do. It asks the issuers for their keys, and prints\n" +
			"no part of the token but its claims. With --user it says what the configuration knows of\n" +
			"a user: API keys, and rules.\n\n" +
			"With --running it asks the gateway that runs with this configuration, through its admin API,\n" +
			"or with --admin the one there, as " + tokenVariable + " or the configuration lets it (role\n" +
			"operator). Only that gateway can judge tokens of auth.server.\n\n" +
			"The exit code is 0 for a token that is accepted, or a user who is known, else 1.",
		Example: "  pbpaste | gatehouse auth test -c gatehouse.yaml --token -\n  pbpaste | gatehouse auth test -c gatehouse.yaml --running --token -",
		Args:    noArguments,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := o.named(); err != nil {
			return err
		}
		return work(func(cmd *cobra.Command) error {
			running = running || o.url != ""
			given := 0
			for _, name := range []string{"token", "token-file", "user"} {
				if cmd.Flags().Changed(name) {
					given++
				}
			}
			switch {
			case given != 1:
				return misuse("say what to test: one of --token -, --token-file FILE and --user NAME")
			case user != "" && running:
				return misuse("--user: is about a configuration: give --config alone")
			case user != "":
				cfg, _, err := config.Load(o.config)
				if err != nil {
					return err
				}
				return testUser(cmd.OutOrStdout(), whatif.Known(cfg, user), o.asJSON)
			case file == "" && from != "-":
				return misuse("--token: write - and give the token on standard input: command lines end up in histories")
			}
			token, err := readToken(cmd.InOrStdin(), file)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			found, err := examine(ctx, o, running, admin.PastedToken{Text: token, View: view})
			if err != nil {
				return err
			}
			return testToken(cmd.OutOrStdout(), found, o.asJSON)
		})(cmd, args)
	}
	flags := cmd.Flags()
	namedConfig(cmd, &o.config)
	flags.BoolVar(&running, "running", false, "ask the gateway that runs with this configuration")
	flags.StringVar(&o.url, "admin", "",
		"`URL` of a gateway's admin listener, such as http://127.0.0.1:9090, in place of --config: ask that gateway")
	flags.StringVar(&from, "token", "", "`-` reads the token from standard input")
	flags.StringVar(&file, "token-file", "", "`FILE` with the token")
	flags.StringVar(&user, "user", "", "`NAME` of a user, in place of a token")
	flags.StringVar(&view, "view", "", "`NAME` of the view at whose endpoint the token comes")
	outputFlags(cmd, &o.asJSON, "print the result as JSON")
	flags.DurationVar(&timeout, "timeout", 20*time.Second, "how long to wait for the issuer")
	return cmd
}

// examine tests a token against a configuration, or has a running gateway test it.
func examine(ctx context.Context, o *operator, running bool, p admin.PastedToken) (found admin.Examined, err error) {
	if !running {
		cfg, _, err := config.Load(o.config)
		if err != nil {
			return found, err
		}
		return whatif.Examine(ctx, cfg, p.Text, p.View)
	}
	if err := o.find(); err != nil {
		return found, err
	}
	body, err := json.Marshal(p)
	if err != nil {
		return found, err
	}
	_, err = o.tell(ctx, http.MethodPost, "/api/v1/auth/test", body, &found)
	return found, err
}

// readToken reads a token.
func readToken(stdin io.Reader, file string) (string, error) {
	in := stdin
	if file != "" {
		f, err := os.Open(file)
		if err != nil {
			return "", err
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, mostToken))
	if err != nil {
		return "", err
	}
	return string(text), nil
}

// testToken prints the result of examining a token.
func testToken(w io.Writer, e admin.Examined, asJSON bool) error {
	if asJSON {
		if err := json.NewEncoder(w).Encode(e); err != nil {
			return err
		}
	} else {
		printExamined(w, e)
	}
	if !e.Good {
		return exitError(exitProblem)
	}
	return nil
}

func printExamined(w io.Writer, e admin.Examined) {
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(w, "  %-16s %s\n", shown(name), shown(value))
		}
	}
	fmt.Fprintf(w, "It is %s.\n", shown(e.Kind))
	for _, said := range e.Says {
		row(said.Name, said.Value)
	}
	if len(e.Steps) > 0 {
		fmt.Fprintln(w, "\nThe gateway looks at:")
	}
	for _, step := range e.Steps {
		row(string(step.Step), step.Result)
	}
	if c := e.Caller; c != nil {
		fmt.Fprintln(w, "\nAccepted. Policy reads of it:")
		row("issuer", c.Issuer)
		row("user", c.User)
		row("client", c.Client)
		row("groups", orNone(c.Groups))
		row("scopes", orNone(c.Scopes))
		row("claims", strings.Join(c.Claims, ", "))
		row("ends", e.Endings)
		row("rules for it", orNone(e.Rules))
	} else {
		fmt.Fprintf(w, "\nRefused: %s", shown(e.Reason))
		if e.Status != 0 {
			fmt.Fprintf(w, " (HTTP %d, %s)", e.Status, shown(e.Code))
		}
		fmt.Fprintln(w)
		if e.Detail != "" {
			fmt.Fprintln(w, "  "+shown(e.Detail))
		}
	}
	fmt.Fprintf(w, "\nNext: %s\n", shown(e.Next))
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// testUser prints what a configuration knows of a user.
func testUser(w io.Writer, k whatif.KnownUser, asJSON bool) error {
	switch {
	case asJSON:
		if err := json.NewEncoder(w).Encode(k); err != nil {
			return err
		}
	case len(k.Keys) == 0 && len(k.Rules) == 0:
		fmt.Fprintf(w, "Nothing is known of the user %s: no API key, and no rule names them. Rules by group need a token.\n\nNext: give their token to gatehouse auth test --token -\n", shown(k.User))
	default:
		now := time.Now()
		for _, e := range k.Keys {
			ends, _ := keyEnd(e, now)
			fmt.Fprintf(w, "API key %s%s %s\n  groups %s, scopes %s, views %s, ends %s\n", apikey.Prefix, e.ID, shown(e.Name),
				shown(orNone(e.Groups)), shown(orNone(e.Scopes)),
				shown(strings.Join(append([]string{}, e.Views...), ", ")+allViews(e.Views)), ends)
		}
		fmt.Fprintf(w, "Rules for %s: %s\n\nNext: gatehouse explain says what they decide on a call.\n", shown(k.User),
			shown(orNone(k.Rules)))
	}
	if len(k.Keys) == 0 && len(k.Rules) == 0 {
		return exitError(exitProblem)
	}
	return nil
}

func allViews(views []string) string {
	if len(views) == 0 {
		return "all"
	}
	return ""
}
