package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/auth/vault"
	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// TestAccountsOfUsers: a call has the token of its user's account, and of nobody else's; operators
// see the accounts of a user and end one; then the user has to sign in.
func TestAccountsOfUsers(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	site := newSite(t, true, one("work", saying("x")))
	c, issuer := withIssuer(t)
	c.write(t, operatorsConfig+fmt.Sprintf("upstreams: [{name: wiki, url: %q, auth: {type: user_oauth}}]\npublic_url: %q\npolicy: {default: allow}\naccounts: {sign_in: {client_id: pages}}\nauth: {mode: oauth, issuers: [{url: %q}]}\n",
		site.url, issuer.Audience, issuer.URL))
	c.run(t)
	for _, user := range []string{"ann", "bob"} {
		err := c.vault.Keep(ctx, vault.Owner{Issuer: issuer.URL, User: user}, "wiki",
			vault.Grant{AccessToken: "of-" + user, URL: site.url, Expires: time.Now().Add(time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	call := func(user string) string {
		t.Helper()
		client := mcptest.NewClient(c.URL(), wire.Lookup(stateless))
		client.HTTP = &http.Client{Transport: transport}
		client.Header = http.Header{"Authorization": {"Bearer " + issuer.Token(map[string]any{"sub": user})}}
		x, err := client.Send(ctx, "tools/call", `{"name":"wiki__work","arguments":{}}`)
		if err != nil {
			t.Fatal(err)
		}
		m, err := x.Response()
		if err != nil {
			t.Fatal(err)
		}
		return m.Text
	}
	seen := func() []string {
		site.mu.Lock()
		defer site.mu.Unlock()
		all := slices.Compact(slices.Sorted(slices.Values(site.tokens)))
		site.tokens = nil
		return all
	}
	for _, user := range []string{"ann", "bob"} {
		if got := call(user); !strings.Contains(got, `"x"`) {
			t.Errorf("%s: %s", user, got)
		}
		if got := seen(); len(got) != 1 || got[0] != "Bearer of-"+user {
			t.Errorf("the calls of %s had the tokens %q", user, got)
		}
	}
	if got := call("carol"); !strings.Contains(got, "GH-SIGN-IN-NEEDED") && !strings.Contains(got, "sign in") ||
		len(seen()) > 0 {
		t.Errorf("carol: %s", got)
	}

	o := operatorsOf(t, c)
	const accounts = "/api/v1/accounts"
	state := func(user string) admin.Account {
		t.Helper()
		var answer struct{ Accounts []admin.Account }
		status, text := o.ask(t, viewerToken, http.MethodGet, accounts, accounts+"?user="+user, "")
		if status != http.StatusOK || json.Unmarshal([]byte(text), &answer) != nil || len(answer.Accounts) != 1 ||
			strings.Contains(text, "of-") {
			t.Fatalf("%d %s", status, text)
		}
		return answer.Accounts[0]
	}
	if a := state("ann"); a.State != "ok" || a.Server != "wiki" || a.Issuer != issuer.URL || a.Since.IsZero() {
		t.Errorf("ann: %+v", a)
	}
	if status, _ := o.ask(t, viewerToken, http.MethodGet, accounts, accounts, ""); status != http.StatusBadRequest {
		t.Errorf("of nobody: %d", status)
	}
	for _, end := range []struct {
		token, path string
		want        int
	}{
		{viewerToken, "/wiki?user=ann", http.StatusForbidden}, {operatorToken, "/none?user=ann", http.StatusNotFound},
		{operatorToken, "/wiki", http.StatusBadRequest}, {operatorToken, "/wiki?user=ann", http.StatusNoContent},
		{operatorToken, "/wiki?user=ann", http.StatusNoContent},
	} {
		if status, answer := o.ask(t, end.token, http.MethodDelete, accounts+"/{upstream}", accounts+end.path,
			""); status != end.want {
			t.Errorf("%s: %d %s, want %d", end.path, status, answer, end.want)
		}
	}
	if a := state("ann"); a.State != "needs_sign_in" {
		t.Errorf("ann: %+v", a)
	}
	if got := call("ann"); strings.Contains(got, `"x"`) || len(seen()) > 0 {
		t.Errorf("ann, who has no account any more: %s", got)
	}
	if got := call("bob"); !strings.Contains(got, `"x"`) {
		t.Errorf("bob: %s", got)
	}
	if _, text := ask(t, c.AdminAddr().String(), "/metrics"); !strings.Contains(text,
		`gatehouse_accounts{state="ok",upstream="wiki"} 1`) &&
		!strings.Contains(text, `gatehouse_accounts{upstream="wiki",state="ok"} 1`) {
		t.Error("the account of bob is not counted")
	}
	_, records := o.ask(t, auditorToken, http.MethodGet, "/api/v1/decisions", "/api/v1/decisions?kind=credential", "")
	for _, want := range []string{`"event":"signed in"`, `"event":"signed out"`} {
		if !strings.Contains(records, want) {
			t.Errorf("no record %s: %s", want, records)
		}
	}
}
