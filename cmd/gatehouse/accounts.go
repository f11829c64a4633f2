package main

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
)

// newAccounts shows and ends users' own accounts at servers.
func newAccounts() *cobra.Command {
	o := &operator{role: admin.RoleViewer}
	cmd := &cobra.Command{
		Use:     "accounts USER",
		Short:   "Show a user's own accounts at servers, or end one",
		Long:    "Shows the accounts that a user has at servers where each user signs in (user_oauth), and their\nstates. USER is the subject of the user's tokens, as records and the log have it.",
		Example: "  gatehouse accounts -c gatehouse.yaml alice\n  gatehouse accounts revoke -c gatehouse.yaml alice wiki",
		Args:    needs("USER"),
	}
	issuer := cmd.Flags().String("issuer", "", "the issuer that knows the user (default: any)")
	cmd.AddCommand(newAccountsRevoke())
	return operatorCommand(cmd, o, func(cmd *cobra.Command, args []string) error {
		var answer struct {
			Accounts []admin.Account `json:"accounts"`
		}
		text, err := o.ask(cmd.Context(), http.MethodGet, "/api/v1/accounts", ofUser(args[0], *issuer), &answer)
		w := cmd.OutOrStdout()
		if err != nil || o.asJSON {
			_, failed := w.Write(text)
			return cmp.Or(err, failed)
		}
		if len(answer.Accounts) == 0 {
			_, err := fmt.Fprintln(cmd.ErrOrStderr(), "there is no server where users have accounts of their own")
			return err
		}
		now := time.Now()
		t := newTable(w, "SERVER", "STATE", "SIGNED IN", "USED", "ISSUER", "WHY")
		for _, a := range answer.Accounts {
			t.add(cell{a.Server, plain}, cell{a.State, accountColour(a.State)}, cell{whenEver(a.Since, now), plain},
				cell{whenEver(a.Used, now), plain},
				cell{a.Issuer, plain}, cell{a.Why, plain})
		}
		return t.flush()
	})
}

func ofUser(user, issuer string) url.Values {
	asked := url.Values{"user": {user}}
	if issuer != "" {
		asked.Set("issuer", issuer)
	}
	return asked
}

func accountColour(state string) string {
	switch state {
	case "ok":
		return green
	case "needs_sign_in":
		return dim
	}
	return red
}

// whenEver writes how long ago a time was, - for never.
func whenEver(at, now time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return ago(at, now)
}

func newAccountsRevoke() *cobra.Command {
	o := &operator{role: admin.RoleOperator}
	cmd := &cobra.Command{
		Use:     "revoke USER SERVER",
		Short:   "End a user's own account at a server",
		Long:    "Ends an account as if its user had signed out: the gateway forgets the tokens and has them\nrevoked. The user may sign in again: to keep a user out of a server, use policy.",
		Example: "  gatehouse accounts revoke -c gatehouse.yaml alice wiki",
		Args:    needs("USER", "SERVER"),
	}
	issuer := cmd.Flags().String("issuer", "", "the issuer that knows the user (default: the only one)")
	return operatorCommand(cmd, o, func(cmd *cobra.Command, args []string) error {
		resp, err := o.request(cmd.Context(), http.MethodDelete, "/api/v1/accounts/"+url.PathEscape(args[1]),
			ofUser(args[0], *issuer), http.StatusNoContent)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if o.asJSON {
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "{\"ended\":%q}\n", args[1])
			return err
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "ended the account of %s at %s\n", shown(args[0]), shown(args[1]))
		return err
	})
}
