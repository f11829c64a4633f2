package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/gateway/whatif"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// Exit codes of explain, in addition to those of every command.
const (
	exitDeny = 3
	exitAsk  = 4
)

// methods are the methods that explain knows.
var methods = []string{mcp.MethodToolsCall, mcp.MethodPromptsGet, mcp.MethodResourcesRead, mcp.MethodSkillsGet}

func newExplain() *cobra.Command {
	var file, args, claims string
	var asJSON bool
	var q admin.Question
	cmd := &cobra.Command{
		Use:   "explain [--user U] [--groups G,...] METHOD NAME",
		Short: "Say what policy decides on a call, and why",
		Long: "Says what the policy of a configuration decides on a call, which rule decided, and\n" +
			"of every other rule why it did not. No upstream is asked, so arguments that a server\n" +
			"would refuse are fine.\n\n" +
			"METHOD is tools/call, prompts/get, resources/read or skills/get. NAME is what clients call it\n" +
			"(crm__export, crm+file:///a), or the upstream and its own name (crm/export), as in\n" +
			"rules also with the kind in front (tools:crm/export).\n\n" +
			"The exit code is 0 for allow, 3 for deny and 4 for ask; 1 for a problem and 2 for a\n" +
			"command line that makes no sense.",
		Example: "  gatehouse explain --user alice tools/call crm/export --args '{\"year\": 2026}'",
		Args:    needs("METHOD", "NAME"),
		RunE: func(cmd *cobra.Command, positional []string) error {
			q.Method, q.Name = positional[0], positional[1]
			if !slices.Contains(methods, q.Method) {
				return fmt.Errorf("method %q: want one of %s", q.Method, strings.Join(methods, ", "))
			}
			for _, name := range []string{"args", "claims"} {
				var object map[string]any
				if f := cmd.Flags().Lookup(name); f.Changed && json.Unmarshal([]byte(f.Value.String()), &object) != nil {
					return fmt.Errorf("--%s: want a JSON object", name)
				}
			}
			if cmd.Flags().Changed("args") {
				q.Args = []byte(args)
			}
			if cmd.Flags().Changed("claims") {
				q.Claims = []byte(claims)
			}
			return printAnswer(cmd, file, asJSON, q)
		},
	}
	configFlag(cmd, &file)
	flags := cmd.Flags()
	flags.StringVar(&q.User, "user", "", "`SUBJECT` of the token")
	flags.StringSliceVar(&q.Groups, "groups", nil, "`GROUPS` of the user")
	flags.StringVar(&q.Issuer, "issuer", "", "`URL` of the token's issuer (default: the only one that is configured)")
	flags.StringSliceVar(&q.Scopes, "scopes", nil, "`SCOPES` of the token")
	flags.StringVar(&q.Client, "client", "", "`ID` of the OAuth client")
	flags.StringVar(&q.View, "view", "", "`NAME` of the view at whose endpoint the call comes")
	flags.StringVar(&claims, "claims", "", "other claims of the token, as a `JSON` object")
	outputFlags(cmd, &asJSON, "print the decision as JSON")
	flags.StringVar(&args, "args", "", "arguments of the call, as a `JSON` object")
	return cmd
}

// printAnswer prints the decision of policy, and sets the exit code to it.
func printAnswer(cmd *cobra.Command, file string, asJSON bool, q admin.Question) error {
	cfg, _, err := config.Load(file)
	if err != nil {
		return &problemError{err}
	}
	answer, err := whatif.Explain(cmd.Context(), cfg, q)
	if err != nil {
		return &problemError{err}
	}
	if asJSON {
		err = printJSON(cmd.OutOrStdout(), answer)
	} else {
		err = printReasons(cmd, answer)
	}
	if err != nil {
		return &problemError{err}
	}
	switch answer.Effect {
	case "deny":
		return exitError(exitDeny)
	case "ask":
		return exitError(exitAsk)
	}
	return nil
}

// printReasons prints a decision for people.
func printReasons(cmd *cobra.Command, answer admin.Answer) error {
	for _, note := range answer.Notes {
		fmt.Fprintf(cmd.ErrOrStderr(), "note: %s\n", note)
	}
	text := answer.Text
	if len(answer.Hooks) > 0 {
		text += "\n" + strings.Join(answer.Hooks, "\n") + "\n"
	}
	_, err := fmt.Fprint(cmd.OutOrStdout(), text)
	return err
}
